//! Journals of the set-up phase: results of their replays, and their contents.

use crate::facts::Facts;
use maud::{Markup, html};
use understudy_report::{JournalTable, Report, bytes, count};

/// Limit of listed call sites.
const MAX_LISTED_CALL_SITES: usize = 40;

/// Returns the results of trial replays, and the recorded calls by call site.
pub fn journals(report: &Report, facts: &Facts) -> Markup {
    let (table, rows) = (&report.journals, &facts.replays);
    html! {
        @if rows.is_empty() && table.is_none() {
            p { "No set-up log was recorded (UNDERSTUDY_STATIC=replay or UNDERSTUDY_REHEARSE=all \
                records one)." }
        }
        @if !rows.is_empty() {
            div.wide {
                table.numbers {
                    thead { tr { th { "worker" } th { "set-up log" } th { "trial replay" } th { "pages \
                        that differ" } } }
                    tbody { @for row in rows { tr { @for (column, cell) in row.iter().enumerate() { td.place[column > 1] { (cell) } } } } }
                }
            }
        }
        @if let Some(table) = table { (calls(table)) }
    }
}

fn calls(table: &JournalTable) -> Markup {
    let (rows, others) = table.first(MAX_LISTED_CALL_SITES);
    let share = |part_bytes: u64| {
        format!(
            "{:.1}%",
            part_bytes as f64 / table.total.bytes.max(1) as f64 * 100.0
        )
    };
    html! {
        h3 { "By call site" }
        p {
            "The set-up logs of " (count(table.workers, "worker", "workers"))
            " hold " (count(table.total.count, "call", "calls")) " \
                in " (bytes(table.total.bytes))
            ", compressed " (bytes(table.kept)) "."
            @if table.not_kept > 0 {
                " " (count(table.not_kept, "log was", "logs were"))
                " not kept: too long, or not needed."
            }
        }
        div.wide {
            table.numbers {
                thead { tr { th { "calls" } th { "bytes" } th { "share" } th { "procedure" } th { "place" } } }
                tbody {
                    @for row in rows {
                        tr {
                            td { (row.calls.count) } td { (bytes(row.calls.bytes)) } td { (share(row.calls.bytes)) }
                            td { (row.procedure) } td.place { (row.place) }
                        }
                    }
                    @if others.count > 0 {
                        tr { td { (others.count) } td { (bytes(others.bytes)) } td { (share(others.bytes)) } td { "all \
                            others" } td {} }
                    }
                }
            }
        }
    }
}
