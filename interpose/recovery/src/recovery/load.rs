//! Loading of an epoch: restores the program side, in this or in another process.

use super::common_end::end_together;
use crate::Runtime;
use crate::abort::abort_with_error;
use crate::arch::Frame;
use crate::copies::{EncodedState, SavedState};
use crate::generated::Proc;
use crate::objects::{file, window};
use crate::reverse_computation::{self, UndoResult};
use crate::{
    annotations, clock, copies, disk, drained, events, fault, handles, objects, recompute,
    requests, schedule, static_data, system_calls, user, world,
};
use std::time::Instant;
use understudy_catalogue::{exit_status, message};
use understudy_formats::events::Kind;
use understudy_image::absent_pages;
use understudy_image::pages::{self, PageRun};
use understudy_image::prefault::Prefault;
use understudy_image::remap::{self, LayoutOrigin};
use understudy_image::restore;
use understudy_image::restore::RestoreError;
use understudy_numbers::ProcessNumber;

/// Result of loading the program side.
pub struct LoadedEpoch {
    /// Frame from which the program resumes.
    pub frame: Frame,
    /// Name of the epoch on disk, if the epoch was to be written there.
    pub on_disk: Option<disk::EpochKey>,
    /// Signals that were pending at the cut.
    pub signals: user::SignalState,
    /// Floating-point exceptions that the program has enabled; masked until the program resumes.
    ///
    /// See [`system_calls::mask_exceptions`].
    pub exceptions: u32,
}

/// Reason why a replica cannot be used.
pub struct ReplicaDamage(pub String);

/// Process that loads, and origin of the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOrigin {
    /// A survivor rolls back to its last epoch.
    Survivor,
    /// A survivor loads a replica that it did not have.
    ///
    /// The replica is of an older epoch from the disk, or the survivor's own replica from a buddy.
    SurvivorWithReceived,
    /// A replacement takes over.
    Replacement,
    /// The whole job was restarted.
    Restart,
}

