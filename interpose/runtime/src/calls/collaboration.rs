//! What the program tells the layer, and asks of it, by `MPI_Pcontrol`: see `interpose/include/understudy.h`.
#![allow(unsafe_code)]

use crate::image::runs::AddrRange;
use crate::recovery::Runtime;
use crate::{arch, copies, cut, journal, marks, schedule, world};
use std::ffi::c_int;

/// Levels of `MPI_Pcontrol` that are requests.
const POINT: c_int = 75001;
const CHECKPOINT: c_int = 75002;
const HOLD: c_int = 75003;
const RELEASE: c_int = 75004;
const ASK: c_int = 75005;
const DISCARD: c_int = 75006;
const EXCLUDE: c_int = 75007;
const INCLUDE: c_int = 75008;

/// The program's `understudy_state`.
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

/// `MPI_Pcontrol` has been called with this level. An error: the program goes on elsewhere.
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
        DISCARD => marks::discard(rt, range()),
        EXCLUDE => marks::exclude(rt, range()),
        INCLUDE => marks::include(rt, range()),
        _ => {}
    }
    Ok(())
}

/// The arguments behind the level, which the call table does not know.
fn arguments() -> [u64; 2] {
    // SAFETY: the frame lies at the top of the runtime's stack as long as a handler runs.
    let frame = arch::top_frame().map(|frame| unsafe { *frame });
    // Inside of a callback there is none, and nothing is answered or marked.
    frame.map_or([0; 2], |frame| [frame.arguments[1], frame.arguments[2]])
}

/// Those that are an address and a length.
fn range() -> AddrRange {
    let [start, length] = arguments();
    AddrRange::new(start, start.saturating_add(length))
}

/// Answers into the program's memory; a caller with a shorter structure gets the beginning.
fn ask(rt: &Runtime) {
    // No two replays would be answered alike.
    journal::give_up(rt);
    let [to, length] = arguments();
    let length = (length as u32 as usize).min(size_of::<State>());
    let state = State::now(rt);
    // SAFETY: the header's promise: memory of the program of that length.
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
