//! Template process, which keeps the state at the end of `MPI_Init` for replays.
//!
//! The template process is forked at that point, and sleeps until it receives a request or the rank
//! ends. It has the rank's memory of that moment; the kernel copies only pages that the rank
//! changes later. It is not a child of the rank: the program must not find it when it waits for
//! children of its own. It handles one request at a time; a new request
//! ([`super::template_request`]) cancels the one before.

mod blocked_signals;
mod fork_template;
mod template_work;

pub use fork_template::fork_template;
