//! Foundations of the ranks' library, which its other crates use.
//!
//! - [`arch`]: call frames, the program's stack, and the MPI lock of its threads;
//! - [`told`]: start-up data from the preload library, the settings and the launcher;
//! - [`cell`]: the runtime's state, which only the main thread enters;
//! - [`sys`], [`shim`], [`unwinder`]: messages for the user, and functions of the C libraries;
//! - [`events`], [`fault`]: the event file, and fault injection;
//! - [`errors`], [`gather`]: error classes of MPI, and values of all processes;
//! - [`attention`]: the work flags that every communication call reads;
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
