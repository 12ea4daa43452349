//! Static data that a replay or a file restores, so that replicas omit them.
//!
//! The method is that of Cantwell and Nielsen 2018, sections 2.3 and 2.4.
//!
//! 1. A worker's set-up phase is recorded ([`crate::journal`]). The journal, the state at the
//!    beginning of the phase and the checksums of all pages at its end are the worker's *replay
//!    plan*.
//! 2. The worker sends the plan to a buddy, which runs trial replays of the phase (`trial_buddy`).
//!    The buddy has a template process (`template_process`), which was forked at the end of
//!    `MPI_Init`. A child of the template process (`replay_child`) replays the phase, and compares
//!    the resulting pages with the checksums. Equal pages are *proved*: a replay in another process
//!    rebuilds them.
//! 3. The worker sends the proved plan to its buddies (`worker_plan`), which drop these pages from
//!    the replicas that they store.
//! 4. When a joining process takes over from the worker, its own template process replays the phase
//!    once more and returns the pages (`rebuild`). Every page is compared with its checksum before
//!    it is used.
//!
//! The worker's own replica also omits these pages (`own_pages`), since the worker's memory
//! contains them. The old content of a page that the worker changes after the last checkpoint is
//! neither in that replica nor in memory. If the worker must roll back then, its template process
//! rebuilds the page.
//!
//! A page that changes after the phase is part of the next checkpoint, and of the replicas from
//! then on.
//!
//! The value with the state in the crate's `Runtime` (`trial_state`) uses `trial_buddy`, `template`
//! and `own_plan`. It is used by `decision`, `new_phases`, `own_pages`, `phases`, `rebuild`,
//! `replay_base`, `replay_child`, `template_process` and `worker_plan`.

mod decision;
mod finding;
mod input;
mod new_phase_request;
pub mod new_phases;
mod own_pages;
mod own_plan;
mod phases;
mod rebuild;
mod rebuilt_pages;
mod replay_base;
mod replay_child;
mod replay_settings;
mod template;
mod template_line;
mod template_process;
mod template_request;
mod trial_buddy;
mod trial_state;
mod worker_plan;

pub use own_pages::{from_own_memory, rebuild, store_unchanged};
pub use phases::{cut, interrupt, poll, prepare, start};
pub use rebuild::{Rebuild, ReducedReplicaPlan, exchange_omitted};
pub use replay_settings::compares;
pub(crate) use trial_state::TrialState;
pub use worker_plan::{damage_journals, plan as own_plan, store_plan};
