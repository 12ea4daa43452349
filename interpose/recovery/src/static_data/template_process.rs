//! Template process, which keeps the state at the end of `MPI_Init` for replays.
//!
//! The template process is forked at that point, and sleeps until it receives a request or the rank
//! ends. Its memory is the rank's memory of that moment; the kernel copies only pages that the rank
//! changes later. The template process is not a child of the rank: otherwise a wait of the program
//! for its children could return the template process. It handles one request at a time; a new
//! request ([`super::template_request`]) cancels the previous request.

mod blocked_signals;
mod fork_template;
mod template_work;

pub use fork_template::fork_template;
