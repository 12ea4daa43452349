//! Messages by which child processes of a rank report effects on files to the rank.
//!
//! The rank listens on a socket of the abstract name space (unix(7)). For each effect, a child
//! connects and sends a [`Request`], followed by the effect's two names without their terminating
//! zeros. The child makes the call that has the effect only after the child has received an answer,
//! which is one byte.

use core::ffi::CStr;

/// Prefix of the name of a rank's socket.
///
/// The inode number of the pid namespace, `-`, and the process number follow, both in decimal
/// digits.
pub const SOCKET: &str = "understudy-effects-";

/// File whose inode number identifies the pid namespace (namespaces(7)).
pub const NAMESPACE: &CStr = c"/proc/self/ns/pid";

/// An effect that is about to happen; the fields are those of [`crate::effect::Hook`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Kind of the effect.
    pub kind: u32,
    /// Thread that makes the call (gettid(2)).
    pub thread: i32,
    /// Descriptor of the directory of the first name.
    pub directory: i32,
    /// Descriptor of the directory of the second name.
    pub other_directory: i32,
    /// Value that depends on the kind.
    pub value: i64,
    /// Lengths of the two names in bytes; [`NO_NAME`] for a name that is absent.
    pub lengths: [u32; 2],
}

/// Length of a name that is absent.
pub const NO_NAME: u32 = u32::MAX;

/// Longest name that is sent, in bytes (PATH_MAX).
pub const LONGEST_NAME: usize = 4096;

/// Answer: the child may make the call.
pub const CALL_ALLOWED: u8 = 0;
/// Answer: the child may make the call, and must report the return of the call.
///
/// The kind of that report is [`crate::effect::NAME_CREATED`].
pub const REPORT_RETURN: u8 = 1;
/// Answer to a report of a return: the return has been recorded.
pub const RETURN_NOTED: u8 = 2;
