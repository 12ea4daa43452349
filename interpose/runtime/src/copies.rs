//! Copies: what a process keeps of itself and of its partners, and the checkpoint that will follow.
//!
//! The last committed epoch stays intact while the next one is *pending*: captured, and on its way
//! to the holders. After a failure what is pending is committed or given up, whichever all workers
//! agree on.

mod claim;
mod copy;
mod hands;
mod legacy;
pub mod parity;
mod pending;
mod received;
mod records;
mod saved;
mod script;
mod sharing;
mod transfer;

use crate::arch::Frame;
use crate::attention::{self, PENDING};
use crate::cell::{Field, runtime};
use crate::ending::fail;
use crate::fault::Lack;
use crate::objects::window;
use crate::rounds::Numbers;
use crate::{disk, events, fault, marks, schedule, sys, told, user, world};
pub use claim::claim;
pub use copy::{Copy, State};
use hands::Hands;
pub use legacy::{Inherited, look as look_for_legacy, welcome_of_predecessor};
use legacy::{Kept, Legacy};
pub use pending::Capture;
use pending::Pending;
pub use saved::{Saved, decode};
pub use script::{Base, Replay, Script, Way, sums_of};
pub use sharing::share;
use std::cell::RefMut;
use std::time::{Duration, Instant};
pub use transfer::{Payload, Transfer};
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_image::absent;
use understudy_image::epoch::Image;
use understudy_image::helper::Helper;
use understudy_image::runs::{self, AddrRange, PageRun};
use understudy_image::store::{PageStore, StoreConfig};
use understudy_image::track::{TrackError, Tracker};
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::habit::Habit;

runtime! {
    pub struct Runtime: schedule::Runtime {
        /// All copies; `None` before the first.
        keep: Field<Option<Keep>> = Field::new(None),
        /// What a dead process has left.
        found: Field<Option<legacy::Estate>> = Field::new(None),
    }
}

/// What this process keeps.
pub struct Keep {
    /// Room for pages.
    pub store: PageStore,
    /// Knows which pages changed.
    pub tracker: Tracker,
    /// This rank's own last committed epoch.
    pub own: Copy,
    /// Its partners', by layer.
    pub partners: Vec<Copy>,
    helper: Helper,
    /// What is known of the holders' own pages, by layer.
    habits: Vec<Habit>,
    legacy: Option<Legacy>,
    /// Transfers of a recovery that have come to nothing: the library may still write there.
    pub orphans: Vec<Transfer>,
    /// How many epochs, one after the other, have used far less memory than is there.
    frugal: u32,
    pending: Option<Pending>,
    /// When the program was where the committed epoch is.
    since: Instant,
    /// The highest of all epochs, as [`Pending::rate`].
    rate: f64,
}

/// Addresses set aside for copies: 1 TiB, of which only what is used takes memory.
const STORE: StoreConfig = StoreConfig {
    base: None,
    capacity_pages: 1 << 28,
    dont_fork: true,
};

/// So many pages without use (16 MiB) are not worth giving back.
const FEW_IDLE: u64 = 4096;
/// After so many epochs that used little, memory is given back.
const FRUGAL_LIMIT: u32 = 3;

impl Keep {
    /// What is pending, and what it works with.
    fn at_work(&mut self) -> (&mut Option<Pending>, Hands<'_>) {
        let hands = Hands {
            store: &mut self.store,
            own: &self.own,
            partners: &self.partners,
            helper: &self.helper,
            habits: &mut self.habits,
            legacy: self.legacy.as_mut(),
        };
        (&mut self.pending, hands)
    }
}

