//! Procedures of libc whose results differ between two runs of a program's set-up phase.
//!
//! While a set-up phase is recorded, the preload library routes these procedures to the runtime,
//! like procedures of MPI. Their slots follow those of the call table. At all other times they call
//! libc directly.

/// Memory that a procedure writes through one of its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// Index of the argument, and the number of bytes.
    Fixed(u8, u16),
    /// Index of the argument, and index of the argument with the number of bytes.
    Counted(u8, u8),
}

/// Signature of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub name: &'static str,
    /// Number of significant bytes of each argument.
    pub widths: &'static [u8],
    pub outputs: &'static [Output],
}

const fn source(name: &'static str, widths: &'static [u8], outputs: &'static [Output]) -> Source {
    Source {
        name,
        widths,
        outputs,
    }
}

/// Number of procedures in [`SOURCES`].
pub const COUNT: usize = 14;

/// Slot of the call with which the program's main thread enters a recovery.
///
/// The runtime makes the thread execute it.
pub const RECOVER: usize = COUNT;
/// Slot of the call that the preload library makes when the program ends with exit(3).
pub const LEAVE: usize = COUNT + 1;
/// Slot of the call with which MPICH's Fortran bindings register proxies for a key's functions.
pub const KEYVAL_PROXY: usize = COUNT + 2;
/// Slot of the call with which MPICH's bindings mark a generalized request as Fortran's.
pub const GREQUEST_FORTRAN: usize = COUNT + 3;
/// Number of slots after those of the call table.
pub const SLOTS: usize = COUNT + 4;

/// All procedures, in the order of their slots.
pub const SOURCES: [Source; COUNT] = [
    source("clock_gettime", &[4, 8], &[Output::Fixed(1, 16)]),
    source(
        "gettimeofday",
        &[8, 8],
        &[Output::Fixed(0, 16), Output::Fixed(1, 8)],
    ),
    source("time", &[8], &[Output::Fixed(0, 8)]),
    source("timespec_get", &[8, 4], &[Output::Fixed(0, 16)]),
    source("clock", &[], &[]),
    source("times", &[8], &[Output::Fixed(0, 32)]),
    source("getrusage", &[4, 8], &[Output::Fixed(1, 144)]),
    source("getpid", &[], &[]),
    source("getppid", &[], &[]),
    source("gethostname", &[8, 8], &[Output::Counted(0, 1)]),
    source("uname", &[8], &[Output::Fixed(0, 390)]),
    source("getrandom", &[8, 8, 4], &[Output::Counted(0, 1)]),
    source("getentropy", &[8, 8], &[Output::Counted(0, 1)]),
    source("sched_getcpu", &[], &[]),
];
