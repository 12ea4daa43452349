//! Fields of `/proc/self/status` (proc_pid_status(5)).

use super::row::Handling::{self, Differs, Equal, Refused, Restored};
use super::row::Row;

const fn row(name: &'static str, handling: Handling) -> Row {
    Row {
        name,
        handling,
        test: "",
    }
}

const CREDENTIALS: Handling = Refused(
    "a replacement has the credentials that the launcher gives it; let the program change them \
     before MPI_Init, or the launcher",
);
const FILTERS: Handling = Refused(
    "filters of system calls cannot be read back; let the program install them before MPI_Init",
);
const SPECULATION: Handling = Refused("a replacement has the launcher's setting; set it there");
const NUMBERS: Handling =
    Differs("those of the replacement; Python's getpid returns the former number");
const MEMORY: Handling =
    Differs("sizes include memory of understudy, and are those of the replacement");

/// All fields of `/proc/self/status`.
///
/// A field whose handling is `Refused` is accepted while it has its value from the start of the
/// process.
pub const STATUS: &[Row] = &[
    row("Name", Restored),
    row("Umask", Restored),
    row("State", Equal),
    row("Tgid", NUMBERS),
    row("Ngid", NUMBERS),
    row("Pid", NUMBERS),
    row("PPid", NUMBERS),
    row("TracerPid", NUMBERS),
    row("NS*", NUMBERS),
    row("Uid", CREDENTIALS),
    row("Gid", CREDENTIALS),
    row("Groups", CREDENTIALS),
    row("CapInh", CREDENTIALS),
    row("CapPrm", CREDENTIALS),
    row("CapEff", CREDENTIALS),
    row("CapBnd", CREDENTIALS),
    row("CapAmb", CREDENTIALS),
    row("Seccomp", FILTERS),
    row("Seccomp_filters", FILTERS),
    row("Speculation_Store_Bypass", SPECULATION),
    row("SpeculationIndirectBranch", SPECULATION),
    row("NoNewPrivs", Restored),
    row("FDSize", Differs("descriptors of understudy are included")),
    row("Kthread", Equal),
    row("Vm*", MEMORY),
    row("Rss*", MEMORY),
    row("HugetlbPages", MEMORY),
    row("CoreDumping", Equal),
    row("THP_enabled", Restored),
    row("untag_mask", Equal),
    row("x86_Thread_features*", Equal),
    row("Threads", Differs("threads of understudy are included")),
    row(
        "SigQ",
        Differs("signals of all processes of the user are counted"),
    ),
    row("SigPnd", Restored),
    row("ShdPnd", Restored),
    row("SigBlk", Restored),
    row("SigIgn", Restored),
    row("SigCgt", Restored),
    row("Cpus_allowed*", Restored),
    row("Mems_allowed*", Equal),
    row(
        "voluntary_ctxt_switches",
        Differs("those of the replacement"),
    ),
    row(
        "nonvoluntary_ctxt_switches",
        Differs("those of the replacement"),
    ),
];
