//! Waits of a call of MPI: values of a byte that every call clears when it begins.

/// No wait that is known.
pub const BEGUN: u8 = 0;
/// A call that is about to block until messages are transferred, which is mostly soon.
pub const BLOCKS: u8 = 1;
/// Such a call that a program may also repeat until something has changed.
pub const RETURNS: u8 = 3;
/// A call that has polled for messages in vain.
pub const LOOKED: u8 = 2;
