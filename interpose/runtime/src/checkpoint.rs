//! Checkpoints: capture, ship, commit.
//!
//! *Capture* copies the pages that changed since the last epoch, and encodes the rest of the state. *Ship* sends both to
//! the holders while the program goes on. *Commit* is a meeting ([`crate::rounds`]) that a rank comes to when its partners'
//! copies are whole: once anyone has heard from all, every copy of the epoch is whole. Until then the previous epoch stays
//! intact on both sides.
#![allow(unsafe_code)]

mod copy;
mod saved;
mod transfer;

use crate::arch::{self, Frame};
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::fault::{Lack, Victim};
use crate::image::capture::capture;
use crate::image::epoch::{Delta, Epoch, Image};
use crate::image::store::{PageStore, StoreConfig};
use crate::image::sums::{Summer, Summing};
use crate::image::track::{TrackError, Tracker};
use crate::image::wire::SendOptions;
use crate::own_messages::{self, tag};
use crate::recovery::Rewound;
use crate::rounds::Rounds;
use crate::{boot, disk, events, fault, journal, user, world};
use ckptd::events::{Epoch as EventEpoch, Kind, WorldRank};
pub use copy::{Copy, State};
pub use saved::{Saved, decode};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
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
    summer: Summer,
    pending: Option<Pending>,
}

/// A checkpoint under way.
struct Pending {
    epoch: u64,
    delta: Delta,
    /// The checksums of the delta's pages, until they have been made.
    summing: Option<Summing>,
    state: State,
    began: Instant,
    bytes: u64,
    /// To the holder and from the partner of each layer.
    transfers: Vec<Transfer>,
    /// What happens when the partners' copies are whole.
    commit: Option<Commit>,
    /// The own copy is sent, too, and this was reported.
    shipped: bool,
}

/// A commit under way.
struct Commit {
    rounds: Rounds,
    partners: Vec<Payload>,
}

/// Addresses set aside for copies, in pages: 1 TiB, of which only what is used takes memory.
const STORE_PAGES: u64 = 1 << 28;

/// How long receives that were just posted may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What is said when a transfer ends with an error that is not a failure.
const LOST: &str = "a copy cannot be sent to another worker";

static KEEP: Main<Option<Keep>> = Main::new(None);
/// Whether a checkpoint is under way: what every MPI call looks at.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// What this process keeps; made at the first use.
pub fn keep() -> &'static mut Keep {
    KEEP.get().get_or_insert_with(|| {
        let store = PageStore::new(StoreConfig {
            base: None,
            capacity_pages: STORE_PAGES,
            dont_fork: true,
        })
        .unwrap_or_else(|error| fail("no memory for copies", &error));
        let selected = Tracker::select_where(boot::config().tracking, pretended_lack())
            .unwrap_or_else(|error| fail("UNDERSTUDY_TRACKING: changed pages cannot be found this way", &error));
        if let Some(why) = selected.fallback {
            log::info!(
                "pages are compared with their copies, since the kernel's tracking cannot be used: {}",
                chain(&why)
            );
        }
        fault::damages_copies_by(damage);
        let layers = 0..world::get().redundancy.layers();
        Keep {
            store,
            tracker: selected.tracker,
            own: Copy::default(),
            partners: layers.map(|_| Copy::default()).collect(),
            summer: Summer::new().unwrap_or_else(|error| fail("no thread for checksums", &error)),
            pending: None,
        }
    })
}

