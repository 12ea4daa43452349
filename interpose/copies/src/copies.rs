//! Replicas of this process and of other workers, and the next checkpoint.
//!
//! The last committed epoch stays intact while the next one is *pending*: captured, and in transfer
//! to the buddies. After a failure the pending epoch is committed or discarded, as all workers
//! agree.
//!
//! * `copy`, `script`, `records`, `transfer`, `parity`: the data and their messages;
//! * `legacy`, `received`, `inquiries`, `pending`, `replicas`: the state of this process;
//! * `replica_state`: the value with this state in the crate's `Runtime`;
//! * `own_replica`, `adoption`, `commitment`, `claim`, `saved`, `deduplication`, `window_tracking`:
//!   the operations.

mod adoption;
mod buddies;
mod claim;
mod commitment;
mod copy;
mod deduplication;
mod hands;
mod inquiries;
mod legacy;
mod own_replica;
pub mod parity;
mod pending;
mod received;
mod records;
mod replica_state;
mod replicas;
mod saved;
mod script;
mod transfer;
mod window_tracking;

pub use adoption::{Inherited, adopt, look as look_for_legacy, welcome_of_predecessor};
pub use claim::claim;
pub use commitment::{
    advance, commit, costs, expect, forget_legacy, give_up_pending, interrupt, is_pending, is_thin,
    renew_legacy, resolve, ship,
};
pub use copy::{Copy, State};
pub use deduplication::share;
pub use own_replica::{age, discard, epoch, keep, next_epoch, replace_own, try_keep};
pub use pending::Capture;
pub(crate) use replica_state::ReplicaState;
pub use replicas::Replicas;
pub use saved::{Saved, decode, encode};
pub use script::{Base, Replay, Script, Way, sums_of};
pub use transfer::{Payload, Transfer};
pub use window_tracking::{expose_only_windows, expose_windows};