/// Ends a start that cannot continue the output of the earlier job.
fn refuse_restart(rt: &Runtime, why: &str) -> ! {
    let is_first = world::is_first_worker(rt);
    if is_first {
        system_calls::print_message(format_args!("{why}; the job stops"));
    }
    end_together(rt, is_first, exit_status::REFUSED)
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

fn decode(rt: &Runtime, state: &[u8]) -> SavedState {
    copies::decode(state).unwrap_or_else(|why| {
        abort_with_error(rt, message::STATE_UNREADABLE, &std::io::Error::other(why))
    })
}

/// Maps the memory of a worker whose pages are being received, and makes it present.
///
/// `pages` are sorted.
pub fn prepare(rt: &Runtime, pages: Vec<PageRun>, state: &EncodedState) -> Prefault {
    let saved = decode(rt, &state.bytes);
    restore_mappings(rt, &saved, LayoutOrigin::OtherProcess);
    restore::prepare(
        &mut copies::replicas(rt).tracker,
        &saved.user.layout,
        &pages,
    )
    .unwrap_or_else(|it| cannot_restore(rt, it))
}

/// Ends the job if workers that share memory are on several nodes.
///
/// `processes` are those of the workers.
pub fn check_nodes(rt: &Runtime, processes: &[ProcessNumber]) {
    if let Err(apart) = window::shared::check_nodes(rt, processes) {
        abort_with_error(rt, message::JOB_CANNOT_CONTINUE, &apart);
    }
    if let Err(apart) = file::check_nodes(rt, processes) {
        abort_with_error(rt, message::JOB_CANNOT_CONTINUE, &apart);
    }
}

/// Locks the program's files as at the cut.
///
/// All processes have restored their files, so no lock that was taken later exists.
pub fn lock_files(rt: &Runtime) {
    if let Err(error) = user::take_file_locks(rt) {
        abort_with_error(rt, message::FILES_NOT_LOCKED, &error);
    }
}

fn restore_mappings(rt: &Runtime, saved: &SavedState, whose: LayoutOrigin) {
    // Libraries may need addresses where a new process has a thread's stack.
    if let Err(error) = saved.user.clear_threads(rt) {
        abort_with_error(rt, message::THREADS_NOT_RESTORED, &error);
    }
    if let Err(error) = saved.user.restore_libraries(rt) {
        abort_with_error(rt, message::LIBRARIES_NOT_RESTORED, &error);
    }
    if let Err(error) =
        remap::restore_layout(&saved.user.layout, user::ProgramState::zones(), whose)
    {
        abort_with_error(rt, message::MAPPINGS_NOT_RESTORED, &error);
    }
}

/// Restores the pages that a survivor's own replica omits.
///
/// The replica omits pages whose changes the steps in `undone` have reverted: these pages are right
/// in memory, and stay. The replica also omits static data: pages of static data that the program
/// has changed for the first time since the epoch are rebuilt. Returns the pages that stay, which
/// need not be loaded.
fn restore_omitted(
    rt: &Runtime,
    saved: &SavedState,
    undone: Option<UndoResult>,
) -> Result<Vec<PageRun>, ReplicaDamage> {
    let layout = &saved.user.layout;
    let missing = {
        let keep = &mut *copies::replicas(rt);
        restore::missing(&mut keep.tracker, layout, &keep.own.image, &keep.store)
    }
    .unwrap_or_else(|it| cannot_restore(rt, it));
    let right =
        reverse_computation::compare(rt, &saved.marks, &missing, undone).map_err(ReplicaDamage)?;
    let missing = absent_pages::without(&missing, &right);
    if missing.is_empty() {
        return Ok(right);
    }
    fault::point("load.half", copies::committed_epoch(rt));
    let keep = &mut *copies::replicas(rt);
    let (image, store) = (&mut keep.own.image, &mut keep.store);
    let began = Instant::now();
    let before = image.page_count();
    let plan = static_data::own_plan(rt)
        .ok_or_else(|| ReplicaDamage("no plan for a replay of its static data".into()))?;
    static_data::rebuild(rt, &missing, &plan, image, store)
        .map_err(|why| ReplicaDamage(format!("its static data cannot be rebuilt: {why}")))?;
    events::emit(Kind::Rebuilt {
        worker: plan.worker,
        pages: image.page_count() - before,
        ns: events::nanoseconds(began),
    });
    Ok(right)
}

fn cannot_restore<T>(rt: &Runtime, error: RestoreError) -> T {
    abort_with_error(rt, message::MEMORY_NOT_RESTORED, &error)
}

/// Restores all pages except those in `right`, whose content in memory is right.
///
/// Returns the pages in which locks of the program may lie.
fn load_pages(
    rt: &Runtime,
    origin: LoadOrigin,
    user: &user::ProgramState,
    ready: Option<Prefault>,
    right: &[PageRun],
) -> Result<Vec<PageRun>, RestoreError> {
    let (keep, layout) = (&mut *copies::replicas(rt), &user.layout);
    let (image, store) = (&keep.own.image, &keep.store);
    let owners = user.owners();
    let stats = match origin {
        // A survivor's changed pages since the epoch are known, so only these pages are restored.
        LoadOrigin::Survivor => {
            restore::restore_pages(&mut keep.tracker, layout, image, store, right)
        }
        _ => restore::load_all(&mut keep.tracker, layout, image, store, ready, &|page| {
            owners.may_be_in(page)
        }),
    }?;
    log::debug!("{} pages copied, {} dropped", stats.copied, stats.dropped);
    Ok(match origin {
        LoadOrigin::Survivor => image.pages(),
        _ => pages::intersect(&with_preceding_pages(&stats.selected), &image.pages()),
    })
}

/// Returns the pages with the page before each, in which a lock may begin.
fn with_preceding_pages(pages: &[PageRun]) -> Vec<PageRun> {
    let wider = pages
        .iter()
        .map(|run| PageRun::between(run.start.0.saturating_sub(1), run.end()));
    pages::normalise(wider.collect())
}

/// Loads this worker's own committed epoch.
///
/// `ready` is the result of [`prepare`]. Any error that is not a damaged replica ends the job,
/// since the program side may be half loaded.
///
/// # Errors
/// Fails if the replica is damaged. The next attempt then loads another replica, over the pages
/// that were loaded from this one.
pub fn load(
    rt: &Runtime,
    origin: LoadOrigin,
    ready: Option<Prefault>,
) -> Result<LoadedEpoch, ReplicaDamage> {
    let state = copies::replicas(rt).own.state.clone();
    if !state.is_unchanged() {
        return Err(ReplicaDamage("the saved state has a wrong checksum".into()));
    }
    let saved = decode(rt, &state.bytes);
    copies::expose_landings(&mut copies::replicas(rt).tracker);
    user::permit_all_keys();
    let layout = &saved.user.layout;
    let right = if origin == LoadOrigin::Survivor {
        let undone = reverse_computation::undo(rt, &saved.marks);
        restore_mappings(rt, &saved, LayoutOrigin::Own);
        restore_omitted(rt, &saved, undone)?
    } else {
        let whose = match origin {
            LoadOrigin::Restart => LayoutOrigin::EarlierRun,
            _ => LayoutOrigin::OtherProcess,
        };
        restore_mappings(rt, &saved, whose);
        Vec::new()
    };
    let with_locks = match load_pages(rt, origin, &saved.user, ready, &right) {
        Ok(pages) => pages,
        Err(damaged @ (RestoreError::Damaged { .. } | RestoreError::Absent { .. })) => {
            return Err(ReplicaDamage(damaged.to_string()));
        }
        Err(error) => cannot_restore(rt, error),
    };
    if origin == LoadOrigin::Restart {
        let continued = saved.user.continue_output(rt, world::worker(rt));
        continued.unwrap_or_else(|why| refuse_restart(rt, &why));
    }
    let is_own = matches!(
        origin,
        LoadOrigin::Survivor | LoadOrigin::SurvivorWithReceived
    );
    if let Err(error) = saved.user.restore(rt, is_own) {
        abort_with_error(rt, message::STATE_NOT_RESTORED, &error);
    }
    if let Err(error) = saved.user.restore_threads(rt, &saved.frame, &with_locks) {
        abort_with_error(rt, message::THREADS_NOT_RESTORED, &error);
    }
    handles::write_symbol_tags(rt);
    objects::release_local(rt);
    objects::replace(rt, saved.objects);
    if let Err(error) = file::restore(rt) {
        abort_with_error(rt, message::FILES_NOT_RESTORED, &error);
    }
    objects::rebuild_local(rt);
    copies::expose_windows(rt);
    requests::replace(rt, saved.requests);
    drained::discard_matched(rt);
    drained::replace(rt, saved.early);
    schedule::restore(rt, saved.schedule, !is_init(&saved.frame));
    annotations::restore(rt, saved.marks);
    *requests::buffers_mut(rt) = saved.attached;
    clock::restore(&saved.clock);
    recompute::recompute_memory(rt, &saved.frame, layout);
    Ok(LoadedEpoch {
        frame: saved.frame,
        on_disk: saved.disk,
        signals: saved.user.into_signals(),
        exceptions: system_calls::mask_exceptions(),
    })
}
