//! What libpmix asks of its host, on its own progress thread.
//!
//! libpmix passes its functions nothing that could lead to a server, so the one of this process is
//! found in a static. A function that can answer at once does so by its return value or by calling
//! back before it returns, as libpmix allows on its own thread; a fence is answered from whatever
//! thread the [`crate::Peers`] are on, which libpmix allows, too. A panic aborts the process
//! (extern "C").

mod exchanges;
mod host_state;
mod lifecycle;
mod lookup;
mod module;
mod published_names;
mod spawn;

pub use host_state::Host;
pub use module::module;
