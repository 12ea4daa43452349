//! Attributes of the process and of its main thread that the program may change.
//!
//! Attributes that the program has not changed since the start have the launcher's values. A
//! replacement keeps its own launcher's values of these attributes, for example the processors to
//! which the launcher has bound it.
#![allow(unsafe_code)]

use super::memory_policy;
use std::fs;
use understudy_catalogue::message;
use understudy_formats::proc_file::ProcFile;

/// Value of an attribute in the kernel's format; empty if not supported.
pub(super) type AttributeValue = Vec<u8>;

struct Attribute {
    name: &'static str,
    read: fn() -> AttributeValue,
    write: fn(&[u8]) -> bool,
    /// True if only the calling thread can read and set the attribute.
    is_callers: bool,
}

const ATTRIBUTES: [Attribute; 10] = [
    Attribute {
        name: "the set of processors",
        read: processors,
        write: set_processors,
        is_callers: false,
    },
    Attribute {
        name: "the scheduling policy",
        read: scheduling,
        write: set_scheduling,
        is_callers: false,
    },
    Attribute {
        name: "the I/O priority",
        read: io_priority,
        write: set_io_priority,
        is_callers: false,
    },
    Attribute {
        name: "the timer slack",
        read: || read_file(&SLACK),
        write: |value| set_file("timerslack_ns", value),
        is_callers: false,
    },
    Attribute {
        name: "the OOM score adjustment",
        read: || read_file(&OOM_SCORE),
        write: |value| set_file("oom_score_adj", value),
        is_callers: false,
    },
    Attribute {
        name: "the filter of core dumps",
        read: || read_file(&DUMP_FILTER),
        write: |value| set_file("coredump_filter", &[b"0x", value].concat()),
        is_callers: false,
    },
    Attribute {
        name: "the memory policy",
        read: memory_policy::of_thread,
        write: memory_policy::set_of_thread,
        is_callers: true,
    },
    Attribute {
        name: "no_new_privs",
        read: || control(libc::PR_GET_NO_NEW_PRIVS),
        write: |value| set_control(libc::PR_SET_NO_NEW_PRIVS, value),
        is_callers: true,
    },
    Attribute {
        name: "the dumpable attribute",
        read: || control(libc::PR_GET_DUMPABLE),
        write: |value| set_control(libc::PR_SET_DUMPABLE, value),
        is_callers: false,
    },
    Attribute {
        name: "the use of transparent huge pages",
        read: || control(libc::PR_GET_THP_DISABLE),
        write: |value| set_control(libc::PR_SET_THP_DISABLE, value),
        is_callers: false,
    },
];

/// Values that the program has changed; `None` for unchanged ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ChangedAttributes(Vec<Option<AttributeValue>>);

/// Returns the values at the start of the process.
pub(super) fn at_start() -> Vec<AttributeValue> {
    ATTRIBUTES.iter().map(|it| (it.read)()).collect()
}

/// Returns the values that differ from those at the start.
pub(super) fn capture(start: &[AttributeValue]) -> ChangedAttributes {
    let now = ATTRIBUTES.iter().map(|it| (it.read)());
    let changed = now.zip(start);
    ChangedAttributes(
        changed
            .map(|(now, then)| (now != *then).then_some(now))
            .collect(),
    )
}

/// Sets the values of the checkpoint.
///
/// An attribute that the program had not changed gets its value from the start of this process.
/// `is_mains` is true if the main thread made the cut and is the calling thread.
pub(super) fn restore(start: &[AttributeValue], saved: &ChangedAttributes, is_mains: bool) {
    for ((attribute, saved), start) in ATTRIBUTES.iter().zip(&saved.0).zip(start) {
        let wanted = saved.as_ref().unwrap_or(start);
        if attribute.is_callers && !is_mains || (attribute.read)() == *wanted {
            continue;
        }
        if !(attribute.write)(wanted) {
            log::warn!(
                "{}",
                message::attribute_not_restored(attribute.name, std::io::Error::last_os_error())
            );
        }
    }
}

