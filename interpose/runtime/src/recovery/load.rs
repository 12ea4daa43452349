//! Loading an epoch: the user side becomes what it was, in place or in another process.

use crate::arch::Frame;
use crate::calls::memory_state;
use crate::checkpoint::Saved;
use crate::generated::Proc;
use crate::image::restore::Ready;
use crate::image::runs::normalise;
use crate::image::wire::Header;
use crate::image::{remap, restore};
use crate::{checkpoint, cut, drain, handles, objects, requests, user};

/// The user side is loaded.
pub struct Loaded {
    /// Where it goes on.
    pub frame: Frame,
}

/// Which process loads what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A survivor goes back to its last epoch.
    Survivor,
    /// A survivor goes back to an older epoch, from the disk.
    SurvivorFromDisk,
    /// An understudy takes a part.
    Understudy,
    /// The whole job has been started again.
    Restart,
}

/// Whether a frame is the end of MPI_Init, where the first checkpoint is taken.
pub fn is_init(frame: &Frame) -> bool {
    let slot = frame.slot as u32;
    slot == Proc::MPI_Init.slot() || slot == Proc::MPI_Init_thread.slot()
}

fn decode(state: &[u8]) -> Saved {
    checkpoint::decode(state)
        .unwrap_or_else(|why| checkpoint::fail("the saved state cannot be read", &std::io::Error::other(why)))
}

/// Makes the user side's mappings those of a part whose pages are on their way, and begins to make them present.
pub fn prepare(header: &Header, state: &[u8]) -> Ready {
    let saved = decode(state);
    restore_mappings(&saved);
    let pages = normalise(header.runs.clone());
    restore::prepare(&mut checkpoint::keep().tracker, &saved.user.layout, &pages)
        .unwrap_or_else(|error| checkpoint::fail("the program's memory cannot be put back", &error))
}

fn restore_mappings(saved: &Saved) {
    if let Err(error) = saved.user.restore_libraries() {
        checkpoint::fail("the program's libraries cannot be put back", &error);
    }
    if let Err(error) = remap::restore_layout(&saved.user.layout, user::State::zones()) {
        checkpoint::fail("the program's mappings cannot be put back", &error);
    }
}

/// Loads this rank's own committed epoch. `ready` is what was [`prepare`]d for it.
///
/// A failure here leaves a user side that is neither old nor new, so it ends the job.
pub fn load(origin: Origin, ready: Option<Ready>) -> Loaded {
    let keep = checkpoint::keep();
    let saved = decode(&keep.own.state);
    let layout = &saved.user.layout;
    restore_mappings(&saved);
    // What has changed is known since the last epoch only.
    let pages = match origin {
        Origin::Survivor => restore::restore_pages(&mut keep.tracker, layout, &keep.own.image, &keep.store),
        _ => restore::load_all(&mut keep.tracker, layout, &keep.own.image, &keep.store, ready),
    };
    match pages {
        Ok(stats) => log::debug!("{} pages copied, {} dropped", stats.copied, stats.dropped),
        Err(error) => checkpoint::fail("the program's memory cannot be put back", &error),
    }
    if origin == Origin::Restart {
        saved.user.continue_output();
    }
    let is_own = matches!(origin, Origin::Survivor | Origin::SurvivorFromDisk);
    if let Err(error) = saved.user.restore(is_own) {
        checkpoint::fail("the program's state cannot be put back", &error);
    }
    handles::mark();
    objects::release_local();
    objects::replace(saved.objects);
    objects::rebuild_local();
    requests::replace(saved.requests);
    *drain::early() = saved.early;
    cut::restore(saved.schedule, !is_init(&saved.frame));
    memory_state::restore_attached(saved.attached);
    Loaded { frame: saved.frame }
}
