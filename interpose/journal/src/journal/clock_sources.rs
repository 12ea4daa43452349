//! Clocks and similar functions of libc that programs call in the set-up phase.
//!
//! Rows of these functions are like those of the call table ([`understudy_abi::libc_procedures`]).
#![allow(unsafe_code)]

use super::row::{Amount, Members, Numbers, Output, Row, Unit};
use crate::generated::SLOT_COUNT;
use crate::process_info;
use std::sync::LazyLock;
use understudy_abi::libc_procedures::{self, LIBC_PROCEDURES, LibcProcedure};

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| LIBC_PROCEDURES.iter().map(row).collect());

fn row(source: &LibcProcedure) -> Row {
    let output = |output: &libc_procedures::ProcedureOutput| {
        let (argument, unit, amounts) = match *output {
            libc_procedures::ProcedureOutput::Fixed { argument, bytes } => {
                (argument, Unit::Bytes(bytes), Vec::new())
            }
            libc_procedures::ProcedureOutput::Counted { argument, count } => (
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

/// Returns the row of the function with this slot.
pub fn row_of(slot: usize) -> Option<&'static Row> {
    ROWS.get(slot.checked_sub(SLOT_COUNT)?)
}

/// Returns the name of the function with this slot.
pub fn name_of(slot: usize) -> Option<&'static str> {
    Some(LIBC_PROCEDURES.get(slot.checked_sub(SLOT_COUNT)?)?.name)
}

/// Switches the interception of the program's calls of these functions on or off.
///
/// Intercepted calls are recorded, or answered in a replay.
pub fn set_intercepted(is_intercepted: bool) {
    // SAFETY: a function of the preload library, without preconditions after the runtime's start.
    unsafe { (process_info::info().record_libc_procedures)(is_intercepted) };
}
