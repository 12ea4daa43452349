//! The parts of the ranks' library that everything else in it stands on.
//!
//! - [`arch`]: call frames, the program's stack, threads that take turns in MPI;
//! - [`told`]: what the preload library, the settings and the launcher hand over at the start;
//! - [`cell`]: the runtime's state, which only the main thread enters;
//! - [`sys`], [`shim`], [`unwinder`]: lines for the user, and functions of the C libraries;
//! - [`events`], [`fault`]: the event file, and faults on purpose;
//! - [`errors`], [`gather`]: error classes of MPI, and one value from each process;
//! - [`attention`]: the byte that every communication call reads;
//! - [`role`]: flags of this process, for any thread;
//! - [`generated`]: procedures, slots and data symbols of the call table.

pub mod arch;
pub mod attention;
pub mod cell;
pub mod errors;
pub mod events;
pub mod fault;
pub mod gather;
pub mod role;
pub mod shim;
pub mod sys;
pub mod told;
pub mod unwinder;

/// Generated from the call table.
#[allow(unsafe_code, missing_docs)]
pub mod generated {
    include!("generated/procedures.rs");
}
