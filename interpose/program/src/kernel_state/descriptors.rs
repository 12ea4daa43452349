//! Descriptors, by the name of their kind (`user::files::kinds`).

use super::row::Handling::{Differs, Refused, Restored};
use super::row::Row;

/// Row of a kind that is restored.
const fn restored(name: &'static str, test: &'static str) -> Row {
    Row {
        name,
        handling: Restored,
        test,
    }
}

/// Row of a kind that is refused.
const fn refused(name: &'static str, why: &'static str) -> Row {
    Row {
        name,
        handling: Refused(why),
        test: "kernel_state::descriptors_that_cannot_be_restored_are_refused",
    }
}

const NETWORK: &str = "queues and registered memory of a network device are in the device; \
                       let the program leave the network to MPI";
const ACCELERATOR: &str = "what an accelerator holds is not in the program's memory; \
                           let the program close it";
const RING: &str = "its requests are in the kernel; let the program use read(2) and write(2)";
const OTHER_PROCESS: &str = "another process has its other end; let the program close it";
const ONE_HOST: &str = "its address may be that of one host; \
                        let the program listen at the loopback address or at any";
const TERMINAL: &str = "the settings of a terminal are shared with other processes; \
                        let the program close it after use";

/// Kinds of descriptors; the first matching row applies.
pub const DESCRIPTORS: &[Row] = &[
    restored("file", "files::files_are_undisturbed_by_a_failure"),
    restored("directory", "conformance::directories_and_devices"),
    restored("path", "programs_table::path_descriptors"),
    restored("removed file", "programs_table::scratch"),
    restored("memfd", "programs_table::sealed_memory"),
    restored("proc:self", "programs_table::proc_files"),
    refused(
        "proc:other",
        "it describes another process or thread; let the program close it",
    ),
    refused(
        "removed directory",
        "its name was removed; let the program close it",
    ),
    refused(
        "removed path",
        "its name was removed; let the program close it",
    ),
    refused(
        "hugetlbfs",
        "its pages are of a pool that another process may find empty; let the program close it",
    ),
    refused(
        "memfd_secret",
        "the kernel does not let other processes read it; let the program close it",
    ),
    restored("mqueue", "programs_table::posix_queues"),
    refused(
        "namespace",
        "it stands for a namespace of this process; let the program close it",
    ),
    restored("pipe", "programs_table::duplicates"),
    refused("pipe:other", OTHER_PROCESS),
    refused("fifo", OTHER_PROCESS),
    restored("socket:unix:pair", "programs_table::socket_pairs"),
    restored("socket:unix:new", "programs_table::socket_pairs"),
    restored("socket:inet:new", "programs_table::socket_pairs"),
    restored("socket:inet6:new", "programs_table::socket_pairs"),
    restored("socket:unix:listener", "programs_table::listeners"),
    restored("socket:inet:listener", "programs_table::listeners"),
    restored("socket:inet6:listener", "programs_table::listeners"),
    restored("socket:inet:pair", "programs_table::loopback_pairs"),
    restored("socket:inet6:pair", "programs_table::loopback_pairs"),
    refused("socket:inet:address", ONE_HOST),
    refused("socket:inet6:address", ONE_HOST),
    Row {
        name: "socket:unix:service",
        handling: Differs("it is closed in a replacement; the C library's client connects again"),
        test: "",
    },
    refused("socket:unix:*", OTHER_PROCESS),
    refused(
        "socket:*",
        "its connection is in the kernel; let the program close it",
    ),
    restored("anon_inode:[eventfd]", "programs_table::duplicates"),
    restored("anon_inode:[timerfd]", "programs_table::duplicates"),
    restored("anon_inode:[signalfd]", "programs_table::duplicates"),
    restored("anon_inode:[eventpoll]", "programs_table::duplicates"),
    refused("anon_inode:[io_uring]", RING),
    refused(
        "anon_inode:inotify",
        "the kernel does not report the names of watched files; let the program close it",
    ),
    refused(
        "anon_inode:[perf_event]",
        "its counters count this process alone; let the program close it",
    ),
    refused(
        "anon_inode:[pidfd]",
        "it stands for one process; let the program close it",
    ),
    refused(
        "pidfd:*",
        "it stands for one process; let the program close it",
    ),
    refused(
        "anon_inode:[userfaultfd]",
        "its ranges are handled by this process alone; let the program close it",
    ),
    refused(
        "anon_inode:[fanotify]",
        "the kernel does not report the watched objects; let the program close it",
    ),
    refused(
        "anon_inode:bpf*",
        "its content is in the kernel; let the program close it",
    ),
    refused("/dev/infiniband/*", NETWORK),
    refused("/dev/cxi*", NETWORK),
    refused("/dev/hfi1*", NETWORK),
    refused("/dev/nvidia*", ACCELERATOR),
    refused("/dev/kfd", ACCELERATOR),
    refused("/dev/dri/*", ACCELERATOR),
    restored("/dev/null", "conformance::directories_and_devices"),
    restored("/dev/zero", "conformance::directories_and_devices"),
    restored("/dev/full", "programs_table::proc_files"),
    restored("/dev/random", "programs_table::proc_files"),
    restored("/dev/urandom", "programs_table::proc_files"),
    restored("terminal:standard", ""),
    refused("/dev/pts/*", TERMINAL),
    refused("/dev/ptmx", TERMINAL),
    refused("/dev/tty*", TERMINAL),
];

#[cfg(test)]
mod tests {
    use super::super::row::refusal;
    use super::{DESCRIPTORS, NETWORK};
    use understudy_formats::network_devices::DEVICE_FILES;

    #[test]
    fn files_of_network_devices_are_refused() {
        for file in DEVICE_FILES {
            let name = format!("/dev/{file}0");
            assert_eq!(refusal(DESCRIPTORS, &name), Some(NETWORK), "{name}");
        }
    }
}
