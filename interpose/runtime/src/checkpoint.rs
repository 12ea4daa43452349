//! Checkpoints: capture, ship, commit.
//!
//! *Capture* copies the pages that changed since the last epoch, and encodes the rest of the state.
//! *Ship* sends both to the buddies while the program continues. *Commit* is a reduction
//! ([`crate::rounds`]) that a rank enters when the replicas that it stores are whole: when any rank
//! has its result, every replica of the epoch is whole. Until then the previous epoch stays intact
//! on both sides.
#![allow(unsafe_code)]

mod savings;

use crate::Runtime;
use crate::arch::{self, Frame, Rewound};
use crate::copies::{self, Capture, Copy};
use crate::ending::fail;
use crate::fault::Victim;
use crate::objects::dynamic;
use crate::{
    events, fault, marks, recompute, recovery, rehearsal, renewal, schedule, step_back, sys, user,
    world,
};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::capture::{Captured, capture};
use understudy_numbers::Epoch;

/// Message for a transfer that ends with an error other than a failure.
const LOST: &str = "a replica cannot be sent to another worker";

/// Damages the replicas in this process, for tests.
///
/// During a transfer this is impossible, so the process exits.
pub fn damage(rt: &Runtime, victim: Victim) {
    let Some(mut keep) = copies::try_keep(rt) else {
        sys::say(message::REPLICAS_IN_USE);
        sys::exit_now(understudy_abi::exit::REFUSED)
    };
    let Some(keep) = &mut *keep else { return };
    match victim {
        Victim::Own => keep.own.damage_pages(true, &keep.store),
        Victim::Held => {
            // The needed pages of parity depend on the failed process.
            let every = world::get(rt).redundancy.is_parity();
            let partners = keep.partners.iter_mut();
            partners.for_each(|copy| copy.damage_pages(every, &keep.store));
        }
        Victim::State => keep.partners.iter_mut().for_each(Copy::damage_state),
        Victim::Journal(harm) => {
            let scripts = keep
                .partners
                .iter_mut()
                .filter_map(|copy| copy.script.as_mut());
            rehearsal::damage_journals(rt, scripts, harm);
        }
    }
}

/// Captures this rank and starts to ship it; all workers are at this cut.
pub fn take(rt: &Runtime) -> Result<(), Rewound> {
    let began = Instant::now();
    let epoch = copies::next_epoch(rt);
    let Some(frame) = arch::top_frame() else {
        return Ok(());
    };
    rehearsal::cut(rt, epoch);
    fault::point("capture.begin", epoch);
    // Another worker may send first.
    let mut transfers = Vec::new();
    recovery::check_own(rt, copies::expect(rt, &mut transfers), LOST)?;
    // A program makes most of its temporary allocations while it starts. Later, freed memory is
    // returned at growing intervals.
    if epoch > Epoch(1)
        && epoch.0.is_power_of_two()
        && !rehearsal::compares()
        && !user::has_threads(rt)
    {
        user::heap::give_back_freed();
    }
    let state = match user::capture(rt) {
        Ok(state) => state,
        Err(error) => fail(rt, message::PROGRAM_NOT_SAVED, &error),
    };
    recompute::check(rt, &state.layout);
    step_back::check(rt);
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    let frame: Frame = unsafe { *frame };
    user::begin_section(rt, epoch);
    let live = user::live_stack(state.main_stack(&frame), &state.layout);
    let scan = Instant::now();
    let at_point = schedule::schedule(rt).at_candidate;
    let left_out = marks::left_out(rt, at_point);
    let spared = step_back::spared(rt, at_point);
    let Captured { delta, left_out } = {
        let keep = &mut *copies::keep(rt);
        let (tracker, store, own) = (&mut keep.tracker, &mut keep.store, &keep.own.image);
        capture(
            tracker,
            &state.layout,
            &[live],
            [&left_out, &spared],
            epoch,
            store,
            own,
        )
    }
    .unwrap_or_else(|error| fail(rt, message::MEMORY_NOT_SAVED, &error));
    copies::expose_only_windows(rt);
    let copy_ns = events::nanoseconds(scan);
    let encoded = copies::encode(rt, &frame, &state);
    if let Some(number) = dynamic::captured(rt) {
        renewal::captured(world::worker(rt), number);
    }
    user::let_threads_go(rt);
    recovery::devices_go_on(rt);
    let pages = delta.page_count();
    events::emit(Kind::Cut {
        epoch,
        at_call: schedule::schedule(rt).candidates,
        candidates: schedule::schedule(rt).candidates,
    });
    let bytes = pages * understudy_image::PAGE_SIZE as u64 + encoded.bytes.len() as u64;
    let scan_ns = (scan - began).as_nanos() as u64;
    events::emit(Kind::Capture {
        epoch,
        pages,
        bytes,
        scan_ns,
        copy_ns,
    });
    savings::tell(rt, epoch, at_point, left_out, &spared);
    log::debug!(
        "checkpoint {}: {pages} pages, {} bytes of state captured in {:?}",
        epoch,
        encoded.bytes.len(),
        began.elapsed()
    );
    fault::point("capture.end", epoch);
    let captured = Capture {
        delta,
        state: encoded,
        spared,
        began,
    };
    recovery::check_own(rt, copies::ship(rt, captured, transfers), LOST)?;
    advance(rt)
}

/// Advances a checkpoint that is under way; called at MPI calls.
#[inline]
pub fn poll(rt: &Runtime) -> Result<(), Rewound> {
    if copies::is_pending() {
        advance(rt)
    } else {
        Ok(())
    }
}

/// Waits until no checkpoint is under way.
pub fn finish(rt: &Runtime) -> Result<(), Rewound> {
    while copies::is_pending() {
        advance(rt)?;
    }
    Ok(())
}

#[cold]
fn advance(rt: &Runtime) -> Result<(), Rewound> {
    let met = copies::advance(rt, || recovery::welcome(rt));
    match recovery::check_own(rt, met, LOST)? {
        Some([most, least, ..]) if most == -least => {
            copies::commit(rt);
            if let Some(number) = dynamic::settled(rt) {
                renewal::settle(world::worker(rt), number);
            }
        }
        Some([most, least, ..]) => fail(
            rt,
            message::COMMIT_DIFFERS,
            &std::io::Error::other(format!("{most} and {}", -least)),
        ),
        None => {}
    }
    Ok(())
}
