//! Procedures of libc whose results differ between two runs of a program's set-up phase.
//!
//! While a set-up phase is recorded or replayed, the preload library routes calls of these
//! procedures to the runtime, like calls of MPI procedures. Their slots follow those of the call
//! table. At all other times the calls go to libc directly.

/// Memory that a procedure writes through one of its arguments.
#[derive(Clone, Copy, Debug)]
pub enum ProcedureOutput {
    /// A fixed number of bytes.
    Fixed {
        /// Index of the argument that points to the memory.
        argument: u8,
        bytes: u16,
    },
    /// A number of bytes that another argument contains.
    Counted {
        /// Index of the argument that points to the memory.
        argument: u8,
        /// Index of the argument with the number of bytes.
        count: u8,
    },
}

/// Signature of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct LibcProcedure {
    pub name: &'static str,
    /// Number of significant bytes of each argument.
    pub widths: &'static [u8],
    pub outputs: &'static [ProcedureOutput],
}

const fn procedure(
    name: &'static str,
    widths: &'static [u8],
    outputs: &'static [ProcedureOutput],
) -> LibcProcedure {
    LibcProcedure {
        name,
        widths,
        outputs,
    }
}

const fn fixed(argument: u8, bytes: u16) -> ProcedureOutput {
    ProcedureOutput::Fixed { argument, bytes }
}

const fn counted(argument: u8, count: u8) -> ProcedureOutput {
    ProcedureOutput::Counted { argument, count }
}

/// Number of procedures in [`LIBC_PROCEDURES`].
pub const LIBC_PROCEDURE_COUNT: usize = 14;

/// Slot of the call with which the program's main thread enters a recovery.
///
/// The runtime makes the main thread execute this call.
pub const RECOVER_SLOT: usize = LIBC_PROCEDURE_COUNT;
/// Slot of the call that the preload library makes when the program ends with exit(3).
pub const EXIT_SLOT: usize = LIBC_PROCEDURE_COUNT + 1;
/// Slot of the call with which MPICH's Fortran bindings register proxies for a key's functions.
pub const KEYVAL_PROXY_SLOT: usize = LIBC_PROCEDURE_COUNT + 2;
/// Slot of the call with which MPICH's bindings mark a generalized request as Fortran's.
pub const GREQUEST_FORTRAN_SLOT: usize = LIBC_PROCEDURE_COUNT + 3;
/// Number of slots after those of the call table.
pub const EXTRA_SLOT_COUNT: usize = LIBC_PROCEDURE_COUNT + 4;

/// All procedures, in the order of their slots.
pub const LIBC_PROCEDURES: [LibcProcedure; LIBC_PROCEDURE_COUNT] = [
    procedure("clock_gettime", &[4, 8], &[fixed(1, 16)]),
    procedure("gettimeofday", &[8, 8], &[fixed(0, 16), fixed(1, 8)]),
    procedure("time", &[8], &[fixed(0, 8)]),
    procedure("timespec_get", &[8, 4], &[fixed(0, 16)]),
    procedure("clock", &[], &[]),
    procedure("times", &[8], &[fixed(0, 32)]),
    procedure("getrusage", &[4, 8], &[fixed(1, 144)]),
    procedure("getpid", &[], &[]),
    procedure("getppid", &[], &[]),
    procedure("gethostname", &[8, 8], &[counted(0, 1)]),
    procedure("uname", &[8], &[fixed(0, 390)]),
    procedure("getrandom", &[8, 8, 4], &[counted(0, 1)]),
    procedure("getentropy", &[8, 8], &[counted(0, 1)]),
    procedure("sched_getcpu", &[], &[]),
];
