//! Ranks × time.

use super::chart::{percent, table, time_axis, width};
use super::segments::{Doing, Row, visible};
use ckptd::report::time;
use maud::{Markup, html};
use std::collections::BTreeSet;

const LABEL: u32 = 16;
const BAND: u32 = 18;
const STEP: u32 = LABEL + BAND + 6;
/// A mark has room on this part of the width.
const ROOM: u64 = 40;

/// The drawing between two times, with its legend and its numbers.
pub fn timeline(rows: &[Row], from: u64, to: u64, what: &str) -> Markup {
    let gap = to.saturating_sub(from) / 1000;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row, visible(&row.segments, from, to, gap)))
        // Who died earlier is not here any more.
        .filter(|(_, segments)| !segments.is_empty())
        .collect();
    let present: BTreeSet<Doing> = shown
        .iter()
        .flat_map(|(_, segments)| segments.iter().map(|it| it.doing))
        .collect();
    let is_there = |row: &Row| row.died.is_some_and(|died| (from..=to).contains(&died));
    let height = STEP * shown.len() as u32;
    let data: Vec<Vec<String>> = shown
        .iter()
        .flat_map(|(row, segments)| {
            segments.iter().map(|it| {
                let rank = format!("rank {}", row.rank);
                vec![
                    rank,
                    it.doing.name().to_owned(),
                    seconds(it.from),
                    time(it.to - it.from),
                ]
            })
        })
        .collect();
    html! {
        svg role="img" aria-label=(what) width="100%" height=(height + 20) {
            title { (what) }
            (time_axis(from, to, height))
            @for (index, (row, segments)) in shown.iter().enumerate() {
                @let y = STEP * index as u32;
                text.label x="0" y=(y + 12) { "rank " (row.rank) ": " (parts(row)) }
                @for it in segments {
                    rect class=(it.doing.name()) x=(percent(it.from, from, to)) width=(width(it.from, it.to, to - from))
                        y=(y + LABEL) height=(BAND) {
                        title { "rank " (row.rank) ", " (it.doing.meaning()) ", " (seconds(it.from)) ", " (time(it.to - it.from)) }
                    }
                    @if let Some(mark) = it.doing.mark().filter(|_| (it.to - it.from) * ROOM > to - from) {
                        text.mark x=(percent(it.from.midpoint(it.to), from, to)) y=(y + LABEL + 13) { (mark) }
                    }
                }
                @if let Some(died) = row.died.filter(|_| is_there(row)) {
                    text.died x=(percent(died, from, to)) y=(y + LABEL + 14) { "✕" title { "rank " (row.rank) " died at " (seconds(died)) } }
                }
            }
        }
        (legend(&present, shown.iter().any(|(row, _)| is_there(row))))
        (table("The same as a table", &["rank", "what", "from", "for"], &data))
    }
}

fn parts(row: &Row) -> String {
    let parts: Vec<_> = row.parts.iter().map(ToString::to_string).collect();
    parts.join(", then ")
}

fn legend(present: &BTreeSet<Doing>, has_deaths: bool) -> Markup {
    html! {
        ul.legend {
            @for doing in Doing::all().into_iter().filter(|doing| present.contains(doing)) {
                li { span class={"swatch " (doing.name())} { (doing.mark().unwrap_or("")) } (doing.meaning()) }
            }
            @if has_deaths {
                li { span.died { "✕" } " the process died" }
            }
        }
    }
}

/// A time since the job's start.
pub fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}
