//! Calls of the journals, as text.

use std::fmt::Write;
use understudy_report::{JournalTable, bytes, count};

/// Number of places that are listed.
const PLACES: usize = 40;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

/// Appends a table of the calls in the journals.
pub fn journal(out: &mut String, it: &JournalTable) {
    line!(
        out,
        "  set-up logs of {}: {}, {}, kept compressed as {}",
        count(it.workers, "worker", "workers"),
        count(it.total.count, "call", "calls"),
        bytes(it.total.bytes),
        bytes(it.kept)
    );
    if it.not_kept > 0 {
        line!(
            out,
            "  {} of them are not kept: too long, or not needed",
            it.not_kept
        );
    }
    line!(
        out,
        "  {:>9}  {:>10}  {:>6}  procedure, place",
        "calls",
        "bytes",
        "share"
    );
    let share = |of: u64| format!("{:.1}%", of as f64 / it.total.bytes.max(1) as f64 * 100.0);
    let (rows, others) = it.first(PLACES);
    for row in rows {
        let (calls, place) = (row.calls, &row.place);
        let at = if place.is_empty() { "" } else { " at " };
        line!(
            out,
            "  {:>9}  {:>10}  {:>6}  {}{at}{place}",
            calls.count,
            bytes(calls.bytes),
            share(calls.bytes),
            row.procedure
        );
    }
    if others.count > 0 {
        line!(
            out,
            "  {:>9}  {:>10}  {:>6}  all others",
            others.count,
            bytes(others.bytes),
            share(others.bytes)
        );
    }
}
