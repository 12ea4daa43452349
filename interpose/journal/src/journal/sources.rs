//! Clocks and the like, which programs ask in the phase besides MPI: rows as those of the call
//! table ([`understudy_abi::source`]).
#![allow(unsafe_code)]

use super::row::{Amount, Members, Numbers, Output, Row, Unit};
use crate::generated::SLOT_COUNT;
use crate::told;
use std::sync::LazyLock;
use understudy_abi::source::{self, SOURCES, Source};

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| SOURCES.iter().map(row).collect());

fn row(source: &Source) -> Row {
    let output = |output: &source::Output| {
        let (argument, unit, amounts) = match *output {
            source::Output::Fixed(argument, bytes) => (argument, Unit::Bytes(bytes), Vec::new()),
            source::Output::Counted(argument, count) => (
                argument,
                Unit::Bytes(1),
                vec![Amount::Value(Numbers(count, 8))],
            ),
        };
        Output {
            argument,
            unit,
            amounts: Vec::leak(amounts),
            members: Members::All,
            later: false,
        }
    };
    Row {
        outputs: Vec::leak(source.outputs.iter().map(output).collect()),
        comm: None,
        request: None,
        widths: source.widths,
    }
}

/// The row of such a procedure.
pub fn row_of(slot: usize) -> Option<&'static Row> {
    ROWS.get(slot.checked_sub(SLOT_COUNT)?)
}

/// The name of such a procedure.
pub fn name_of(slot: usize) -> Option<&'static str> {
    Some(SOURCES.get(slot.checked_sub(SLOT_COUNT)?)?.name)
}

/// Whether the program's calls of them are recorded, or answered, from now on.
pub fn watch(on: bool) {
    // SAFETY: the face's function; the runtime knows libc's procedures since its start.
    unsafe { (told::info().watch_user_sources)(on) };
}
