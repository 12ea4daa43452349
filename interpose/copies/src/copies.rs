//! Replicas of this process and of other workers, and the next checkpoint.
//!
//! The last committed epoch stays intact while the next one is *pending*: captured, and in transfer
//! to the buddies. After a failure the pending epoch is committed or discarded, as all workers
//! agree.
//!
//! * `replica`, `replay_plan`, `records`, `transfer`, `parity_transfer`: the data and their
//!   messages;
//! * `persistent_store`, `received`, `page_queries`, `pending`, `replicas`: the state of this
//!   process;
//! * `replica_state`: the value with this state in the crate's `Runtime`;
//! * `own_replica`, `adoption`, `preparation`, `commitment`, `claim`, `saved_state`,
//!   `deduplication`, `deferred`, `exposed_pages`: the operations.

mod adoption;
mod buddies;
mod checkpoint_parts;
mod claim;
mod commitment;
mod deduplication;
mod deferred;
mod exposed_pages;
mod own_replica;
mod page_queries;
pub mod parity_transfer;
mod pending;
mod persistent_store;
mod preparation;
mod received;
mod records;
mod replay_plan;
mod replica;
mod replica_state;
mod replicas;
mod saved_state;
mod transfer;

pub use adoption::{AdoptedReplicas, adopt, job_state_of_predecessor, read_passed_store};
pub use claim::claim;
pub use commitment::{
    advance, commit, discard_pending, end_preparation, interrupt, invalidate_store, is_pending,
    is_reduced, post_receives, prepare, record_replicas, recovery_costs, resolve, ship,
};
pub use deduplication::share_equal_pages;
pub use deferred::{can_defer, defer, lacking_layers, needs_checkpoint};
pub use exposed_pages::{expose_landings, expose_only_open, expose_windows};
pub use own_replica::{
    committed_age, committed_epoch, discard_all, next_epoch, replace_own, replicas, try_replicas,
};
pub use pending::CapturedState;
pub use persistent_store::can_store_persist;
pub use replay_plan::{PageSource, ReplayBase, ReplayPlan, ReplayedPhase, page_sums};
pub use replica::{EncodedState, Replica};
pub(crate) use replica_state::ReplicaState;
pub use replicas::Replicas;
pub use saved_state::{SavedState, decode, encode};
pub use transfer::{Payload, Transfer};
