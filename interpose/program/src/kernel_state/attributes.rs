//! Attributes of processes and threads, as man pages list them, and reasons for refusals.
//!
//! Sources: pthreads(7), clone(2), execve(2), prctl(2), sched(7), sysvipc(7), mq_overview(7),
//! inode(7), and namespaces(7).

use super::row::Handling::{self, Differs, Equal, Refused, Restored};
use super::row::Row;

const fn row(name: &'static str, handling: Handling, test: &'static str) -> Row {
    Row {
        name,
        handling,
        test,
    }
}

const PROCESS: &str = "conformance::timers_limits_and_the_signal_stack";
const STATE: &str = "programs_table::process_attributes";
const POLICIES: &str = "programs_table::memory_policies";
const SYSTEM_V: &str = "programs_table::system_v";
const REFUSED: &str = "kernel_state::state_that_cannot_be_restored_is_refused";

/// Reason for a refusal of System V objects that other processes may use.
pub const OTHER_USERS: &str = "another process may use it or has made it, and is not rolled back; \
                               let each process use its own, or remove it after use";
/// Reason for a refusal of semaphores with SEM_UNDO adjustments.
pub const ADJUSTMENTS: &str = "the kernel does not report the adjustments of SEM_UNDO; let the \
                               program do without SEM_UNDO, or remove it after use";
/// Reason for a refusal of System V objects that cannot be read or set.
pub const UNREADABLE: &str = "its content cannot be read and set (permissions, or a kernel without \
                              MSG_COPY); let the program remove it after use";
/// Reason for a refusal if there are more System V objects than can be recorded.
pub const MANY_OBJECTS: &str = "understudy remembers 256 at a time; let the program use fewer";
/// Reason for a refusal of contexts of io_setup(2) with requests under way.
pub const REQUESTS: &str = "it has requests under way, which are in the kernel; let the program \
                            wait for them (io_getevents) between its MPI calls";
/// Reason for a refusal of contexts of io_setup(2) whose requests are not counted.
pub const UNCOUNTED: &str = "its requests cannot be counted (libaio before 0.3.112, or other \
                             system calls past the C library); let the program use libaio \
                             0.3.112 or later, at most 64 contexts, or write(2)";
/// Reason for a refusal of mappings of devices and of rings.
pub const MAPPED: &str = "its content is not memory of the program; let the program unmap it";
/// Reason for a refusal of threads that were not created by the C library.
pub const RAW_THREADS: &str = "only threads of the C library can be restored; let the program \
                               make threads with pthread_create";
/// Reason for a refusal of namespaces other than those at the start.
pub const NAMESPACES: &str = "a replacement is in the launcher's namespaces; let the program be \
                              started in its own";
/// Reason for a refusal of a working directory without a name.
pub const DIRECTORY: &str = "a replacement could not enter it; let the program leave it";

/// Reason for a refusal of low resource limits.
pub const LIMITS: &str = "understudy needs more for itself; let the program leave the limit as it \
                          was at its start";
/// Reason for a refusal of guard pages where the kernel does not report them.
pub const GUARDS: &str = "kernels before Linux 6.15 do not report them; let the program use \
                          mprotect(2)";

/// Reason for a refusal of NUMA policies that differ from the mapping's.
pub const SHARED_POLICIES: &str = "the policy of shared memory, files and stacks is not restored; \
                                   let the program use mbind(2) for its private memory only";
/// Reason for a refusal of home nodes.
pub const HOME_NODES: &str = "the kernel does not report the home node of memory; let the program \
    do without set_mempolicy_home_node(2)";

pub const ATTRIBUTES: &[Row] = &[
    row("working directory", Restored, ""),
    row(
        "working directory without a name",
        Refused(DIRECTORY),
        REFUSED,
    ),
    row("file mode creation mask", Restored, ""),
    row(
        "namespaces and root directory",
        Refused(NAMESPACES),
        REFUSED,
    ),
    row("resource limits", Restored, PROCESS),
    row(
        "resource limits below what understudy needs",
        Refused(LIMITS),
        REFUSED,
    ),
    row("interval timers", Restored, PROCESS),
    row(
        "timers of timer_create",
        Restored,
        "threads::timers_that_start_or_signal_threads_continue",
    ),
    row("alternate signal stack", Restored, PROCESS),
    row("signal handlers and mask", Restored, ""),
    row(
        "pending signals",
        Restored,
        "signals::blocked_signals_wait_for_the_program",
    ),
    row(
        "number, order and values of pending signals",
        Restored,
        "programs_table::signal_values",
    ),
    row("nice value", Restored, PROCESS),
    row("processor affinity", Restored, STATE),
    row("scheduling policy and priority", Restored, STATE),
    row("I/O priority", Restored, STATE),
    row("timer slack", Restored, STATE),
    row("OOM score adjustment", Restored, STATE),
    row("memory policy", Restored, STATE),
    row("memory policy of ranges", Restored, POLICIES),
    row(
        "memory policy of shared memory, files and the stack",
        Refused(SHARED_POLICIES),
        REFUSED,
    ),
    row("home nodes of memory", Refused(HOME_NODES), REFUSED),
    row("no_new_privs", Restored, STATE),
    row("dumpable", Restored, STATE),
    row("transparent huge pages disabled", Restored, STATE),
    row("personality", Equal, ""),
    row(
        "session, process group, terminal",
        Differs("those of the replacement"),
        "",
    ),
    row(
        "parent-death signal, subreaper",
        Differs("those of the replacement"),
        "",
    ),
    row(
        "processor time and resource usage",
        Restored,
        "programs_table::cpu_clocks",
    ),
    row(
        "processor time and resource usage of other threads",
        Differs("those of the replacement's threads"),
        "",
    ),
    row("kernel keyrings", Differs("those of the replacement"), ""),
    row("threads of the C library", Restored, ""),
    row("threads made by clone", Refused(RAW_THREADS), REFUSED),
    row(
        "contexts of kernel AIO",
        Restored,
        "programs_table::kernel_aio",
    ),
    row("requests of kernel AIO", Refused(REQUESTS), REFUSED),
    row(
        "requests of kernel AIO that are not counted",
        Refused(UNCOUNTED),
        REFUSED,
    ),
    row("System V semaphores", Restored, SYSTEM_V),
    row("System V message queues", Restored, SYSTEM_V),
    row(
        "System V objects of several processes",
        Refused(OTHER_USERS),
        REFUSED,
    ),
    row("adjustments of SEM_UNDO", Refused(ADJUSTMENTS), REFUSED),
    row(
        "times and last users of System V objects",
        Differs("those of the recovery"),
        "",
    ),
    row(
        "System V shared memory",
        Differs("shmdt fails in a replacement"),
        "",
    ),
    row("locks of files", Restored, "programs_table::filelocks"),
    row("leases of files", Differs("they are released"), ""),
    row(
        "inode: size and content",
        Restored,
        "files::files_are_undisturbed_by_a_failure",
    ),
    row(
        "inode: mode, owner, times and extended attributes",
        Restored,
        "programs_table::inodes",
    ),
];
