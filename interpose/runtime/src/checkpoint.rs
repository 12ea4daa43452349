//! Checkpoints: capture, ship, commit.
//!
//! *Capture* copies the pages that changed since the last epoch, and encodes the rest of the state. *Ship* sends both to
//! the holders while the program goes on. *Commit* is a meeting ([`crate::rounds`]) that a rank comes to when its partners'
//! copies are whole: once anyone has heard from all, every copy of the epoch is whole. Until then the previous epoch stays
//! intact on both sides.
#![allow(unsafe_code)]

mod copy;
mod legacy;
pub mod parity;
mod pending;
mod received;
mod records;
mod saved;
mod transfer;

use crate::arch::Rewound;
use crate::arch::{self, Frame};
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::fault::{Lack, Victim};
use crate::image::capture::capture;
use crate::image::epoch::{Epoch, Image};
use crate::image::helper::Helper;
use crate::image::store::{PageStore, StoreConfig};
use crate::image::track::{TrackError, Tracker};
use crate::recovery::fail;
use crate::{disk, events, fault, marks, own_messages, recovery, rehearsal, schedule, sys, told, traffic, user, world};
use ckptd::events::{Epoch as EventEpoch, Kind};
pub use copy::{Copy, State};
pub use legacy::{Inherited, look as look_for_legacy, welcome_of_predecessor};
use legacy::{Kept, Legacy};
use pending::{Hands, Pending};
pub use saved::{Saved, decode};
use std::cell::RefMut;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
pub use transfer::{Payload, Transfer};

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
    legacy: Option<Legacy>,
    /// How many epochs, one after the other, have used far less memory than is there.
    frugal: u32,
    pending: Option<Pending>,
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

/// What is said when a transfer ends with an error that is not a failure.
const LOST: &str = "a copy cannot be sent to another worker";

static KEEP: Main<Option<Keep>> = Main::new(None);
/// Whether a checkpoint is under way: what every MPI call looks at.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// What this process keeps; made at the first use.
#[track_caller]
pub fn keep() -> RefMut<'static, Keep> {
    let make = || {
        let (store, legacy) = legacy::new_store().unwrap_or_else(|error| fail("no memory for copies", &error));
        let selected = Tracker::select_where(told::config().tracking, pretended_lack())
            .unwrap_or_else(|error| fail("UNDERSTUDY_TRACKING: changed pages cannot be found this way", &error));
        if let Some(why) = selected.fallback {
            log::info!(
                "pages are compared with their copies, since the kernel's tracking cannot be used: {}",
                sys::chain(&why)
            );
        }
        fault::damages_copies_by(damage);
        let kept = 0..world::get().redundancy.kept();
        Keep {
            store,
            tracker: selected.tracker,
            own: Copy::default(),
            partners: kept.map(|_| Copy::default()).collect(),
            helper: Helper::new().unwrap_or_else(|error| fail("no thread for checksums", &error)),
            legacy,
            frugal: 0,
            pending: None,
        }
    };
    RefMut::map(KEEP.borrow_mut(), |keep| keep.get_or_insert_with(make))
}

/// For tests: damages what this process keeps. In the middle of a transfer that cannot be.
fn damage(victim: Victim) {
    let Some(mut keep) = KEEP.try_borrow_mut() else {
        sys::say(format_args!(
            "UNDERSTUDY_FAULT: copies are in use at this point and cannot be damaged; choose another one, as commit.end"
        ));
        sys::exit_now(understudy_abi::exit::REFUSED)
    };
    let Some(keep) = &mut *keep else { return };
    match victim {
        Victim::Own => keep.own.damage_pages(true, &keep.store),
        Victim::Held => {
            // Which pages of parity are needed depends on who dies.
            let every = world::get().redundancy.is_parity();
            let partners = keep.partners.iter_mut();
            partners.for_each(|copy| copy.damage_pages(every, &keep.store));
        }
        Victim::State => keep.partners.iter_mut().for_each(Copy::damage_state),
        Victim::Journal(harm) => {
            let scripts = keep.partners.iter_mut().filter_map(|copy| copy.script.as_mut());
            rehearsal::damage_journals(scripts, harm);
        }
    }
}

/// What the kernel is to be taken to lack.
fn pretended_lack() -> Option<TrackError> {
    if fault::pretends(Lack::PagemapScan) {
        Some(TrackError::NoScan)
    } else if fault::pretends(Lack::Userfaultfd) {
        Some(TrackError::OpenUffd(std::io::Error::from_raw_os_error(libc::EPERM)))
    } else {
        None
    }
}

