//! Functions that libpmix calls on its own progress thread.
//!
//! libpmix passes no pointer to a server to these functions, so that they find the server of this
//! process in a static. A function that can answer at once does so by its return value or by
//! calling the callback before it returns, which libpmix allows on its own thread. Requests to
//! other nodes are answered from any thread of the [`crate::Peers`], which libpmix allows, too. A
//! panic aborts the process (extern "C").

mod exchanges;
mod host_state;
mod lifecycle;
mod lookup;
mod module;
mod published_names;
mod spawn;

pub use host_state::Host;
pub use module::module;