/// What this process keeps; made at the first use.
#[track_caller]
pub fn keep(rt: &Runtime) -> RefMut<'_, Keep> {
    let make = || {
        let (store, legacy) =
            legacy::new_store().unwrap_or_else(|error| fail(rt, "no memory for copies", &error));
        let selected = Tracker::select_where(told::config().tracking, pretended_lack())
            .unwrap_or_else(|error| {
                fail(
                    rt,
                    "UNDERSTUDY_TRACKING: changed pages cannot be found this way",
                    &error,
                )
            });
        if let Some(why) = selected.fallback {
            log::info!(
                "pages are compared with their copies, since the kernel's tracking cannot be used: {}",
                sys::chain(&why)
            );
        }
        let layers = world::get(rt).redundancy.kept();
        Keep {
            store,
            tracker: selected.tracker,
            own: Copy::default(),
            partners: (0..layers).map(|_| Copy::default()).collect(),
            habits: vec![Habit::default(); layers],
            helper: Helper::new()
                .unwrap_or_else(|error| fail(rt, "no thread for checksums", &error)),
            legacy,
            orphans: Vec::new(),
            frugal: 0,
            pending: None,
            since: Instant::now(),
            rate: 0.0,
        }
    };
    RefMut::map(rt.keep.borrow_mut(), |keep| keep.get_or_insert_with(make))
}

/// The same, if nobody uses it; `None` inside before the first use.
pub fn try_keep(rt: &Runtime) -> Option<RefMut<'_, Option<Keep>>> {
    rt.keep.try_borrow_mut()
}

/// The pages of this process's windows, sorted.
fn exposed(rt: &Runtime) -> Vec<PageRun> {
    let pages = |(start, bytes): (u64, u64)| AddrRange::new(start, start + bytes).pages();
    runs::normalise(window::exposed(rt).into_iter().map(pages).collect())
}

/// What others may write into windows from now on is found, too, whatever they write with.
pub fn expose_windows(rt: &Runtime) {
    if let Some(keep) = rt.keep.borrow_mut().as_mut() {
        keep.tracker.expose(&exposed(rt));
    }
}

/// The same after a capture: windows that have gone count no more.
pub fn expose_only_windows(rt: &Runtime) {
    keep(rt).tracker.expose_only(exposed(rt));
}

/// What the kernel is to be taken to lack.
fn pretended_lack() -> Option<TrackError> {
    if fault::pretends(Lack::PagemapScan) {
        Some(TrackError::NoScan)
    } else if fault::pretends(Lack::Userfaultfd) {
        Some(TrackError::OpenUffd(std::io::Error::from_raw_os_error(
            libc::EPERM,
        )))
    } else {
        None
    }
}

/// Encodes the part of this process's state that is not in its pages.
pub fn encode(rt: &Runtime, frame: &Frame, user: &user::State) -> State {
    State::new(saved::encode(rt, frame, user))
}

/// Number of the last committed epoch; 0 before the first.
pub fn epoch(rt: &Runtime) -> Epoch {
    rt.keep
        .borrow()
        .as_ref()
        .map_or(Epoch::NONE, |keep| keep.own.image.epoch())
}

/// Number of the epoch that is or will be under way.
pub fn next_epoch(rt: &Runtime) -> Epoch {
    epoch(rt).next()
}

/// For each layer, the worker that keeps this worker's copy, and the worker whose copy this one keeps.
fn buddies(rt: &Runtime) -> impl Iterator<Item = (Worker, Worker)> {
    let (world, worker) = (world::get(rt), world::worker(rt));
    let buddies = world
        .redundancy
        .holders_of(worker)
        .zip(world.redundancy.partners_of(worker));
    buddies.collect::<Vec<_>>().into_iter()
}

/// Makes an epoch that was read from the disk the last committed one of this rank.
pub fn replace_own(rt: &Runtime, image: Image, state: Vec<u8>) {
    let state = State::new(state);
    let keep = &mut *keep(rt);
    keep.own.replace(
        Copy {
            image,
            state,
            script: None,
        },
        &mut keep.store,
    );
}

/// How long ago the program was where the committed epoch is.
pub fn age(rt: &Runtime) -> Duration {
    keep(rt).since.elapsed()
}

/// Whether a checkpoint is under way.
#[inline]
pub fn is_pending() -> bool {
    attention::is(PENDING)
}

/// Makes ready for what the partners send.
///
/// # Errors
/// The library's; nothing is under way then.
pub fn expect(rt: &Runtime, transfers: &mut Vec<Transfer>) -> mpi::Result<()> {
    for (_, from) in buddies(rt) {
        let mut transfer = Transfer::receive_only();
        let expected = transfer.expect(world::private(rt), from);
        transfers.push(transfer);
        if expected.is_err() {
            transfers.clear();
            return expected;
        }
    }
    Ok(())
}

