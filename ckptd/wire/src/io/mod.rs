//! Input and output that never block on one peer.
//!
//! * [`Outbox`]: bytes that wait until a descriptor accepts them;
//! * [`Mailbox`]: frames read from a descriptor;
//! * [`wait_ready`]: waits for one descriptor.

mod mailbox;
mod outbox;
mod readiness;

pub use mailbox::{Decoder, Mailbox};
pub use outbox::{Outbox, OutboxFull};
pub use readiness::{Interest, wait_ready};
