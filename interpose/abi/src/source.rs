//! Procedures of libc whose outcome is not the same twice, and which programs call to set
//! themselves up.
//!
//! While an initialisation phase is recorded, the face has them enter the runtime like procedures
//! of MPI, in slots behind those of the call table; outside of it they go straight to libc.

/// What a procedure writes where an argument points to.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// So many bytes.
    Fixed(u8, u16),
    /// As many bytes as another argument says.
    Counted(u8, u8),
}

/// One of the procedures.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub name: &'static str,
    /// Bytes of each argument that mean something.
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

/// How many there are.
pub const COUNT: usize = 14;

/// Behind those, the slot of a call that the runtime has the program's main thread make.
pub const RECOVER: usize = COUNT;
/// And of the call that the face makes when the program ends by exit(3).
pub const LEAVE: usize = COUNT + 1;
/// MPICH's Fortran bindings say that a key's functions are called by way of others, which they
/// give.
pub const KEYVAL_PROXY: usize = COUNT + 2;
/// And that the functions of a generalized request are subroutines of Fortran.
pub const GREQUEST_FORTRAN: usize = COUNT + 3;
/// How many slots there are behind those of the call table.
pub const SLOTS: usize = COUNT + 4;

/// All of them, in the order of their slots.
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
