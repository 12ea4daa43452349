//! Checkpoints over time, and who has sent how much to whom.

use super::chart::{percent, table, time_axis};
use super::timeline::seconds;
use ckptd::events::{Epoch, Kind, ProcessNumber};
use ckptd::report::{Report, bytes, time};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// One checkpoint, over all workers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Point {
    pub epoch: Epoch,
    pub at: u64,
    pub bytes: u64,
    pub pause: u64,
    pub committed: bool,
}

/// Checkpoints in the order of time. An epoch that was cut again after a rollback is another one.
pub fn points(report: &Report) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut captured: BTreeSet<ProcessNumber> = BTreeSet::new();
    for event in &report.timeline {
        match event.kind {
            Kind::Capture {
                epoch,
                bytes,
                scan_ns,
                copy_ns,
                ..
            } => {
                let is_same = points.last().is_some_and(|last| last.epoch == epoch)
                    && !captured.contains(&event.rank);
                if !is_same {
                    points.push(Point {
                        epoch,
                        at: event.at_ns,
                        ..Point::default()
                    });
                    captured.clear();
                }
                captured.insert(event.rank);
                if let Some(last) = points.last_mut() {
                    last.bytes = last.bytes.saturating_add(bytes);
                    last.pause = last.pause.max(scan_ns.saturating_add(copy_ns));
                }
            }
            Kind::Commit { epoch, .. } => {
                if let Some(point) = points.iter_mut().rev().find(|point| point.epoch == epoch) {
                    point.committed = true;
                }
            }
            _ => {}
        }
    }
    points
}

/// Sizes and pauses.
pub fn checkpoints(points: &[Point], to: u64) -> Markup {
    let data: Vec<Vec<String>> = points
        .iter()
        .map(|it| {
            let state = if it.committed {
                "committed"
            } else {
                "given up"
            };
            vec![
                it.epoch.to_string(),
                seconds(it.at),
                bytes(it.bytes),
                time(it.pause),
                state.to_owned(),
            ]
        })
        .collect();
    html! {
        @if points.is_empty() {
            p { "No checkpoint was taken." }
        } @else {
            h3 { "Size, of all workers together" }
            (bars(points, to, "size of each checkpoint over time", |it| it.bytes, bytes))
            h3 { "Pause, in the slowest worker" }
            (bars(points, to, "pause of each checkpoint over time", |it| it.pause, time))
            (table("The same as a table", &["epoch", "at", "size", "pause", "state"], &data))
        }
    }
}

fn bars(
    points: &[Point],
    to: u64,
    what: &str,
    value: fn(&Point) -> u64,
    show: fn(u64) -> String,
) -> Markup {
    const HEIGHT: u64 = 110;
    let most = points.iter().map(value).max().unwrap_or(0).max(1);
    html! {
        svg role="img" aria-label=(what) width="100%" height=(HEIGHT + 20) {
            title { (what) }
            (time_axis(0, to, HEIGHT as u32))
            text.label x="100%" y="12" text-anchor="end" { "most: " (show(most)) }
            @for it in points {
                @let height = (value(it) as f64 / most as f64 * (HEIGHT - 20) as f64).ceil().max(1.0) as u64;
                rect class=(if it.committed { "cut" } else { "lost" }) x=(percent(it.at, 0, to)) width="0.4%" y=(HEIGHT - height) height=(height) {
                    title { "epoch " (it.epoch) ": " (show(value(it))) }
                }
            }
        }
    }
}

/// Ranks up to this many make a matrix; more a list.
const MATRIX: usize = 8;

/// Who has sent copies to whom.
pub fn traffic(report: &Report) -> Markup {
    let mut pairs: BTreeMap<(ProcessNumber, ProcessNumber), u64> = BTreeMap::new();
    for event in &report.timeline {
        if let Kind::Ship { to, bytes, .. } = event.kind {
            *pairs.entry((event.rank, to)).or_default() += bytes;
        }
    }
    let ranks: BTreeSet<ProcessNumber> = pairs.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let most = pairs.values().copied().max().unwrap_or(1).max(1);
    let shade = |sum: u64| format!("--share:{:.0}%", sum as f64 / most as f64 * 100.0);
    html! {
        @if ranks.is_empty() {
            p { "No copies were sent." }
        } @else if ranks.len() <= MATRIX {
            div.wide {
                table.matrix {
                    caption { "Copies that were sent, by rank from (down) and to (across)." }
                    thead { tr { th {} @for to in &ranks { th scope="col" { "to " (to) } } } }
                    tbody {
                        @for from in &ranks {
                            tr {
                                th scope="row" { "from " (from) }
                                @for to in &ranks {
                                    @match pairs.get(&(*from, *to)) {
                                        Some(sum) => td.heat style=(shade(*sum)) { (bytes(*sum)) },
                                        None => td { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        } @else {
            @let data: Vec<_> = pairs.iter().map(|((from, to), sum)| vec![from.to_string(), to.to_string(), bytes(*sum)]).collect();
            p { "Copies went between " (pairs.len()) " pairs of ranks." }
            (table("All pairs", &["from", "to", "sent"], &data))
        }
    }
}
