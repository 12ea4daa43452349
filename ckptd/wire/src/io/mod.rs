//! Input and output that never block on one peer.
//!
//! * [`Outbox`]: bytes that wait until a descriptor accepts them;
//! * [`Mailbox`]: frames read from a descriptor;
//! * [`is_ready`]: waits for one descriptor.

mod mailbox;
mod outbox;
mod readiness;

pub use mailbox::{Decoder, Mailbox};
pub use outbox::{Full, Outbox};
pub use readiness::{Interest, is_ready};
