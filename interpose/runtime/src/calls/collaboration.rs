//! Annotations of the program by `MPI_Pcontrol`: see `interpose/include/understudy.h`.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::arch::{Frame, turn};
use crate::marks::Region;
use crate::{arch, copies, cut, journal, marks, schedule, world};
use std::ffi::c_int;
use understudy_image::runs::AddrRange;

/// Levels of `MPI_Pcontrol` that are annotations.
const POINT: c_int = 75001;
const CHECKPOINT: c_int = 75002;
const HOLD: c_int = 75003;
const RELEASE: c_int = 75004;
const ASK: c_int = 75005;
const DISCARD: c_int = 75006;
const EXCLUDE: c_int = 75007;
const INCLUDE: c_int = 75008;
const RECOMPUTE: c_int = 75009;
const REVERSIBLE: c_int = 75010;
const STEP: c_int = 75011;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct State {
    checkpoint: i64,
    cost: f64,
    is_protected: c_int,
    recoveries: c_int,
    is_substitute: c_int,
}

impl State {
    fn now(rt: &Runtime) -> State {
        let world = world::get(rt);
        State {
            checkpoint: copies::epoch(rt).0 as i64,
            cost: schedule::state(rt).cost.as_secs_f64(),
            is_protected: c_int::from(world.protected),
            recoveries: world.recoveries as c_int,
            is_substitute: c_int::from(world.process.0 != world::worker(rt).0),
        }
    }
}

/// Handles a call of `MPI_Pcontrol`; an error means that the program was rewound.
pub fn control(rt: &Runtime, level: c_int) -> Result<(), arch::Rewound> {
    if !world::is_protected() {
        return Ok(());
    }
    match level {
        POINT => cut::point(rt)?,
        CHECKPOINT => cut::wanted(rt)?,
        HOLD => schedule::state(rt).held += 1,
        RELEASE => {
            let held = &mut schedule::state(rt).held;
            *held = held.saturating_sub(1);
        }
        ASK => ask(rt),
        _ => {
            if let Some(call) = Call::of_now() {
                mark(rt, level, &call);
            }
        }
    }
    Ok(())
}

/// Applies an annotation of the program's memory.
fn mark(rt: &Runtime, level: c_int, call: &Call) {
    let (memory, place) = (call.range(), call.place);
    match level {
        DISCARD => marks::discard(rt, memory, place),
        EXCLUDE => marks::exclude(rt, memory, place),
        INCLUDE => marks::include(rt, memory),
        RECOMPUTE => marks::recompute(rt, call.region()),
        REVERSIBLE => marks::reversible(rt, call.region()),
        STEP => marks::step(rt, call.arguments[0] as i64),
        _ => {}
    }
}

/// Call of `MPI_Pcontrol` by the program.
struct Call {
    /// Arguments after the level, which the call table does not describe.
    arguments: [u64; 4],
    /// Return address of the call.
    place: u64,
}

impl Call {
    /// Returns the present call; `None` inside of a callback, where annotations are ignored.
    fn of_now() -> Option<Call> {
        // SAFETY: the frame lies at the top of the runtime's stack while a handler runs.
        let frame: Frame = arch::top_frame().map(|frame| unsafe { *frame })?;
        let [_, a, b, c, d, _] = frame.arguments;
        Some(Call {
            arguments: [a, b, c, d],
            place: turn::call_site(&frame),
        })
    }

    /// Returns the memory that the first two arguments describe: address and length.
    fn range(&self) -> AddrRange {
        let [start, length, ..] = self.arguments;
        AddrRange::new(start, start.saturating_add(length))
    }

    /// Returns the region: memory, and the function and its argument that follow.
    fn region(&self) -> Region {
        let [.., function, argument] = self.arguments;
        Region {
            memory: self.range(),
            function,
            argument,
            place: self.place,
        }
    }
}

/// Writes the state to the program's memory; a shorter structure gets the beginning.
fn ask(rt: &Runtime) {
    // The answers of two replays would differ.
    journal::give_up(rt);
    let Some(call) = Call::of_now() else { return };
    let [to, length, ..] = call.arguments;
    let length = (length as u32 as usize).min(size_of::<State>());
    let state = State::now(rt);
    // SAFETY: the header requires memory of the program of this length.
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
            ("HOLD", HOLD),
            ("RELEASE", RELEASE),
            ("ASK", ASK),
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
            "one is the file's own"
        );
    }
}
