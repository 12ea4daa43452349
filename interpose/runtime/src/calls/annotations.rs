//! Annotations of the program by `MPI_Pcontrol`: see `interpose/include/understudy.h`.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::annotations::FunctionRegion;
use crate::arch::{Frame, mpi_lock};
use crate::{annotations, arch, copies, cut, journal, schedule, world};
use std::ffi::c_int;
use understudy_image::pages::AddrRange;

// Levels of `MPI_Pcontrol` that are annotations (`understudy.h`).

const POINT: c_int = 75001;
const CHECKPOINT: c_int = 75002;
const INHIBIT: c_int = 75003;
const RELEASE: c_int = 75004;
const QUERY: c_int = 75005;
const DISCARD: c_int = 75006;
const EXCLUDE: c_int = 75007;
const INCLUDE: c_int = 75008;
const RECOMPUTE: c_int = 75009;
const REVERSIBLE: c_int = 75010;
const STEP: c_int = 75011;

/// State of the job for the program: `struct understudy_state` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct JobStateAnswer {
    checkpoint: i64,
    cost: f64,
    is_protected: c_int,
    recoveries: c_int,
    is_substitute: c_int,
}

impl JobStateAnswer {
    fn now(rt: &Runtime) -> JobStateAnswer {
        let world = world::get(rt);
        JobStateAnswer {
            checkpoint: copies::committed_epoch(rt).0 as i64,
            cost: schedule::state(rt).cost.as_secs_f64(),
            is_protected: c_int::from(world.protected),
            recoveries: world.recoveries as c_int,
            is_substitute: c_int::from(world.process.0 != world::worker(rt).0),
        }
    }
}

/// Handles a call of `MPI_Pcontrol`; an error means that the program was rewound.
pub fn handle_pcontrol(rt: &Runtime, level: c_int) -> Result<(), arch::Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    match level {
        POINT => cut::point(rt)?,
        CHECKPOINT => cut::requested(rt)?,
        INHIBIT => schedule::state(rt).inhibit_depth += 1,
        RELEASE => {
            let depth = &mut schedule::state(rt).inhibit_depth;
            *depth = depth.saturating_sub(1);
        }
        QUERY => answer_query(rt),
        _ => {
            if let Some(call) = PcontrolCall::current() {
                annotate_memory(rt, level, &call);
            }
        }
    }
    Ok(())
}

/// Applies an annotation of the program's memory.
fn annotate_memory(rt: &Runtime, level: c_int, call: &PcontrolCall) {
    let (memory, call_site) = (call.range(), call.call_site);
    match level {
        DISCARD => annotations::discard(rt, memory, call_site),
        EXCLUDE => annotations::exclude(rt, memory, call_site),
        INCLUDE => annotations::include(rt, memory),
        RECOMPUTE => annotations::recompute(rt, call.region()),
        REVERSIBLE => annotations::reversible(rt, call.region()),
        STEP => annotations::record_step(rt, call.arguments[0] as i64),
        _ => {}
    }
}

/// Call of `MPI_Pcontrol` by the program.
struct PcontrolCall {
    /// Arguments after the level, which the call table does not describe.
    arguments: [u64; 4],
    /// Return address of the call.
    call_site: u64,
}

impl PcontrolCall {
    /// Returns the present call; `None` inside of a callback, where annotations are ignored.
    fn current() -> Option<PcontrolCall> {
        // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
        let frame: Frame = arch::top_frame().map(|frame| unsafe { *frame })?;
        let [_, a, b, c, d, _] = frame.arguments;
        Some(PcontrolCall {
            arguments: [a, b, c, d],
            call_site: mpi_lock::call_site(&frame),
        })
    }

    /// Returns the memory that the first two arguments describe: address and length.
    fn range(&self) -> AddrRange {
        let [start, length, ..] = self.arguments;
        AddrRange::new(start, start.saturating_add(length))
    }

    /// Returns the region: memory, and the function and its argument that follow.
    fn region(&self) -> FunctionRegion {
        let [.., function, argument] = self.arguments;
        FunctionRegion {
            memory: self.range(),
            function,
            argument,
            place: self.call_site,
        }
    }
}

/// Writes the state to the program's structure, as far as the structure has room.
fn answer_query(rt: &Runtime) {
    // A replay would get another answer, so the phase is not recorded any more.
    journal::drop_recording(rt);
    let Some(call) = PcontrolCall::current() else {
        return;
    };
    let [to, length, ..] = call.arguments;
    let length = (length as u32 as usize).min(size_of::<JobStateAnswer>());
    let state = JobStateAnswer::now(rt);
    // SAFETY: the header makes the program responsible for memory of this length.
    unsafe { (to as *mut u8).copy_from_nonoverlapping((&raw const state).cast(), length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_these_levels() {
        let header = include_str!("../../../include/understudy.h");
        let levels = [
            ("POINT", POINT),
            ("CHECKPOINT", CHECKPOINT),
            ("HOLD", INHIBIT),
            ("RELEASE", RELEASE),
            ("ASK", QUERY),
            ("DISCARD", DISCARD),
            ("EXCLUDE", EXCLUDE),
            ("INCLUDE", INCLUDE),
            ("RECOMPUTE", RECOMPUTE),
            ("REVERSIBLE", REVERSIBLE),
            ("STEP", STEP),
        ];
        for (name, level) in levels {
            assert!(
                header.contains(&format!("#define UNDERSTUDY_{name} {level}\n")),
                "{name}"
            );
        }
        assert_eq!(
            header.matches("#define UNDERSTUDY_").count(),
            levels.len() + 1,
            "the header defines these levels and its include guard"
        );
    }
}
