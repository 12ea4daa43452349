//! Queries about files and the machine.
//!
//! The first trial replay executes the queries and records the answers. Later replays answer the
//! queries from this record; they execute a query that the record lacks.
#![allow(unsafe_code)]

use super::files;
use super::filter_state::{CallDisposition, FilterState, syscall};
use crate::journal::inputs::{STAT_BYTES, SyscallOutcome};
use std::ffi::{CStr, c_long};

/// Length in bytes of the kernel's `struct statfs`.
const STATFS: usize = 120;
/// Length in bytes of the kernel's `struct statx`.
const STATX: usize = 256;
/// Length in bytes of the kernel's `struct sysinfo`.
const SYSINFO: usize = 112;
/// Length in bytes of the kernel's `struct rlimit`.
const LIMIT: usize = 16;

/// Number of bytes that a call writes.
#[derive(Clone, Copy)]
enum AnswerLength {
    Fixed(usize),
    /// The call's return value, at most the argument with this index (the buffer's size).
    Returned(usize),
}

/// Arguments of a query, by index.
struct Query {
    /// Arguments that are strings.
    texts: &'static [usize],
    /// Arguments other than texts that determine the answer.
    values: &'static [usize],
    /// Argument that points to the output, and the output's length.
    answer: Option<(usize, AnswerLength)>,
}

const fn query(
    texts: &'static [usize],
    values: &'static [usize],
    answer: Option<(usize, AnswerLength)>,
) -> Query {
    Query {
        texts,
        values,
        answer,
    }
}

fn query_of(number: c_long) -> Option<Query> {
    use AnswerLength::{Fixed, Returned};
    Some(match number {
        libc::SYS_stat | libc::SYS_lstat => query(&[0], &[], Some((1, Fixed(STAT_BYTES)))),
        libc::SYS_fstat => query(&[], &[0], Some((1, Fixed(STAT_BYTES)))),
        libc::SYS_newfstatat => query(&[1], &[0, 3], Some((2, Fixed(STAT_BYTES)))),
        libc::SYS_statx => query(&[1], &[0, 2, 3], Some((4, Fixed(STATX)))),
        libc::SYS_access => query(&[0], &[1], None),
        libc::SYS_faccessat => query(&[1], &[0, 2], None),
        libc::SYS_faccessat2 => query(&[1], &[0, 2, 3], None),
        libc::SYS_readlink => query(&[0], &[2], Some((1, Returned(2)))),
        libc::SYS_readlinkat => query(&[1], &[0, 3], Some((2, Returned(3)))),
        libc::SYS_statfs => query(&[0], &[], Some((1, Fixed(STATFS)))),
        libc::SYS_fstatfs => query(&[], &[0], Some((1, Fixed(STATFS)))),
        libc::SYS_getdents | libc::SYS_getdents64 => query(&[], &[0, 2], Some((1, Returned(2)))),
        libc::SYS_getcwd => query(&[], &[1], Some((0, Returned(1)))),
        libc::SYS_getxattr | libc::SYS_lgetxattr => query(&[0, 1], &[3], Some((2, Returned(3)))),
        libc::SYS_fgetxattr => query(&[1], &[0, 3], Some((2, Returned(3)))),
        libc::SYS_listxattr | libc::SYS_llistxattr => query(&[0], &[2], Some((1, Returned(2)))),
        libc::SYS_flistxattr => query(&[], &[0, 2], Some((1, Returned(2)))),
        libc::SYS_sysinfo => query(&[], &[], Some((0, Fixed(SYSINFO)))),
        // The thread number differs between processes, so it is not part of the key.
        libc::SYS_sched_getaffinity => query(&[], &[1], Some((2, Returned(1)))),
        libc::SYS_getpriority => query(&[], &[0], None),
        libc::SYS_getrlimit => query(&[], &[0], Some((1, Fixed(LIMIT)))),
        libc::SYS_prlimit64 => query(&[], &[1], Some((3, Fixed(LIMIT)))),
        _ => return None,
    })
}