/// Makes pending what was captured, and starts to send it.
///
/// # Errors
/// The library's.
pub fn ship(rt: &Runtime, captured: Capture, transfers: Vec<Transfer>) -> mpi::Result<()> {
    let keep = &mut *keep(rt);
    let (_, hands) = keep.at_work();
    let pending = Pending::begin(rt, captured, transfers, hands);
    attention::set(PENDING);
    keep.pending.insert(pending).ship_copies(rt, &keep.store)
}

/// Helps along what is pending; what came of the meeting, if it is over. `welcome` is what a newcomer has to know.
///
/// # Errors
/// Codes of the library.
pub fn advance(rt: &Runtime, welcome: impl FnOnce() -> Vec<u8>) -> mpi::Result<Option<Numbers>> {
    let keep = &mut *keep(rt);
    let (pending, hands) = keep.at_work();
    match pending {
        Some(pending) => pending.advance(rt, hands, welcome),
        None => Ok(None),
    }
}

/// Gives memory back that it took to make parity of much, when several epochs have `used` far less. Touching memory anew costs
/// more than anything else that is done with it, so not after every such epoch.
fn trim(rt: &Runtime, keep: &mut Keep, used: u64) {
    if !world::get(rt).redundancy.is_parity() || keep.store.idle() < 2 * used + FEW_IDLE {
        keep.frugal = 0;
        return;
    }
    keep.frugal += 1;
    if keep.frugal == FRUGAL_LIMIT {
        keep.frugal = 0;
        if let Err(error) = keep.store.give_back(used) {
            log::debug!("memory of copies is not given back: {}", sys::chain(&error));
        }
    }
}

/// Makes the pending epoch the committed one, on both sides.
pub fn commit(rt: &Runtime) {
    let Some((epoch, began)) = commit_pending(rt, &mut keep(rt)) else {
        return;
    };
    events::emit(Kind::Commit {
        epoch,
        ns: events::nanoseconds(began),
    });
    fault::point("commit.end", epoch);
}

/// Returns its number, and when it began; `None` if there is none, or not all of it is here.
fn commit_pending(rt: &Runtime, keep: &mut Keep) -> Option<(Epoch, Instant)> {
    let pending = keep.pending.take_if(|pending| pending.is_whole())?;
    attention::clear(PENDING);
    let (epoch, began) = (pending.epoch, pending.began);
    keep.since = began;
    keep.rate = pending.rate().map_or(keep.rate, |rate| rate.max(keep.rate));
    if let Some(legacy) = &mut keep.legacy {
        legacy.commit(&mut keep.store);
    }
    let remains = pending.end(&mut keep.store, &keep.helper);
    // The changes for others and from others, and the parity after them.
    let used = 3 * remains.delta.page_count();
    if keep
        .own
        .image
        .apply(remains.delta, &mut keep.store)
        .is_err()
    {
        fail(
            rt,
            "the epochs of this rank do not follow each other",
            &std::io::Error::other("internal error"),
        );
    }
    keep.own.state = remains.state;
    if let Some(received) = remains.received {
        received.apply(rt, &mut keep.partners, &mut keep.store, &keep.helper);
    }
    keep.own.image.give_up(&remains.spared, &mut keep.store);
    trim(rt, keep, used);
    events::set_epoch(epoch);
    // If this rank dies now, the others may not have committed it.
    let before = Epoch(epoch.0.saturating_sub(1));
    user::forget_before(
        rt,
        disk::oldest(rt).map_or(before, |oldest| oldest.min(before)),
    );
    disk::committed(
        rt,
        &mut keep.store,
        &keep.own.image,
        &keep.own.state.bytes,
        world::worker(rt),
    );
    Some((epoch, began))
}

