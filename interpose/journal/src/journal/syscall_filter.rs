//! Filter for the system calls of a replay, which must not affect the outside world.
//!
//! The filter uses syscall user dispatch (kernel documentation,
//! `admin-guide/syscall-user-dispatch`; Linux 5.11). Every system call from outside of the reserved
//! range raises SIGSYS, including those of the program's libc. The signal handler, which is inside
//! of the range, decides by a table ([`understudy_policy::syscall_dispositions`]) and by the
//! arguments (`emulate`):
//!
//! - Harmless calls are executed.
//! - Queries about files are answered from the record of the first trial replay (`queries`).
//! - Files that the program opens are replaced by files in memory, with the recorded contents or
//!   empty (`files`). Directories, devices, libraries and very long files are not replaced.
//! - Other changes return success without effect.
//! - A call that cannot be emulated ends the replay.
//!
//! The files in memory end with the child process that replays.

mod emulate;
mod files;
mod filter_state;
mod queries;
mod syscall_trap;

pub use filter_state::{CallDisposition, FilterState};
pub use syscall_trap::{changed_message, replace_open_file, start, stop};
