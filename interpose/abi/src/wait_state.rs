//! States of a wait within an MPI call.
//!
//! The states are values of a byte that every call resets when it begins.

/// The call's kind of wait is unknown.
pub const UNKNOWN_WAIT: u8 = 0;
/// The call is about to block until messages are transferred, which is usually soon.
pub const BLOCKING: u8 = 1;
/// The call waits briefly, and a program may repeat the call until something has changed.
pub const POLLING: u8 = 3;
/// The call has polled for messages without success.
pub const POLLED: u8 = 2;
