//! Static data that are rebuilt instead of kept (Cantwell and Nielsen 2018, sections 2.3 and 2.4).
//!
//! A worker's initialisation phase is recorded ([`crate::journal`]); an idle spare rehearses it ([`spare`]): a child process
//! ([`child`]) replays it and compares the pages that come out with the worker's. Pages that come out equal are proved to
//! be static data that a replay rebuilds; the worker tells the holders of its copies ([`worker`]), who need not keep them
//! any more ([`thin`]). When a spare takes a part, a child replays the phase once more and hands the pages over
//! ([`rebuild`]). Every page is compared with its checksum before it is used.
//!
//! A page that changes after the phase is part of a checkpoint, and so of the copy, from then on.

mod child;
mod message;
mod own_memory;
mod rebuild;
mod script;
mod spare;
mod thin;
mod worker;

use crate::boot;
use crate::config::Static;
use std::time::Duration;

pub use rebuild::{Offer, Rebuild, from_own_memory, offer};
pub use spare::poll as poll_spare;
pub use thin::Thin;
pub use worker::{damage_journals, keep as keep_script, poll};

/// Before the program has set up anything, its image says little about how long a journal may get.
const LEAST_LIMIT: usize = 16 << 20;

/// Whether static data are rebuilt.
fn is_used() -> bool {
    boot::config().static_data == Static::Replay
}

/// Whether phases are rehearsed.
fn is_on() -> bool {
    boot::config().rehearse || is_used()
}

/// `MPI_Init` is about to return to the program of a worker, for the first time or after a failure in the phase.
pub fn start() {
    if is_on() && crate::world::is_protected() {
        crate::journal::start(&boot::config().init_end);
    }
}

/// At a cut: whether the phase may end here, as far as this worker is concerned; see [`crate::journal::may_end`].
pub fn may_end(is_regular: bool) -> bool {
    let image = || crate::checkpoint::keep().own.image.page_count() as usize * crate::image::PAGE_SIZE;
    crate::journal::may_end(is_regular, || boot::config().log_limit.of(image()).max(LEAST_LIMIT))
}

/// After a failure: messages end, and so does a child. Returns how many messages have not ended within `limit`.
pub fn quiesce(limit: Duration) -> usize {
    crate::journal::give_up();
    spare::quiesce(limit) + worker::quiesce(limit) + rebuild::quiesce(limit)
}