/// For tests: damages what this process keeps.
fn damage(victim: Victim) {
    let Some(keep) = KEEP.get().as_mut() else { return };
    match victim {
        Victim::Own => keep.own.damage_pages(true, &keep.store),
        Victim::Held => keep
            .partners
            .iter_mut()
            .for_each(|copy| copy.damage_pages(false, &keep.store)),
        Victim::State => keep.partners.iter_mut().for_each(Copy::damage_state),
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

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Ends the job: going on would risk a wrong result.
pub fn fail(what: &str, error: &dyn std::error::Error) -> ! {
    crate::sys::say(format_args!("{what}: {}; the job ends", chain(error)));
    world::abort(understudy_abi::exit::UNSAVED)
}

/// Number of the last committed epoch; 0 before the first.
pub fn epoch() -> u64 {
    KEEP.get().as_ref().map_or(0, |keep| keep.own.image.epoch().0)
}

/// Number of the epoch that is or will be under way.
pub fn next_epoch() -> u64 {
    epoch() + 1
}

/// For each layer, the worker that keeps this worker's copy, and the worker whose copy this one keeps.
fn buddies() -> impl Iterator<Item = (u32, u32)> {
    let (redundancy, worker) = (&world::get().redundancy, world::worker());
    redundancy.holders_of(worker).zip(redundancy.partners_of(worker))
}

/// Makes an epoch that was read from the disk the last committed one of this rank.
pub fn replace_own(image: Image, state: Vec<u8>) {
    let state = State::new(state);
    let keep = keep();
    keep.own.replace(
        Copy {
            image,
            state,
            thin: None,
        },
        &mut keep.store,
    );
}

/// Captures this rank and starts to ship it. All workers are at the same cut.
pub fn take() -> Result<(), Rewound> {
    let began = Instant::now();
    let epoch = next_epoch();
    let Some(frame) = arch::top_frame() else { return Ok(()) };
    journal::cut(epoch);
    fault::point("capture.begin", epoch);
    let keep = keep();
    // A partner may be faster.
    let mut transfers = Vec::new();
    own_messages::check(expect(&mut transfers), LOST)?;
    let state = match user::capture() {
        Ok(state) => state,
        Err(error) => fail("the program cannot be saved", &error),
    };
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    let frame: Frame = unsafe { *frame };
    user::begin_section(epoch);
    let live = user::live_stack(frame.rsp);
    let scan = Instant::now();
    let delta = capture(
        &mut keep.tracker,
        &state.layout,
        &[live],
        Epoch(epoch),
        &mut keep.store,
        &keep.own.image,
    )
    .unwrap_or_else(|error| fail("the program's memory cannot be saved", &error));
    let copy_ns = events::nanoseconds(scan);
    let encoded = State::new(saved::encode(&frame, &state));
    let pages = delta.page_count();
    events::emit(Kind::Cut {
        epoch: EventEpoch(epoch),
        at_call: crate::cut::schedule().candidates,
        candidates: crate::cut::schedule().candidates,
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
    let summing = keep.summer.start(delta.runs(), &keep.store);
    for transfer in &mut transfers {
        let outgoing = delta.outgoing(&keep.store, SendOptions::default());
        transfer.give(outgoing, encoded.clone());
    }
    let pending = keep.pending.insert(Pending {
        epoch,
        delta,
        summing: Some(summing),
        state: encoded,
        began,
        bytes,
        transfers,
        commit: None,
        shipped: false,
    });
    ACTIVE.store(true, Ordering::Relaxed);
    for (transfer, (to, _)) in pending.transfers.iter_mut().zip(buddies()) {
        own_messages::check(transfer.ship(world::private(), to), LOST)?;
    }
    fault::point("ship.begin", epoch);
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
            transfers.iter_mut().for_each(|transfer| transfer.quiesce(END_LIMIT));
            return rc;
        }
    }
    SUCCESS
}

#[cold]
fn advance() -> Result<(), Rewound> {
    let keep = keep();
    let Some(pending) = &mut keep.pending else {
        return Ok(());
    };
    if let Some(summing) = pending.summing.take_if(|summing| keep.summer.is_over(summing)) {
        let sums = keep.summer.end(summing, &mut keep.store);
        for transfer in &mut pending.transfers {
            own_messages::check(transfer.give_sums(sums.clone()), LOST)?;
        }
    }
    for transfer in &mut pending.transfers {
        own_messages::check(transfer.poll(&mut keep.store), LOST)?;
    }
    if pending.commit.is_none() && pending.transfers.iter().all(Transfer::is_whole) {
        fault::point("commit.begin", pending.epoch);
        let (epoch, world) = (pending.epoch as i64, world::get());
        let parts = (world::worker(), world.worker_count);
        let partners = pending
            .transfers
            .iter_mut()
            .filter_map(Transfer::take_received)
            .collect();
        let (rounds, rc) = Rounds::start(world.private, tag::COMMIT, parts, [epoch, -epoch]);
        pending.commit = Some(Commit { rounds, partners });
        own_messages::check(rc, LOST)?;
    }
    let Some(Commit { rounds, partners }) = &mut pending.commit else {
        return Ok(());
    };
    let met = rounds
        .poll()
        .or_else(|rc| own_messages::check(rc, LOST).map(|()| None))?;
    if !pending.transfers.iter().all(Transfer::is_done) {
        return Ok(());
    }
    if !pending.shipped {
        pending.shipped = true;
        shipped(pending.epoch, pending.began, pending.bytes, partners);
    }
    match met {
        Some([most, least]) if most == -least => commit(),
        Some([most, least]) => fail(
            "the workers do not commit the same epoch",
            &std::io::Error::other(format!("{most} and {}", -least)),
        ),
        None => {}
    }
    Ok(())
}

fn shipped(epoch: u64, began: Instant, sent: u64, received: &[Payload]) {
    let player = |worker: u32| WorldRank(world::get().players[worker as usize]);
    let (of, ns) = (EventEpoch(epoch), events::nanoseconds(began));
    for ((to, from), received) in buddies().zip(received) {
        events::emit(Kind::Ship {
            epoch: of,
            to: player(to),
            bytes: sent,
            ns,
        });
        events::emit(Kind::Received {
            epoch: of,
            from: player(from),
            bytes: received.bytes(),
            ns,
        });
    }
    fault::point("ship.end", epoch);
}

/// Makes the pending epoch the committed one, on both sides.
fn commit() {
    let keep = keep();
    let Some(Pending {
        epoch,
        delta,
        summing,
        state,
        began,
        transfers,
        commit: Some(Commit { partners, .. }),
        ..
    }) = keep.pending.take()
    else {
        return;
    };
    ACTIVE.store(false, Ordering::Relaxed);
    if let Some(summing) = summing {
        keep.summer.end(summing, &mut keep.store);
    }
    if keep.own.image.apply(delta, &mut keep.store).is_err() {
        fail(
            "the epochs of this rank do not follow each other",
            &std::io::Error::other("internal error"),
        );
    }
    keep.own.state = state;
    for transfer in transfers {
        transfer.give_up(&mut keep.store);
    }
    for (received, kept) in partners.into_iter().zip(&mut keep.partners) {
        received
            .apply(kept, &mut keep.store)
            .unwrap_or_else(|error| fail("the partner's copy cannot be kept", &error));
    }
    events::set_epoch(epoch);
    // If this rank dies now, the others may not have committed it.
    let before = epoch.saturating_sub(1);
    user::forget_before(disk::oldest().map_or(before, |oldest| oldest.min(before)));
    disk::committed(&mut keep.store, &keep.own.image, &keep.own.state.bytes, world::worker());
    events::emit(Kind::Commit {
        epoch: EventEpoch(epoch),
        ns: events::nanoseconds(began),
    });
    fault::point("commit.end", epoch);
}

/// After a failure: ends all transfers. Returns the pending epoch if all of its copies here are whole.
pub fn quiesce(limit: Duration) -> Option<u64> {
    ACTIVE.store(false, Ordering::Relaxed);
    let keep = KEEP.get().as_mut()?;
    let pending = keep.pending.as_mut()?;
    for transfer in &mut pending.transfers {
        transfer.quiesce(limit);
    }
    let commit = pending.commit.as_mut()?;
    commit.rounds.quiesce(limit);
    Some(pending.epoch)
}

/// After a failure, once the workers know the last epoch that anyone has committed: commits or gives up what is pending.
pub fn resolve(agreed: u64) {
    let Some(keep) = KEEP.get().as_mut() else { return };
    let Some(pending) = &keep.pending else { return };
    if pending.epoch == agreed && pending.commit.is_some() {
        return commit();
    }
    give_up_pending();
}

/// Gives up what is pending.
pub fn give_up_pending() {
    let Some(keep) = KEEP.get().as_mut() else { return };
    let Some(pending) = keep.pending.take() else { return };
    if let Some(summing) = pending.summing {
        keep.summer.end(summing, &mut keep.store);
    }
    keep.tracker.abandon(pending.delta, &mut keep.store);
    let partners = pending.commit.into_iter().flat_map(|commit| commit.partners);
    partners.for_each(|partner| partner.give_up(&mut keep.store));
    for transfer in pending.transfers {
        transfer.give_up(&mut keep.store);
    }
}