/// Returns the number of the main thread.
fn main_thread() -> libc::c_long {
    libc::c_long::from(std::process::id())
}

/// Size of the largest set of processors that is read, in bytes.
const MASK_BYTES: usize = 1024;

fn processors() -> AttributeValue {
    let mut mask = vec![0u8; MASK_BYTES];
    // SAFETY: sched_getaffinity(2) writes at most this number of bytes, and returns their number.
    let length = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            main_thread(),
            mask.len(),
            mask.as_mut_ptr(),
        )
    };
    mask.truncate(length.max(0) as usize);
    mask
}

fn set_processors(mask: &[u8]) -> bool {
    // SAFETY: sched_setaffinity(2) with a mask of this length.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            main_thread(),
            mask.len(),
            mask.as_ptr(),
        ) == 0
    }
}

/// Length of `struct sched_attr` up to the nice value, priority and deadlines (sched_setattr(2)).
const SCHED_ATTR_BYTES: usize = 48;

fn scheduling() -> AttributeValue {
    let mut attributes = vec![0u8; SCHED_ATTR_BYTES];
    // SAFETY: sched_getattr(2) writes a structure of this length.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            main_thread(),
            attributes.as_mut_ptr(),
            attributes.len(),
            0,
        )
    };
    attributes.truncate(if rc == 0 { SCHED_ATTR_BYTES } else { 0 });
    attributes
}

fn set_scheduling(attributes: &[u8]) -> bool {
    // SAFETY: sched_setattr(2) with a structure whose first field is its length.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            main_thread(),
            attributes.as_ptr(),
            0,
        ) == 0
    }
}

/// `IOPRIO_WHO_PROCESS` of ioprio_get(2).
const IO_PROCESS: libc::c_long = 1;

fn io_priority() -> AttributeValue {
    // SAFETY: ioprio_get(2) accesses no memory.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, IO_PROCESS, main_thread()) };
    priority.to_ne_bytes().to_vec()
}

fn number(value: &[u8]) -> libc::c_long {
    value.try_into().map_or(0, libc::c_long::from_ne_bytes)
}

fn set_io_priority(value: &[u8]) -> bool {
    // SAFETY: ioprio_set(2) accesses no memory.
    unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IO_PROCESS,
            main_thread(),
            number(value),
        ) == 0
    }
}

static SLACK: ProcFile = ProcFile::new("/proc/self/timerslack_ns");
static OOM_SCORE: ProcFile = ProcFile::new("/proc/self/oom_score_adj");
static DUMP_FILTER: ProcFile = ProcFile::new("/proc/self/coredump_filter");

fn read_file(file: &ProcFile) -> AttributeValue {
    file.read().unwrap_or_default().trim_ascii().into()
}

fn set_file(name: &str, value: &[u8]) -> bool {
    fs::write(format!("/proc/self/{name}"), value).is_ok()
}

/// Returns the result of a query with prctl(2).
fn control(what: libc::c_int) -> AttributeValue {
    // SAFETY: prctl(2) that only queries.
    let answer = unsafe { libc::syscall(libc::SYS_prctl, what, 0, 0, 0, 0) };
    answer.to_ne_bytes().to_vec()
}

fn set_control(what: libc::c_int, value: &[u8]) -> bool {
    // SAFETY: prctl(2) sets a number that was read before, and accesses no memory.
    unsafe { libc::syscall(libc::SYS_prctl, what, number(value), 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_read_and_can_be_set_to_what_it_is() {
        for attribute in &ATTRIBUTES {
            let value = (attribute.read)();
            assert!(!value.is_empty(), "{}", attribute.name);
            // This attribute can only be set, and never be cleared.
            if attribute.name != "no_new_privs" {
                assert!((attribute.write)(&value), "{}", attribute.name);
                assert_eq!((attribute.read)(), value, "{}", attribute.name);
            }
        }
    }
}
