//! Static data that replays rebuild, so that replicas omit them.
//!
//! The method is that of Cantwell and Nielsen 2018, sections 2.3 and 2.4.
//!
//! A worker's set-up phase is recorded ([`crate::journal`]), and its buddy runs trial replays of
//! the phase (`holder`). The buddy has a template process (`seed`), which was forked at the end of
//! `MPI_Init`. A child of the template process (`child`) replays the phase, and compares the
//! resulting pages with the worker's. Equal pages are proved to be static data that a replay
//! rebuilds in another process. The worker reports them to its buddies (`worker`), which need not
//! store them any longer. When a joining process takes over from a worker, its own template process
//! replays the phase again and returns the pages (`rebuild`). Every page is compared with its
//! checksum before it is used.
//!
//! The worker's own replica also omits these pages (`own_pages`): its memory holds them as they are
//! at the last epoch, except those that it has changed for the first time since. If it has to roll
//! back at that moment, its own template process rebuilds these pages.
//!
//! A page that changes after the phase is part of the next checkpoint, and of the replicas from
//! then on.
//!
//! The value with the state in the crate's `Runtime` (`trial_state`) uses `holder`, `template` and
//! `own_script`. It is used by `again`, `base`, `decision`, `rebuild`, `seed`, `worker` and
//! `phases`.

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
