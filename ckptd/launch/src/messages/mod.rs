//! Messages between the processes of the launcher.
//!
//! ```text
//!   node (one manager each)                                leader (understudy-protocol)
//!     messages and ends of processes, guardians  ── Report ──────► decides
//!     starts, kills, interrupts processes        ◄── Order ───────
//!     requests of its servers to other nodes     ── Fence, Modex ► collects, forwards
//!     answers to these requests                  ◄── Answer ──────
//! ```
//!
//! The leader's own node has no connection to it; other nodes have a [`Link`].

mod duty;
mod link;
mod link_message;
mod order;
mod pipe_messages;
mod report;
mod server_order;

pub use duty::{LeaderToStarter, ManagerDuty, StarterToLeader};
pub use link::{GREETING, Greeting, Link};
pub use link_message::{LeaderToNode, NodeToLeader};
pub use order::{Beginning, Order};
pub use pipe_messages::{Messages, encode_message, write_message};
pub use report::{FenceId, Report};
pub use server_order::{ServerOrder, SpawnedNamespace};