/// Number of the last committed epoch; 0 before the first.
pub fn epoch() -> u64 {
    KEEP.borrow().as_ref().map_or(0, |keep| keep.own.image.epoch().0)
}

/// Number of the epoch that is or will be under way.
pub fn next_epoch() -> u64 {
    epoch() + 1
}

/// For each layer, the worker that keeps this worker's copy, and the worker whose copy this one keeps.
fn buddies() -> impl Iterator<Item = (u32, u32)> {
    let (world, worker) = (world::get(), world::worker());
    let buddies = world
        .redundancy
        .holders_of(worker)
        .zip(world.redundancy.partners_of(worker));
    buddies.collect::<Vec<_>>().into_iter()
}

/// Makes an epoch that was read from the disk the last committed one of this rank.
pub fn replace_own(image: Image, state: Vec<u8>) {
    let state = State::new(state);
    let keep = &mut *keep();
    keep.own.replace(
        Copy {
            image,
            state,
            script: None,
        },
        &mut keep.store,
    );
}

/// Captures this rank and starts to ship it. All workers are at the same cut.
pub fn take() -> Result<(), Rewound> {
    let began = Instant::now();
    let epoch = next_epoch();
    let Some(frame) = arch::top_frame() else { return Ok(()) };
    rehearsal::cut(epoch);
    fault::point("capture.begin", epoch);
    // A partner may be faster.
    let mut transfers = Vec::new();
    recovery::check_own(expect(&mut transfers), LOST)?;
    // Most of what a program allocates for a while, it does while it begins. Later less and less often is often enough.
    if epoch > 1 && epoch.is_power_of_two() && !rehearsal::compares() {
        user::give_back_freed();
    }
    let state = match user::capture() {
        Ok(state) => state,
        Err(error) => fail("the program cannot be saved", &error),
    };
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    let frame: Frame = unsafe { *frame };
    user::begin_section(epoch);
    let live = user::live_stack(frame.rsp);
    let scan = Instant::now();
    let delta = {
        let keep = &mut *keep();
        let (tracker, store, own) = (&mut keep.tracker, &mut keep.store, &keep.own.image);
        capture(
            tracker,
            &state.layout,
            &[live],
            &marks::left_out(),
            Epoch(epoch),
            store,
            own,
        )
    }
    .unwrap_or_else(|error| fail("the program's memory cannot be saved", &error));
    let copy_ns = events::nanoseconds(scan);
    let encoded = State::new(saved::encode(&frame, &state));
    let pages = delta.page_count();
    events::emit(Kind::Cut {
        epoch: EventEpoch(epoch),
        at_call: schedule::schedule().candidates,
        candidates: schedule::schedule().candidates,
    });
    let bytes = pages * crate::image::PAGE_SIZE as u64 + encoded.bytes.len() as u64;
    let scan_ns = (scan - began).as_nanos() as u64;
    events::emit(Kind::Capture {
        epoch: EventEpoch(epoch),
        pages,
        bytes,
        scan_ns,
        copy_ns,
    });
    log::debug!(
        "epoch {epoch}: {pages} pages, {} bytes of state captured in {:?}",
        encoded.bytes.len(),
        began.elapsed()
    );
    fault::point("capture.end", epoch);
    let rc = {
        let keep = &mut *keep();
        let hands = Hands {
            store: &mut keep.store,
            own: &keep.own,
            partners: &keep.partners,
            helper: &keep.helper,
            legacy: keep.legacy.as_mut(),
        };
        let pending = keep
            .pending
            .insert(Pending::begin(delta, encoded, began, transfers, hands));
        ACTIVE.store(true, Ordering::Relaxed);
        pending.ship_copies(&keep.store)
    };
    recovery::check_own(rc, LOST)?;
    advance()
}

/// Helps a checkpoint along that is under way. Called at MPI calls.
#[inline]
pub fn poll() -> Result<(), Rewound> {
    if ACTIVE.load(Ordering::Relaxed) {
        advance()
    } else {
        Ok(())
    }
}

/// Whether a checkpoint is under way.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Waits until no checkpoint is under way.
pub fn finish() -> Result<(), Rewound> {
    while ACTIVE.load(Ordering::Relaxed) {
        advance()?;
    }
    Ok(())
}

/// Makes ready for what the partners send; an MPI error code if it cannot be, with nothing under way then.
fn expect(transfers: &mut Vec<Transfer>) -> c_int {
    for (_, from) in buddies() {
        let mut transfer = Transfer::receive_only();
        let rc = transfer.expect(world::private(), from);
        transfers.push(transfer);
        if rc != SUCCESS {
            transfers.drain(..).for_each(own_messages::keep);
            return rc;
        }
    }
    SUCCESS
}

