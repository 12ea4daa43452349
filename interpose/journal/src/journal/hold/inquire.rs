//! Queries about files and the machine.
//!
//! The first trial replay executes and records them. Every other replay answers them from this
//! record.
#![allow(unsafe_code)]

use super::files;
use super::filter_state::{Fate, Hold, make};
use crate::journal::inputs::{Outcome, STAT};
use std::ffi::{CStr, c_long};

/// Lengths in bytes of the kernel's `struct statfs`, `struct statx`, `struct sysinfo` and `struct
/// rlimit`.
const STATFS: usize = 120;
const STATX: usize = 256;
const SYSINFO: usize = 112;
const LIMIT: usize = 16;

/// Number of bytes that a call writes.
#[derive(Clone, Copy)]
enum Size {
    /// Number of bytes.
    Fixed(usize),
    /// The return value, limited by the argument with this index.
    Returned(usize),
}

/// Arguments of a query, by index.
struct Question {
    texts: &'static [usize],
    /// Arguments besides the texts that determine the answer.
    values: &'static [usize],
    /// Argument that points to the output, and the output's length.
    answer: Option<(usize, Size)>,
}

const fn question(
    texts: &'static [usize],
    values: &'static [usize],
    answer: Option<(usize, Size)>,
) -> Question {
    Question {
        texts,
        values,
        answer,
    }
}

fn question_of(number: c_long) -> Option<Question> {
    use Size::{Fixed, Returned};
    Some(match number {
        libc::SYS_stat | libc::SYS_lstat => question(&[0], &[], Some((1, Fixed(STAT)))),
        libc::SYS_fstat => question(&[], &[0], Some((1, Fixed(STAT)))),
        libc::SYS_newfstatat => question(&[1], &[0, 3], Some((2, Fixed(STAT)))),
        libc::SYS_statx => question(&[1], &[0, 2, 3], Some((4, Fixed(STATX)))),
        libc::SYS_access => question(&[0], &[1], None),
        libc::SYS_faccessat => question(&[1], &[0, 2], None),
        libc::SYS_faccessat2 => question(&[1], &[0, 2, 3], None),
        libc::SYS_readlink => question(&[0], &[2], Some((1, Returned(2)))),
        libc::SYS_readlinkat => question(&[1], &[0, 3], Some((2, Returned(3)))),
        libc::SYS_statfs => question(&[0], &[], Some((1, Fixed(STATFS)))),
        libc::SYS_fstatfs => question(&[], &[0], Some((1, Fixed(STATFS)))),
        libc::SYS_getdents | libc::SYS_getdents64 => question(&[], &[0, 2], Some((1, Returned(2)))),
        libc::SYS_getcwd => question(&[], &[1], Some((0, Returned(1)))),
        libc::SYS_getxattr | libc::SYS_lgetxattr => question(&[0, 1], &[3], Some((2, Returned(3)))),
        libc::SYS_fgetxattr => question(&[1], &[0, 3], Some((2, Returned(3)))),
        libc::SYS_listxattr | libc::SYS_llistxattr => question(&[0], &[2], Some((1, Returned(2)))),
        libc::SYS_flistxattr => question(&[], &[0, 2], Some((1, Returned(2)))),
        libc::SYS_sysinfo => question(&[], &[], Some((0, Fixed(SYSINFO)))),
        // The thread number is left out, since it differs between processes.
        libc::SYS_sched_getaffinity => question(&[], &[1], Some((2, Returned(1)))),
        libc::SYS_getpriority => question(&[], &[0], None),
        libc::SYS_getrlimit => question(&[], &[0], Some((1, Fixed(LIMIT)))),
        libc::SYS_prlimit64 => question(&[], &[1], Some((3, Fixed(LIMIT)))),
        _ => return None,
    })
}

/// Returns the disposition of a query.
pub fn fate(hold: &mut Hold, number: c_long, a: &[i64; 6]) -> Fate {
    let Some(question) = question_of(number) else {
        return Fate::GiveUp;
    };
    let is_null = |&at: &usize| a[at] == 0;
    if question.texts.iter().any(is_null) || question.answer.iter().any(|(at, _)| is_null(at)) {
        // With null pointers, programs query features of the kernel or the length of an answer.
        return Fate::Pass;
    }
    // SAFETY: the program passed these strings.
    let texts = question
        .texts
        .iter()
        .map(|&at| unsafe { CStr::from_ptr(a[at] as *const _) }.to_bytes());
    let texts: Vec<&[u8]> = texts.collect();
    let values: Vec<i64> = question.values.iter().map(|&at| a[at]).collect();
    if let Some(about) = own_stat(hold, number, a, &texts) {
        // SAFETY: the call writes as many bytes at this address.
        unsafe {
            std::ptr::copy_nonoverlapping(
                about.as_ptr(),
                a[question.answer.map_or(0, |(at, _)| at)] as *mut u8,
                STAT,
            )
        };
        return Fate::Answer(0);
    }
    let key = files::key(number, &values, &texts);
    if let Some(Outcome::Result(result, bytes)) = hold.asked.next(&key) {
        if let Some((at, _)) = question.answer {
            // SAFETY: the recorded call wrote as many bytes to this argument's address.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), a[at] as *mut u8, bytes.len()) };
        }
        return Fate::Answer(result);
    }
    // SAFETY: this is the call that the program made, with its arguments.
    let result = unsafe { make(number, a) };
    let bytes = match question.answer {
        Some((at, size)) if result >= 0 => {
            let length = match size {
                Size::Fixed(length) => length,
                Size::Returned(room) => result.min(a[room]).max(0) as usize,
            };
            // SAFETY: the call wrote as many bytes.
            unsafe { std::slice::from_raw_parts(a[at] as *const u8, length) }.to_vec()
        }
        _ => Vec::new(),
    };
    match hold.asked.record(key, Outcome::Result(result, bytes)) {
        Ok(()) => Fate::Answer(result),
        Err(_) => Fate::GiveUp,
    }
}

/// Returns the recorded stat(2) result for fstat(2) of a file with recorded contents.
fn own_stat<'a>(hold: &'a Hold, number: c_long, a: &[i64; 6], texts: &[&[u8]]) -> Option<&'a [u8]> {
    let is_of_descriptor = match number {
        libc::SYS_fstat => true,
        libc::SYS_newfstatat => texts == [b""] && a[3] & i64::from(libc::AT_EMPTY_PATH) != 0,
        _ => false,
    };
    if is_of_descriptor {
        files::stat_of(hold, a[0])
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_policy::dispositions::{self, Disposition};

    #[test]
    fn every_question_has_its_arguments() {
        for number in 0..500 {
            // prlimit(2) may also change a limit.
            let is_question =
                dispositions::of(number) == Disposition::Inquire || number == libc::SYS_prlimit64;
            assert_eq!(question_of(number).is_some(), is_question, "{number}");
        }
    }
}
