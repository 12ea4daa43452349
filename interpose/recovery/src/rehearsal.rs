//! Static data that are rebuilt instead of kept (Cantwell and Nielsen 2018, sections 2.3 and 2.4).
//!
//! A worker's initialisation phase is recorded ([`crate::journal`]), and the holder of its replica
//! has it rehearsed (`holder`): its *seed* (`seed`), a process that was forked at the end of
//! `MPI_Init`, has a child (`child`) replay the phase and compare the pages that come out with
//! the worker's. Pages that come out equal are proved to be static data that a replay rebuilds in
//! another process; the worker reports that to the holders of its replicas (`worker`), which need
//! not keep them any more. When a newcomer takes over from a worker, its seed replays the phase
//! once more and hands the pages over (`rebuild`). Every page is compared with its checksum
//! before it is used.
//!
//! Nor does the worker keep a replica itself (`own_pages`): its memory holds these pages as they
//! are at the last epoch, unless it has written one for the first time since. If it has to go back
//! just then, its own seed makes the page again.
//!
//! A page that changes after the phase is part of a checkpoint, and so of the replica, from then
//! on.
//!
//! The value with the state in the crate's `Runtime` (`trial_state`) stands above `holder`,
//! `template` and `own_script`, and below `again`, `base`, `decision`, `rebuild`, `seed`,
//! `worker` and `phases`.

pub mod again;
mod base;
mod child;
mod decision;
mod finding;
mod holder;
mod input;
mod message;
mod new_phase;
mod own_pages;
mod own_script;
mod phases;
mod rebuild;
mod replay_settings;
mod seed;
mod seed_line;
mod seed_request;
mod template;
mod trial_state;
mod wanted;
mod worker;

pub use own_pages::{from_own_memory, keep_unchanged, put_back};
pub use phases::{cut, interrupt, poll, prepare, start};
pub use rebuild::{Offer, Rebuild, offer};
pub use replay_settings::compares;
pub(crate) use trial_state::TrialState;
pub use worker::{damage_journals, keep as keep_script, script as own_script};
