//! `UNDERSTUDY_TRACE=1`: the program runs without protection, and at its end one report tells which places of it call MPI, how often and
//! with how much data, in the initialisation phase and after it, and where that phase should end.
#![allow(unsafe_code)]

mod places;
mod report;
mod tally;

use super::outputs::Call;
use super::typemap::TypeMaps;
use crate::arch::{self, Frame};
use crate::cell::Main;
use crate::generated::{Proc, real};
use crate::handles;
use crate::{boot, cut, sys, world};
use bincode::config::standard;
use places::Places;
use report::{Report, Row};
use std::ffi::c_int;
use tally::Tally;

#[derive(Default)]
struct State {
    tally: Tally,
    maps: TypeMaps,
    candidates: u64,
}

static STATE: Main<Option<State>> = Main::new(None);

/// `MPI_Init` is about to return to the program.
pub fn start() {
    if boot::config().trace {
        *STATE.get() = Some(State::default());
        arch::set_recording(true);
    }
}

/// A call of MPI has been made.
pub fn call(frame: &Frame) {
    let Some(state) = STATE.get() else { return };
    let Some(call) = Call::of(frame) else { return };
    let mut bytes = 0;
    for output in call.outputs() {
        // What is not known has no bytes.
        let _ = call.pieces(output, usize::MAX, &mut state.maps, |_, length| bytes += length as u64);
    }
    if frame.slot as u32 == Proc::MPI_Type_free.slot() {
        state.maps.forget();
    }
    let now = cut::schedule().candidates;
    let may_be_cut = std::mem::replace(&mut state.candidates, now) != now;
    // SAFETY: the frame's stack pointer points to the return address.
    let place = unsafe { *(frame.rsp as *const u64) };
    state.tally.call((place, frame.slot as u16), bytes, may_be_cut);
}

/// `MPI_Finalize`: the workers' findings become one report, which worker 0 prints.
pub fn report() {
    let Some(state) = STATE.get().take() else { return };
    arch::set_recording(false);
    let own = own_report(&state.tally);
    let all = gather(&bincode::encode_to_vec(&own, standard()).unwrap_or_default());
    if world::worker() == 0 {
        let reports = all.iter().filter_map(|bytes| {
            let decoded: Result<(Report, usize), _> = bincode::decode_from_slice(bytes, standard());
            decoded.ok().map(|(report, _)| report)
        });
        sys::write_message(report::merge(reports.collect()).to_string().as_bytes());
    }
}

fn own_report(tally: &Tally) -> Report {
    let mut places = Places::read();
    let phase = tally.phase();
    let name = |slot: u16| Proc::from_slot(slot.into()).map_or("?", Proc::name).to_owned();
    let rows = phase.sites.into_iter().map(|site| Row {
        place: places.name(site.place),
        procedure: name(site.slot),
        in_phase: site.in_phase,
        later: site.later,
    });
    Report {
        rows: rows.collect(),
        calls: phase.calls,
        calls_in_phase: phase.calls_in_phase,
        bytes_in_phase: phase.bytes_in_phase,
        automatic: phase.automatic,
        end: phase.end.map(|end| (end.number, name(end.slot), end.times)),
    }
}

/// What all workers have, at worker 0.
fn gather(own: &[u8]) -> Vec<Vec<u8>> {
    let (world, bytes) = (world::get(), handles::byte_type());
    let count = world.worker_count as usize;
    let (mut lengths, length) = (vec![0 as c_int; count], own.len() as c_int);
    let mut offsets = vec![0 as c_int; count];
    // SAFETY: collectives over all workers with buffers of the sizes that they name.
    unsafe {
        let size = size_of::<c_int>() as c_int;
        let to = lengths.as_mut_ptr().cast();
        real::PMPI_Gather(
            (&raw const length).cast(),
            size,
            bytes,
            to,
            size,
            bytes,
            0,
            world.private,
        );
        for index in 1..count {
            offsets[index] = offsets[index - 1] + lengths[index - 1];
        }
        let mut all = vec![0u8; lengths.iter().sum::<c_int>() as usize];
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        real::PMPI_Gatherv(
            from,
            length,
            bytes,
            to,
            lengths.as_ptr(),
            offsets.as_ptr(),
            bytes,
            0,
            world.private,
        );
        let part = |(&offset, &length): (&c_int, &c_int)| all[offset as usize..][..length as usize].to_vec();
        offsets.iter().zip(&lengths).map(part).collect()
    }
}
