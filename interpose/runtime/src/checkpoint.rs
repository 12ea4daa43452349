//! Checkpoints: capture, ship, commit.
//!
//! *Capture* copies the pages that changed since the last epoch, and encodes the rest of the state.
//! *Ship* sends both to the buddies while the program continues. *Commit* is a reduction
//! ([`crate::max_allreduce`]) that a rank enters when the replicas that it stores are whole: when
//! any rank has the result of the reduction, every replica of the epoch is whole. Until then the
//! replicas of the previous epoch stay intact, in the workers and in their buddies.
#![allow(unsafe_code)]

mod savings;

use crate::Runtime;
use crate::abort::abort_with_error;
use crate::arch::{self, Frame, Rewound};
use crate::copies::{self, CapturedState, Replica};
use crate::fault::Victim;
use crate::objects::dynamic;
use crate::{
    annotations, events, fault, recompute, recovery, reinit, reverse_computation, schedule,
    static_data, system_calls, user, world,
};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::capture::{CaptureOptions, Captured, capture};
use understudy_numbers::Epoch;

/// Message for a transfer that fails although no process has failed.
const TRANSFER_FAILED: &str = "a replica cannot be sent to another worker";

/// Damages the replicas in this process, for tests.
///
/// The process exits if a transfer is using the replicas, which cannot be damaged then.
pub fn damage(rt: &Runtime, victim: Victim) {
    let Some(mut keep) = copies::try_replicas(rt) else {
        system_calls::print_message(message::REPLICAS_IN_USE);
        system_calls::exit_now(understudy_catalogue::exit_status::REFUSED)
    };
    let Some(keep) = &mut *keep else { return };
    match victim {
        Victim::Own => keep.own.damage_pages(true, &keep.store),
        Victim::Stored => {
            // The failed process determines which pages of parity are needed, so all pages are
            // damaged.
            let every = world::get(rt).redundancy.is_parity();
            let stored = keep.stored.iter_mut();
            stored.for_each(|copy| copy.damage_pages(every, &keep.store));
        }
        Victim::State => keep.stored.iter_mut().for_each(Replica::damage_state),
        Victim::Journal(harm) => {
            let plans = keep
                .stored
                .iter_mut()
                .filter_map(|copy| copy.replay_plan.as_mut());
            static_data::damage_journals(rt, plans, harm);
        }
    }
}

/// Captures this rank and starts to ship it; all workers are at this cut.
///
/// With `is_leaving` the program's threads and devices do not continue.
pub fn take(rt: &Runtime, is_leaving: bool) -> Result<(), Rewound> {
    let began = Instant::now();
    let epoch = copies::next_epoch(rt);
    let Some(frame) = arch::top_frame() else {
        return Ok(());
    };
    static_data::cut(rt, epoch);
    fault::point("capture.begin", epoch);
    // Receives are posted first, since another worker may send before this worker.
    let mut transfers = Vec::new();
    recovery::check_own(
        rt,
        copies::post_receives(rt, &mut transfers),
        TRANSFER_FAILED,
    )?;
    // Pages of freed heap memory are returned to the kernel at the checkpoints 2, 4, 8 and so on. A
    // program makes most of its temporary allocations while it starts, so the intervals grow.
    if epoch > Epoch(1)
        && epoch.0.is_power_of_two()
        && !static_data::compares()
        && !user::has_threads(rt)
    {
        user::heap::release_freed_pages();
    }
    let state = match user::capture(rt) {
        Ok(state) => state,
        Err(error) => abort_with_error(rt, message::PROGRAM_NOT_SAVED, &error),
    };
    recompute::check_regions(rt, &state.layout);
    reverse_computation::test_functions(rt);
    // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
    let frame: Frame = unsafe { *frame };
    user::begin_section(rt, epoch);
    let live = user::live_stack(state.main_stack(&frame), &state.layout);
    let scan = Instant::now();
    let at_point = schedule::schedule(rt).at_candidate;
    let left_out = annotations::omitted_pages(rt, at_point);
    let elided = reverse_computation::elidable_pages(rt, at_point);
    let Captured {
        delta,
        omitted: left_out,
    } = {
        let keep = &mut *copies::replicas(rt);
        let (tracker, store, own) = (&mut keep.tracker, &mut keep.store, &keep.own.image);
        copies::expose_landings(tracker);
        capture(
            tracker,
            &state.layout,
            &[live],
            CaptureOptions {
                omitted: &left_out,
                short_lived: &elided,
            },
            epoch,
            store,
            own,
        )
    }
    .unwrap_or_else(|error| abort_with_error(rt, message::MEMORY_NOT_SAVED, &error));
    copies::expose_only_open(rt);
    let copy_ns = events::nanoseconds(scan);
    let encoded = copies::encode(rt, &frame, &state);
    if let Some(number) = dynamic::record_capture(rt) {
        reinit::report_captured(world::worker(rt), number);
    }
    if !is_leaving {
        user::resume_threads(rt);
        recovery::resume_devices(rt);
    }
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
    savings::record(rt, epoch, at_point, left_out, &elided);
    log::debug!(
        "checkpoint {}: {pages} pages, {} bytes of state captured in {:?}",
        epoch,
        encoded.bytes.len(),
        began.elapsed()
    );
    fault::point("capture.end", epoch);
    let captured = CapturedState {
        delta,
        state: encoded,
        elided,
        began,
    };
    recovery::check_own(rt, copies::ship(rt, captured, transfers), TRANSFER_FAILED)?;
    advance(rt)
}

/// Advances the checkpoint under way, if any; called at MPI calls.
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
    let met = copies::advance(rt, || recovery::encoded_job_state(rt));
    match recovery::check_own(rt, met, TRANSFER_FAILED)? {
        Some([most, least, ..]) if most == -least => {
            copies::commit(rt);
            if let Some(number) = dynamic::record_commit(rt) {
                reinit::report_committed(world::worker(rt), number);
            }
        }
        Some([most, least, ..]) => abort_with_error(
            rt,
            message::COMMIT_DIFFERS,
            &std::io::Error::other(format!("checkpoints {} and {most}", -least)),
        ),
        None => {}
    }
    Ok(())
}
