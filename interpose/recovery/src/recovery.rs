//! Recovery: from the error of an MPI call to a running job.
//!
//! ```text
//!   detect → reset (leave the generation) → drain → initialise (the next generation)
//!          → agree (living processes, epoch) → replace (new communicators)
//!          → fetch (the dead rank's replica) → load (all) → rebuild → re-protect → resume
//! ```
//!
//! A further failure in any stage appears as the error of a call, and restarts the sequence in one
//! more generation of MPI. Loading is repeated from the replicas, which stay intact.
//!
//! * `death_history`, `placement_hint`: the state;
//! * `recovery_state`: the value with this state in the crate's `Runtime`;
//! * `joining`, `meeting`, `deaths`, `placement`, `silent_nodes`: the agreement;
//! * `fetch`, `parity_reconstruction`, `transfers`, `reported_replicas`: replicas that are sent
//!   between workers;
//! * `load`, `devices`, `rebuild_objects`, `repost`, `partitioned`: memory, accelerators, MPI
//!   objects and requests of the program;
//! * `attempt`, `report`, `rollback`, `restart`: the sequence;
//! * `replenish`: new spares after a recovery;
//! * `check`, `failure_class`: the entry, from the error of a call; `common_end`: the end of a job.
mod attempt;
mod check;
mod common_end;
mod death_history;
mod deaths;
mod devices;
mod failure_class;
mod fetch;
mod joining;
mod load;
mod meeting;
mod parity_reconstruction;
mod partitioned;
mod placement;
mod placement_hint;
mod rebuild_objects;
mod recovery_state;
mod replenish;
mod report;
mod reported_replicas;
mod repost;
mod restart;
mod rollback;
mod silent_nodes;
mod transfers;

pub use check::{check, check_own};
pub use common_end::end_together;
pub use devices::{fail_for_lost_device, resume_devices};
pub use joining::{encoded_job_state, join, record_places};
pub use meeting::end_if_directory_is_lost;
pub use placement::register_for_placement_requests;
pub(crate) use recovery_state::RecoveryState;
pub use restart::from_disk as restart_from_disk;
pub use rollback::{recover_as_replacement, resumed_in_init};
pub use silent_nodes::note_departure;