#[cold]
fn advance() -> Result<(), Rewound> {
    let met = {
        let keep = &mut *keep();
        let Some(pending) = &mut keep.pending else {
            return Ok(());
        };
        pending.advance(Hands {
            store: &mut keep.store,
            own: &keep.own,
            partners: &keep.partners,
            helper: &keep.helper,
            legacy: keep.legacy.as_mut(),
        })
    };
    match met.or_else(|rc| recovery::check_own(rc, LOST).map(|()| None))? {
        Some([most, least, _]) if most == -least => commit(),
        Some([most, least, _]) => fail(
            "the workers do not commit the same epoch",
            &std::io::Error::other(format!("{most} and {}", -least)),
        ),
        None => {}
    }
    Ok(())
}

/// Gives memory back that it took to make parity of much, when several epochs have `used` far less. Touching memory anew costs
/// more than anything else that is done with it, so not after every such epoch.
fn trim(keep: &mut Keep, used: u64) {
    if !world::get().redundancy.is_parity() || keep.store.idle() < 2 * used + FEW_IDLE {
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
fn commit() {
    let Some((epoch, began)) = commit_pending(&mut keep()) else {
        return;
    };
    events::emit(Kind::Commit {
        epoch: EventEpoch(epoch),
        ns: events::nanoseconds(began),
    });
    traffic::tell_now_and_then();
    fault::point("commit.end", epoch);
}

/// Returns its number, and when it began; `None` if there is none, or not all of it is here.
fn commit_pending(keep: &mut Keep) -> Option<(u64, Instant)> {
    let pending = keep.pending.take_if(|pending| pending.is_whole())?;
    ACTIVE.store(false, Ordering::Relaxed);
    let (epoch, began) = (pending.epoch, pending.began);
    if let Some(legacy) = &mut keep.legacy {
        legacy.commit(&mut keep.store);
    }
    let remains = pending.end(&mut keep.store, &keep.helper);
    // The changes for others and from others, and the parity after them.
    let used = 3 * remains.delta.page_count();
    if keep.own.image.apply(remains.delta, &mut keep.store).is_err() {
        fail(
            "the epochs of this rank do not follow each other",
            &std::io::Error::other("internal error"),
        );
    }
    keep.own.state = remains.state;
    if let Some(received) = remains.received {
        received.apply(&mut keep.partners, &mut keep.store, &keep.helper);
    }
    trim(keep, used);
    events::set_epoch(epoch);
    // If this rank dies now, the others may not have committed it.
    let before = epoch.saturating_sub(1);
    user::forget_before(disk::oldest().map_or(before, |oldest| oldest.min(before)));
    disk::committed(&mut keep.store, &keep.own.image, &keep.own.state.bytes, world::worker());
    Some((epoch, began))
}

/// After a failure: no checkpoint is under way. The pending epoch, if all of its copies here are whole.
pub fn interrupt() -> Option<u64> {
    ACTIVE.store(false, Ordering::Relaxed);
    let keep = KEEP.borrow();
    let pending = keep.as_ref()?.pending.as_ref()?;
    pending.is_whole().then_some(pending.epoch)
}

/// After a failure, once the workers know the last epoch that anyone has committed: commits or gives up what is pending.
pub fn resolve(agreed: u64) {
    if let Some(keep) = &mut *KEEP.borrow_mut() {
        Legacy::resolve(keep, agreed);
    }
    let is_agreed = |pending: &Pending| pending.epoch == agreed && pending.is_whole();
    let keeps = |keep: &Keep| keep.pending.as_ref().is_some_and(is_agreed);
    if KEEP.borrow().as_ref().is_some_and(keeps) {
        return commit();
    }
    give_up_pending();
}

/// Gives up what is pending.
pub fn give_up_pending() {
    let Some(keep) = &mut *KEEP.borrow_mut() else { return };
    let Some(pending) = keep.pending.take() else { return };
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
pub fn forget_legacy() {
    let Some(keep) = &mut *KEEP.borrow_mut() else { return };
    Legacy::resolve(keep, 0);
    if let Some(legacy) = &mut keep.legacy {
        legacy.forget(&mut keep.store);
    }
}

/// After a recovery: records what this worker keeps now.
pub fn renew_legacy() {
    let Keep {
        legacy,
        own,
        partners,
        store,
        ..
    } = &mut *keep();
    if let Some(legacy) = legacy {
        legacy.renew(Kept { own, partners }, store);
    }
}

/// Takes over what a dead process has left to this one.
pub fn adopt() -> Option<Inherited> {
    legacy::adopt(&mut keep())
}
