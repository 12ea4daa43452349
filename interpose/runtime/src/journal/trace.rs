//! `UNDERSTUDY_TRACE=1`: the program runs without protection, and at its end one report tells which places of it call MPI, how often and
//! with how much data, in the initialisation phase and after it, and where that phase should end.
#![allow(unsafe_code)]

pub mod places;
mod report;
mod tally;

use super::outputs::Call;
use super::typemap::TypeMaps;
use crate::arch::{self, Frame};
use crate::generated::Proc;
use crate::journal::Runtime;
use crate::{gather, schedule, sys, told, world};
use report::{Report, Row};
use tally::Tally;

#[derive(Default)]
pub(super) struct State {
    tally: Tally,
    maps: TypeMaps,
    candidates: u64,
}

/// `MPI_Init` is about to return to the program.
pub fn start(rt: &Runtime) {
    if told::config().trace {
        rt.trace.set(Some(State::default()));
        arch::set_recording(true);
    }
}

/// A call of MPI has been made.
pub fn call(rt: &Runtime, frame: &Frame) {
    let Some(state) = &mut *rt.trace.borrow_mut() else {
        return;
    };
    let Some(call) = Call::of(frame) else { return };
    let mut bytes = 0;
    for output in call.outputs() {
        // What is not known has no bytes.
        let _ = call.pieces(rt, output, usize::MAX, &mut state.maps, |_, length| {
            bytes += length as u64
        });
    }
    if frame.slot as u32 == Proc::MPI_Type_free.slot() {
        state.maps.forget();
    }
    let now = schedule::schedule(rt).candidates;
    let may_be_cut = std::mem::replace(&mut state.candidates, now) != now;
    let place = arch::turn::call_site(frame);
    state
        .tally
        .call((place, frame.slot as u16), bytes, may_be_cut);
}

/// `MPI_Finalize`: the workers' findings become one report, which worker 0 prints.
pub fn report(rt: &Runtime) {
    let Some(state) = rt.trace.take() else { return };
    arch::set_recording(false);
    let own = own_report(&state.tally);
    match gather::everybodys(world::get(rt).private, &own) {
        Ok(all) if world::is_first_worker(rt) => {
            sys::write_message(report::merge(all).to_string().as_bytes())
        }
        Ok(_) => {}
        Err(class) => {
            log::error!("the reports of all workers cannot be put together: error class {class}")
        }
    }
}

fn own_report(tally: &Tally) -> Report {
    let phase = tally.phase();
    let addresses: Vec<u64> = phase.sites.iter().map(|site| site.place).collect();
    let places = places::names(&addresses);
    let name = |slot: u16| {
        Proc::from_slot(slot.into())
            .map_or("?", Proc::name)
            .to_owned()
    };
    let rows = phase
        .sites
        .into_iter()
        .zip(places)
        .map(|(site, place)| Row {
            place,
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
