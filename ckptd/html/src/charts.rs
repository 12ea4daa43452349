//! Checkpoints over time, and replica traffic between ranks.

use crate::chart::{percent, table, time_axis};
use crate::facts::Facts;
use crate::timeline::seconds;
use maud::{Markup, html};
use std::collections::BTreeSet;
use understudy_formats::events::ProcessNumber;
use understudy_report::{CheckpointPoint, bytes, time};

/// Number of columns of a drawing; checkpoints in one column are combined.
const COLUMNS: usize = 250;
/// Limit of listed checkpoints.
const MAX_LISTED_CHECKPOINTS: usize = 500;

pub fn checkpoints(points: &[CheckpointPoint], to: u64) -> Markup {
    let listed = &points[points.len().saturating_sub(MAX_LISTED_CHECKPOINTS)..];
    let data: Vec<Vec<String>> = listed
        .iter()
        .map(|it| {
            let state = if it.is_committed() {
                "committed"
            } else {
                "given up"
            };
            vec![
                it.epoch.to_string(),
                seconds(it.at_ns),
                bytes(it.bytes),
                time(it.pause_ns),
                state.to_owned(),
            ]
        })
        .collect();
    let caption = if points.len() > MAX_LISTED_CHECKPOINTS {
        format!(
            "The last {MAX_LISTED_CHECKPOINTS} of {} checkpoints as a table",
            points.len()
        )
    } else {
        "The same as a table".to_owned()
    };
    html! {
        @if points.is_empty() {
            p { "No checkpoint was taken." }
        } @else {
            h3 { "Size, of all workers together" }
            (bars(points, to, "size of each checkpoint over time", |it| it.bytes, bytes))
            h3 { "Pause, in the slowest worker" }
            (bars(points, to, "pause of each checkpoint over time", |it| it.pause_ns, time))
            (table(&caption, &["checkpoint", "at", "size", "pause", "state"], &data))
        }
    }
}

/// Checkpoints that one bar represents.
struct Bar<'a> {
    points: &'a [CheckpointPoint],
    most: u64,
}

impl Bar<'_> {
    fn title(&self, show: fn(u64) -> String) -> String {
        let [first, last] = [self.points.first(), self.points.last()];
        let epoch = |point: Option<&CheckpointPoint>| point.map_or(0, |it| it.epoch.0);
        match self.points.len() {
            1 => format!("checkpoint {}: {}", epoch(first), show(self.most)),
            _ => format!(
                "checkpoints {} to {}: at most {}",
                epoch(first),
                epoch(last),
                show(self.most)
            ),
        }
    }
}

/// Groups checkpoints into bars.
///
/// Successive checkpoints in one column share a bar, which shows their greatest value. Committed
/// checkpoints and others never share a bar.
fn group(points: &[CheckpointPoint], to: u64, value: fn(&CheckpointPoint) -> u64) -> Vec<Bar<'_>> {
    let column =
        |it: &CheckpointPoint| u128::from(it.at_ns) * COLUMNS as u128 / u128::from(to.max(1));
    let is_alike = |a: &CheckpointPoint, b: &CheckpointPoint| {
        column(a) == column(b) && a.is_committed() == b.is_committed()
    };
    let groups = points.chunk_by(is_alike);
    groups
        .map(|points| Bar {
            points,
            most: points.iter().map(value).max().unwrap_or(0),
        })
        .collect()
}

fn bars(
    points: &[CheckpointPoint],
    to: u64,
    label: &str,
    value: fn(&CheckpointPoint) -> u64,
    show: fn(u64) -> String,
) -> Markup {
    const HEIGHT: u64 = 110;
    let most = points.iter().map(value).max().unwrap_or(0).max(1);
    html! {
        svg role="img" aria-label=(label) width="100%" height=(HEIGHT + 20) {
            title { (label) }
            (time_axis(0, to, HEIGHT as u32))
            text.label x="100%" y="12" text-anchor="end" { "most: " (show(most)) }
            @for bar in group(points, to, value) {
                @let height = (bar.most as f64 / most as f64 * (HEIGHT - 20) as f64).ceil().max(1.0) as u64;
                @let first = bar.points[0];
                rect class=(if first.is_committed() { "cut" } else { "lost" }) x=(percent(first.at_ns, 0, to)) width="0.4%" y=(HEIGHT - height) height=(height) {
                    title { (bar.title(show)) }
                }
            }
        }
    }
}

/// Largest number of ranks for which a matrix is drawn instead of a list.
const MAX_MATRIX_RANKS: usize = 8;

/// Draws the sizes of replicas sent between ranks.
pub fn traffic(facts: &Facts) -> Markup {
    let pairs = &facts.copies;
    let ranks: BTreeSet<ProcessNumber> = pairs.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let most = pairs.values().copied().max().unwrap_or(1).max(1);
    let shade = |sum: u64| format!("--share:{:.0}%", sum as f64 / most as f64 * 100.0);
    html! {
        @if ranks.is_empty() {
            p { "No replicas were sent." }
        } @else if ranks.len() <= MAX_MATRIX_RANKS {
            div.wide {
                table.matrix {
                    caption { "Replicas that were sent, by rank from (down) and to (across)." }
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
            p { "Replicas were sent between " (pairs.len()) " pairs of ranks." }
            (table("All pairs", &["from", "to", "sent"], &data))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_formats::events::Epoch;

    /// A long job has 40,000 checkpoints: the page has a bar for each column only.
    ///
    /// A page with an element for each checkpoint would have 10 MB.
    #[test]
    fn many_checkpoints_make_few_bars_with_the_greatest_value() {
        let point = |index: u64| CheckpointPoint {
            epoch: Epoch(index),
            at_ns: index * 1000,
            bytes: if index == 777 { 99 } else { 1 },
            committed_ns: Some(index * 1000),
            ..CheckpointPoint::default()
        };
        let points: Vec<_> = (0..40_000).map(point).collect();
        let bars = group(&points, 40_000_000, |it| it.bytes);
        assert_eq!(bars.len(), COLUMNS);
        assert_eq!(
            bars.iter().map(|bar| bar.points.len()).sum::<usize>(),
            40_000
        );
        assert_eq!(bars.iter().filter(|bar| bar.most == 99).count(), 1);
        let page = checkpoints(&points, 40_000_000).into_string();
        assert!(page.contains("The last 500 of 40000 checkpoints"));
        assert!(page.len() < 300_000, "{} bytes", page.len());
    }
}
