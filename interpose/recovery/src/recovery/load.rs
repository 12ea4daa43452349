//! Loading of an epoch: restores the program side, in this or in another process.

use crate::Runtime;
use crate::arch::Frame;
use crate::copies::{Saved, State};
use crate::ending::fail;
use crate::generated::Proc;
use crate::objects::{file, window};
use crate::step_back::{self, Undone};
use crate::{
    clock, copies, disk, early, events, fault, handles, marks, objects, recompute, rehearsal,
    requests, schedule, sys, user,
};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::absent;
use understudy_image::prefault::Prefault;
use understudy_image::remap::{self, Whose};
use understudy_image::restore;
use understudy_image::restore::RestoreError;
use understudy_image::runs::{self, PageRun};
use understudy_numbers::ProcessNumber;

/// Result of loading the program side.
pub struct Loaded {
    /// Frame from which the program resumes.
    pub frame: Frame,
    /// Name of the epoch on disk, if it was to be written.
    pub on_disk: Option<disk::Key>,
    /// Signals that were pending at the cut.
    pub signals: user::SavedSignals,
    /// Floating-point exceptions that the program has enabled, which are masked meanwhile.
    ///
    /// See [`sys::mask_exceptions`].
    pub exceptions: u32,
}

/// Error: the reason why a replica cannot be used.
pub struct Damaged(pub String);

/// Process that loads, and origin of the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A survivor rolls back to its last epoch.
    Survivor,
    /// A survivor loads a replica that it did not have.
    ///
    /// It is of an older epoch from the disk, or the survivor's own replica from a buddy.
    SurvivorAnew,
    /// A replacement takes over.
    Understudy,
    /// The whole job was restarted.
    Restart,
}

/// True if a frame is that of MPI_Init, or of another procedure that initialises MPI.
///
/// The first checkpoint is taken there; no other checkpoint is taken in these procedures.
pub fn is_init(frame: &Frame) -> bool {
    const INITIALISE: [Proc; 3] = [
        Proc::MPI_Init,
        Proc::MPI_Init_thread,
        Proc::MPI_Session_init,
    ];
    INITIALISE
        .iter()
        .any(|procedure| frame.slot as u32 == procedure.slot())
}

fn decode(rt: &Runtime, state: &[u8]) -> Saved {
    copies::decode(state)
        .unwrap_or_else(|why| fail(rt, message::STATE_UNREADABLE, &std::io::Error::other(why)))
}

/// Maps the memory of a worker whose pages are being received, and makes it present.
///
/// `pages` are sorted.
pub fn prepare(rt: &Runtime, pages: Vec<PageRun>, state: &State) -> Prefault {
    let saved = decode(rt, &state.bytes);
    restore_mappings(rt, &saved, Whose::Anothers);
    restore::prepare(&mut copies::keep(rt).tracker, &saved.user.layout, &pages)
        .unwrap_or_else(|it| cannot_restore(rt, it))
}

/// Ends the job if workers that share memory are on several nodes.
///
/// `players` are the processes of the workers.
pub fn check_nodes(rt: &Runtime, players: &[ProcessNumber]) {
    if let Err(apart) = window::shared::check_nodes(rt, players) {
        fail(rt, message::JOB_CANNOT_CONTINUE, &apart);
    }
    if let Err(apart) = file::check_nodes(rt, players) {
        fail(rt, message::JOB_CANNOT_CONTINUE, &apart);
    }
}

/// Locks the program's files as at the cut.
///
/// All processes have restored their files, so no lock that was taken later exists.
pub fn take_locks(rt: &Runtime) {
    if let Err(error) = user::take_file_locks(rt) {
        fail(rt, message::FILES_NOT_LOCKED, &error);
    }
}

fn restore_mappings(rt: &Runtime, saved: &Saved, whose: Whose) {
    // Libraries may need addresses where a new process has a thread's stack.
    if let Err(error) = saved.user.clear_threads(rt) {
        fail(rt, message::THREADS_NOT_RESTORED, &error);
    }
    if let Err(error) = saved.user.restore_libraries(rt) {
        fail(rt, message::LIBRARIES_NOT_RESTORED, &error);
    }
    if let Err(error) = remap::restore_layout(&saved.user.layout, user::State::zones(), whose) {
        fail(rt, message::MAPPINGS_NOT_RESTORED, &error);
    }
}

