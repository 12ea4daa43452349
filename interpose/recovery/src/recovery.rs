//! Recovery: from the error of an MPI call to a running job.
//!
//! ```text
//!   detect → reset (leave the generation) → drain → initialise (the next generation)
//!          → agree (living processes, epoch) → replace (new communicators)
//!          → fetch (the dead rank's replica) → load (all) → rebuild → re-protect → resume
//! ```
//!
//! A further failure in any stage is an error of some call. It restarts the sequence, in one more
//! generation of MPI. Loading is repeated from the replicas, which stay intact.
//!
//! * `death_history`, `found_replicas`, `placement_hint`: the state;
//! * `recovery_state`: the value with this state in the crate's `Runtime`;
//! * `newcomers`, `meeting`, `deaths`, `wishes`, `alone`: the agreement;
//! * `fetch`, `group`, `moves`, `found`: replicas that are sent between workers;
//! * `load`, `repost`, `partitioned`: memory and requests of the program;
//! * `attempt`, `report`, `rollback`, `restart`: the sequence;
//! * `check`: the entry, from the error of a call.
mod alone;
mod attempt;
mod check;
mod death_history;
mod deaths;
mod devices;
mod failure_class;
mod fetch;
mod found;
mod found_replicas;
mod group;
mod load;
mod meeting;
mod moves;
mod newcomers;
mod partitioned;
mod placement_hint;
mod recovery_state;
mod replenish;
mod report;
mod repost;
mod restart;
mod rollback;
mod wishes;

pub use check::{check, check_own};
pub use devices::{devices_go_on, lose_devices};
pub use meeting::end_together;
pub use newcomers::{come_in, learn_places, welcome};
pub(crate) use recovery_state::RecoveryState;
pub use restart::from_disk as restart_from_disk;
pub use rollback::{resumed_in_init, take_part_at_once};
pub use wishes::offer as offer_to_choose;