/// Returns the disposition of a query.
pub fn decide(filter: &mut FilterState, number: c_long, a: &[i64; 6]) -> CallDisposition {
    let Some(query) = query_of(number) else {
        return CallDisposition::EndReplay;
    };
    let is_null = |&at: &usize| a[at] == 0;
    if query.texts.iter().any(is_null) || query.answer.iter().any(|(at, _)| is_null(at)) {
        // The call writes nothing, or fails with EFAULT: there is no answer to be recorded.
        return CallDisposition::Pass;
    }
    // SAFETY: the calls make the program responsible for valid strings, which are not null here.
    let texts = query
        .texts
        .iter()
        .map(|&at| unsafe { CStr::from_ptr(a[at] as *const _) }.to_bytes());
    let texts: Vec<&[u8]> = texts.collect();
    let values: Vec<i64> = query.values.iter().map(|&at| a[at]).collect();
    if let Some(stat) = recorded_stat(filter, number, a, &texts) {
        // SAFETY: the call that is answered writes a structure of `STAT_BYTES` bytes at this
        // address.
        unsafe {
            std::ptr::copy_nonoverlapping(
                stat.as_ptr(),
                a[query.answer.map_or(0, |(at, _)| at)] as *mut u8,
                STAT_BYTES,
            )
        };
        return CallDisposition::ReturnValue(0);
    }
    let key = files::key(number, &values, &texts);
    if let Some(SyscallOutcome::Result(result, bytes)) = filter.inputs.next(&key) {
        if let Some((at, _)) = query.answer {
            // SAFETY: the recorded call wrote `bytes.len()` bytes to this argument's address.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), a[at] as *mut u8, bytes.len()) };
        }
        return CallDisposition::ReturnValue(result);
    }
    // SAFETY: this is the call that the program made, with its arguments.
    let result = unsafe { syscall(number, a) };
    let bytes = match query.answer {
        Some((at, answer_length)) if result >= 0 => {
            let length = match answer_length {
                AnswerLength::Fixed(length) => length,
                AnswerLength::Returned(size) => result.min(a[size]).max(0) as usize,
            };
            // SAFETY: the call wrote `length` bytes at this address.
            unsafe { std::slice::from_raw_parts(a[at] as *const u8, length) }.to_vec()
        }
        _ => Vec::new(),
    };
    match filter
        .inputs
        .record(key, SyscallOutcome::Result(result, bytes))
    {
        Ok(()) => CallDisposition::ReturnValue(result),
        Err(_) => CallDisposition::EndReplay,
    }
}

/// Returns the recorded stat(2) result for fstat(2) of a file with recorded contents.
///
/// Without this answer the program would receive attributes of the file in memory that has the
/// recorded contents. statx(2) and fstatfs(2) do return those. They differ from the answers that
/// the worker has received, so the comparison after the trial replay finds the pages that contain
/// them, and these pages stay in the replicas.
fn recorded_stat<'a>(
    filter: &'a FilterState,
    number: c_long,
    a: &[i64; 6],
    texts: &[&[u8]],
) -> Option<&'a [u8]> {
    let is_of_descriptor = match number {
        libc::SYS_fstat => true,
        libc::SYS_newfstatat => texts == [b""] && a[3] & i64::from(libc::AT_EMPTY_PATH) != 0,
        _ => false,
    };
    if is_of_descriptor {
        files::recorded_stat(filter, a[0])
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_policy::syscall_dispositions::{self, Disposition};

    #[test]
    fn every_query_has_its_arguments() {
        for number in 0..500 {
            // prlimit(2) may also change a limit.
            let is_query = syscall_dispositions::disposition_of(number) == Disposition::Query
                || number == libc::SYS_prlimit64;
            assert_eq!(query_of(number).is_some(), is_query, "{number}");
        }
    }
}
