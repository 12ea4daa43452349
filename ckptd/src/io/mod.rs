//! Input and output that never blocks on one peer.
//!
//! * `Poller` (feature `cli`): waits for many descriptors, each registered as a [`Source`];
//! * [`Outbox`]: bytes that wait until a descriptor takes them;
//! * [`Mailbox`]: frames read from a descriptor;
//! * [`is_ready`]: waits for one descriptor.
//!
//! Nothing here uses other parts of ckptd.

mod mailbox;
mod outbox;
#[cfg(feature = "cli")]
mod poller;
mod readiness;

pub use mailbox::{Decoder, Mailbox};
pub use outbox::{Full, Outbox};
#[cfg(feature = "cli")]
pub use poller::{Poller, Ready, Registry, Source};
pub use readiness::{Interest, is_ready};