/// Restores the pages that a survivor's own replica omits.
///
/// The replica omits pages whose changes the steps in `undone` have reverted: these pages stay. It
/// also omits static data: pages that were changed for the first time since the epoch are rebuilt.
/// Returns the pages that stay, which need not be loaded.
fn put_back_absent(
    rt: &Runtime,
    saved: &Saved,
    undone: Option<Undone>,
) -> Result<Vec<PageRun>, Damaged> {
    let layout = &saved.user.layout;
    let missing = {
        let keep = &mut *copies::keep(rt);
        restore::missing(&mut keep.tracker, layout, &keep.own.image, &keep.store)
    }
    .unwrap_or_else(|it| cannot_restore(rt, it));
    let right = step_back::compare(rt, &saved.marks, &missing, undone).map_err(Damaged)?;
    let missing = absent::without(&missing, &right);
    if missing.is_empty() {
        return Ok(right);
    }
    fault::point("load.half", copies::epoch(rt));
    let keep = &mut *copies::keep(rt);
    let (image, store) = (&mut keep.own.image, &mut keep.store);
    let began = Instant::now();
    let before = image.page_count();
    let script = rehearsal::own_script(rt)
        .ok_or_else(|| Damaged("no plan for a replay of its static data".into()))?;
    rehearsal::put_back(rt, &missing, &script, image, store)
        .map_err(|why| Damaged(format!("its static data cannot be rebuilt: {why}")))?;
    events::emit(Kind::Rebuilt {
        worker: script.worker,
        pages: image.page_count() - before,
        ns: events::nanoseconds(began),
    });
    Ok(right)
}

fn cannot_restore<T>(rt: &Runtime, error: RestoreError) -> T {
    fail(rt, message::MEMORY_NOT_RESTORED, &error)
}

/// Restores all pages except those in `right`.
///
/// Returns the pages in which locks of the program may lie.
fn load_pages(
    rt: &Runtime,
    origin: Origin,
    user: &user::State,
    ready: Option<Prefault>,
    right: &[PageRun],
) -> Result<Vec<PageRun>, RestoreError> {
    let (keep, layout) = (&mut *copies::keep(rt), &user.layout);
    let (image, store) = (&keep.own.image, &keep.store);
    let owners = user.owners();
    let stats = match origin {
        // Changed pages are tracked only since the last epoch.
        Origin::Survivor => restore::restore_pages(&mut keep.tracker, layout, image, store, right),
        _ => restore::load_all(&mut keep.tracker, layout, image, store, ready, &|page| {
            owners.may_be_in(page)
        }),
    }?;
    log::debug!("{} pages copied, {} dropped", stats.copied, stats.dropped);
    Ok(match origin {
        Origin::Survivor => image.pages(),
        _ => runs::intersect(&with_those_before(&stats.found), &image.pages()),
    })
}

/// Returns the pages with the page before each, in which a lock may begin.
fn with_those_before(pages: &[PageRun]) -> Vec<PageRun> {
    let wider = pages
        .iter()
        .map(|run| PageRun::between(run.start.0.saturating_sub(1), run.end()));
    runs::normalise(wider.collect())
}

/// Loads this worker's own committed epoch.
///
/// If the replica is damaged, an error is returned and nothing is loaded. `ready` is the result of
/// [`prepare`]. Any other failure leaves the program side half loaded, so it ends the job.
pub fn load(rt: &Runtime, origin: Origin, ready: Option<Prefault>) -> Result<Loaded, Damaged> {
    let state = copies::keep(rt).own.state.clone();
    if !state.is_whole() {
        return Err(Damaged("the saved state has a wrong checksum".into()));
    }
    let saved = decode(rt, &state.bytes);
    user::open_keys();
    let layout = &saved.user.layout;
    let right = if origin == Origin::Survivor {
        let undone = step_back::undo(rt, &saved.marks);
        restore_mappings(rt, &saved, Whose::Own);
        put_back_absent(rt, &saved, undone)?
    } else {
        let whose = match origin {
            Origin::Restart => Whose::Earlier,
            _ => Whose::Anothers,
        };
        restore_mappings(rt, &saved, whose);
        Vec::new()
    };
    let with_locks = match load_pages(rt, origin, &saved.user, ready, &right) {
        Ok(pages) => pages,
        Err(damaged @ (RestoreError::Damaged { .. } | RestoreError::Absent { .. })) => {
            return Err(Damaged(damaged.to_string()));
        }
        Err(error) => cannot_restore(rt, error),
    };
    if origin == Origin::Restart {
        saved.user.continue_output(rt);
    }
    let is_own = matches!(origin, Origin::Survivor | Origin::SurvivorAnew);
    if let Err(error) = saved.user.restore(rt, is_own) {
        fail(rt, message::STATE_NOT_RESTORED, &error);
    }
    if let Err(error) = saved.user.restore_threads(rt, &saved.frame, &with_locks) {
        fail(rt, message::THREADS_NOT_RESTORED, &error);
    }
    handles::mark(rt);
    objects::release_local(rt);
    objects::replace(rt, saved.objects);
    if let Err(error) = file::put_back(rt) {
        fail(rt, message::FILES_NOT_RESTORED, &error);
    }
    objects::rebuild_local(rt);
    copies::expose_windows(rt);
    requests::replace(rt, saved.requests);
    early::forget_matched(rt);
    early::replace(rt, saved.early);
    schedule::restore(rt, saved.schedule, !is_init(&saved.frame));
    marks::restore(rt, saved.marks);
    *requests::buffers_mut(rt) = saved.attached;
    clock::restore(&saved.clock);
    recompute::make(rt, &saved.frame, layout);
    Ok(Loaded {
        frame: saved.frame,
        on_disk: saved.disk,
        signals: saved.user.into_signals(),
        exceptions: sys::mask_exceptions(),
    })
}
