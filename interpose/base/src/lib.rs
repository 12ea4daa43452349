//! Foundations of the ranks' library, which its other crates use.
//!
//! - [`arch`]: call frames, the program's stack, and the MPI lock of the program's threads;
//! - [`process_info`]: start-up data from the preload library, the settings and the launcher;
//! - [`runtime_state`]: containers of the runtime's state, which one thread at a time uses;
//! - [`system_calls`]: system calls without a safe wrapper, messages for the user, and symbol
//!   lookup in both namespaces;
//! - [`shim`]: functions of the two shim libraries;
//! - [`unwinder`]: the unwinder of the runtime side;
//! - [`events`], [`fault`]: the event file, and fault injection;
//! - [`errors`], [`gather`]: error classes of MPI, and values of all processes;
//! - [`mpi_devices`]: network devices that the MPI library has open;
//! - [`work_flags`]: the work flags that every communication call reads;
//! - [`request_signals`]: signals that request a checkpoint on disk, at their handler;
//! - [`role`]: flags of this process, for any thread;
//! - [`generated`]: procedures, slots and data symbols of the call table.

pub mod arch;
pub mod errors;
pub mod events;
pub mod fault;
pub mod gather;
pub mod mpi_devices;
pub mod process_info;
pub mod request_signals;
pub mod role;
pub mod runtime_state;
pub mod shim;
pub mod system_calls;
pub mod unwinder;
pub mod work_flags;

/// Generated from the call table.
#[allow(unsafe_code, missing_docs)]
pub mod generated {
    include!("generated/procedures.rs");
}
