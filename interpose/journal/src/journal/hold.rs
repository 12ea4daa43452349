//! Holds back what a replay would do to the outside world: syscall user dispatch (kernel
//! documentation, `admin-guide/syscall-user-dispatch`; Linux 5.11).
//!
//! Every system call that is made outside of the zone raises SIGSYS, those inside of the program's
//! libc included. What its handler does with each is in a table
//! ([`understudy_policy::dispositions`]): harmless ones pass, questions about files are answered
//! from the record of the first rehearsal ([`inquire`]), files are given from there or are new ones
//! in memory ([`files`]), other changes are said to have been made although they have not, and what
//! cannot be pretended ends the replay. The files opened here are replaced when the program's state
//! is loaded.

mod emulate;
mod files;
mod filter_state;
mod inquire;
mod syscall_trap;

pub use filter_state::{Fate, Hold};
pub use syscall_trap::{begin, end, inherit, tell_changed};