/// After a failure: no checkpoint is under way. The pending epoch, if all of its copies here are whole.
pub fn interrupt(rt: &Runtime) -> Option<Epoch> {
    attention::clear(PENDING);
    let keep = &mut *rt.keep.borrow_mut();
    let Keep {
        orphans,
        store,
        pending,
        ..
    } = keep.as_mut()?;
    orphans
        .drain(..)
        .for_each(|transfer| transfer.give_up(store));
    let pending = pending.as_ref()?;
    pending.is_whole().then_some(pending.epoch)
}

/// What it costs, in nanoseconds, to go back to the committed epoch instead of the pending one, and to have a whole copy sent.
pub fn costs(rt: &Runtime) -> (u64, u64) {
    let keep = rt.keep.borrow();
    let Some(keep) = keep.as_ref() else {
        return (0, 0);
    };
    let pending = keep
        .pending
        .as_ref()
        .map(|pending| pending.began.duration_since(keep.since));
    let bytes = keep.own.image.page_count() * PAGE_SIZE as u64;
    let sent = || {
        if keep.rate > 0.0 {
            bytes as f64 / keep.rate
        } else {
            0.0
        }
    };
    (
        pending.map_or(0, |time| time.as_nanos() as u64),
        sys::quietly(|| sent() as u64),
    )
}

/// Whether this process's own copy, or that which is pending, is without what functions undo the changes of.
pub fn is_thin(rt: &Runtime) -> bool {
    let undoable = marks::lasting(rt).reversible_pages();
    let lacks = |keep: &Keep| {
        let spares = |pending: &Pending| !pending.spared.is_empty();
        !absent::among(keep.own.image.absent(), &undoable).is_empty()
            || keep.pending.as_ref().is_some_and(spares)
    };
    rt.keep.borrow().as_ref().is_some_and(lacks)
}

/// After a failure, once the workers know the last epoch that anyone has committed: commits or gives up what is pending.
pub fn resolve(rt: &Runtime, agreed: Epoch) {
    if let Some(keep) = &mut *rt.keep.borrow_mut() {
        Legacy::resolve(keep, agreed);
    }
    let is_agreed = |pending: &Pending| pending.epoch == agreed && pending.is_whole();
    let keeps = |keep: &Keep| keep.pending.as_ref().is_some_and(is_agreed);
    if rt.keep.borrow().as_ref().is_some_and(keeps) {
        return commit(rt);
    }
    give_up_pending(rt);
}

/// Gives up what is pending.
pub fn give_up_pending(rt: &Runtime) {
    let Some(keep) = &mut *rt.keep.borrow_mut() else {
        return;
    };
    let Some(pending) = keep.pending.take() else {
        return;
    };
    if let Some(legacy) = &mut keep.legacy {
        legacy.withdraw(&mut keep.store);
    }
    let remains = pending.end(&mut keep.store, &keep.helper);
    keep.tracker.abandon(remains.delta, &mut keep.store);
    if let Some(received) = remains.received {
        received.give_up(&mut keep.store, &keep.helper);
    }
}

/// All go back to an epoch on disk: what is recorded of later ones counts no more.
pub fn forget_legacy(rt: &Runtime) {
    let Some(keep) = &mut *rt.keep.borrow_mut() else {
        return;
    };
    Legacy::resolve(keep, Epoch::NONE);
    if let Some(legacy) = &mut keep.legacy {
        legacy.forget(&mut keep.store);
    }
}

/// After a recovery: records what this worker keeps now.
pub fn renew_legacy(rt: &Runtime, welcome: Vec<u8>) {
    let Keep {
        legacy,
        own,
        partners,
        store,
        since,
        ..
    } = &mut *keep(rt);
    *since = Instant::now();
    if let Some(legacy) = legacy {
        legacy.renew(rt, Kept { own, partners }, welcome, store);
    }
}

/// Frees all copies. No failure is recovered from any more.
pub fn discard(rt: &Runtime) {
    let discarded = |keep: &mut Keep| keep.store.discard();
    if let Some(Err(error)) = rt.keep.borrow_mut().as_mut().map(discarded) {
        log::warn!("copies are not freed: {}", sys::chain(&error));
    }
}

/// Takes over what a dead process has left to this one.
pub fn adopt(rt: &Runtime) -> Option<Inherited> {
    legacy::adopt(rt, &mut keep(rt))
}
