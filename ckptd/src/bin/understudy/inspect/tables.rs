//! Calls of the journals, as text.

use std::fmt::Write;
use understudy_report::{JournalTable, bytes, count};

/// Limit of listed call sites.
const MAX_LISTED_CALL_SITES: usize = 40;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

/// Appends a table of the calls in the journals.
pub fn journal(out: &mut String, table: &JournalTable) {
    line!(
        out,
        "  set-up logs of {}: {}, {}, kept compressed as {}",
        count(table.workers, "worker", "workers"),
        count(table.total.count, "call", "calls"),
        bytes(table.total.bytes),
        bytes(table.kept)
    );
    if table.not_kept > 0 {
        line!(
            out,
            "  {} not kept: too long, or not needed",
            count(table.not_kept, "log was", "logs were")
        );
    }
    line!(
        out,
        "  {:>9}  {:>10}  {:>6}  procedure, place",
        "calls",
        "bytes",
        "share"
    );
    let share = |part_bytes: u64| {
        format!(
            "{:.1}%",
            part_bytes as f64 / table.total.bytes.max(1) as f64 * 100.0
        )
    };
    let (rows, others) = table.first(MAX_LISTED_CALL_SITES);
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
