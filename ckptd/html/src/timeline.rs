//! Drawing of ranks over time.

use crate::chart::{percent, table, time_axis, width};
use crate::segments::{Activity, COLUMNS, Canvas, Lane, Row};
use maud::{Markup, html};
use std::collections::BTreeSet;
use understudy_report::time;

/// Height of the text above a band, in pixels.
const LABEL_HEIGHT: u32 = 16;
/// Height of the band that shows the activities of a rank, in pixels.
const BAND_HEIGHT: u32 = 18;
/// Distance of the rows, in pixels.
const ROW_HEIGHT: u32 = LABEL_HEIGHT + BAND_HEIGHT + 6;
/// Fraction of the width (1/40) that a range must exceed to have a mark.
const MIN_MARKED_FRACTION: u64 = 40;

/// Returns the drawing between two times, with its legend and its numbers.
pub fn timeline(rows: &[Row], canvas: &Canvas, label: &str) -> Markup {
    let (from, to) = (canvas.from, canvas.to);
    // A process that has died before `from` has no lane.
    let shown: Vec<(&Row, &Lane)> = rows
        .iter()
        .filter_map(|row| Some((row, canvas.lanes.get(&row.rank)?)))
        .collect();
    let died_in_range = |row: &Row| row.died.is_some_and(|died| (from..=to).contains(&died));
    let height = ROW_HEIGHT * shown.len() as u32;
    html! {
        svg role="img" aria-label=(label) width="100%" height=(height + 20) {
            title { (label) }
            (time_axis(from, to, height))
            @for (index, (row, lane)) in shown.iter().enumerate() {
                @let y = ROW_HEIGHT * index as u32;
                text.label x="0" y=(y + 12) { "rank " (row.rank) ": " (roles(row)) }
                @for activity in Activity::all() {
                    (band(canvas, lane, activity, y))
                }
                @if let Some(died) = row.died.filter(|_| died_in_range(row)) {
                    text.died x=(percent(died, from, to))
                        y=(y + LABEL_HEIGHT + 14) { "✕" title { "rank " (row.rank) " \
                        failed at " (seconds(died)) } }
                }
            }
        }
        (legend(&shown, shown.iter().any(|(row, _)| died_in_range(row))))
        (table("The same as a table", &["rank", "what", "from", "for"], &data(&shown)))
    }
}

/// Draws an activity of a process.
///
/// A range that is longer than a column has the full height. For shorter ranges, the height of the
/// column shows the share of its time that they take.
fn band(canvas: &Canvas, lane: &Lane, activity: Activity, y: u32) -> Markup {
    let (from, to) = (canvas.from, canvas.to);
    let spans = lane.spans.get(&activity).map_or(&[][..], Vec::as_slice);
    let (class, mark) = (activity.name(), activity.mark());
    let has_room =
        |begin: u64, end: u64| (end - begin).saturating_mul(MIN_MARKED_FRACTION) > to - from;
    html! {
        @for &(begin, end) in spans {
            rect class=(class) x=(percent(begin, from, to)) width=(width(begin, end, to - from))
                y=(y + LABEL_HEIGHT) height=(BAND_HEIGHT) {}
            @if let Some(mark) = mark.filter(|_| has_room(begin, end)) {
                text.mark x=(percent(begin.midpoint(end), from, to))
                    y=(y + LABEL_HEIGHT + 13) { (mark) }
            }
        }
        @for run in runs(canvas, lane, activity) {
            @let (begin, end) = (canvas.column_at(run.first), canvas.column_at(run.end));
            rect class=(class) x=(percent(begin, from, to)) width=(width(begin, end, to - from))
                y=(y + LABEL_HEIGHT + BAND_HEIGHT - run.height) height=(run.height) {}
        }
    }
}

/// Adjacent columns of equal height.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    end: u64,
    height: u32,
}

/// Returns the columns of short ranges, with heights in pixels.
///
/// The height of a column shows the activity's share of the time, and is at least one pixel.
fn runs(canvas: &Canvas, lane: &Lane, activity: Activity) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let column_ns = (canvas.to - canvas.from) as f64 / COLUMNS as f64;
    for (&column, &ns) in lane.columns.get(&activity).into_iter().flatten() {
        let share = (ns as f64 / column_ns).min(1.0);
        let height = ((share * f64::from(BAND_HEIGHT)).round() as u32).max(1);
        match runs.last_mut() {
            Some(run) if run.end == column && run.height == height => run.end += 1,
            _ => runs.push(Run {
                first: column,
                end: column + 1,
                height,
            }),
        }
    }
    runs
}

fn data(shown: &[(&Row, &Lane)]) -> Vec<Vec<String>> {
    let mut data = Vec::new();
    for (row, lane) in shown {
        let rank = format!("rank {}", row.rank);
        let mut cells = |activity: Activity, from: String, during: String| {
            data.push(vec![rank.clone(), activity.name().to_owned(), from, during]);
        };
        for (activity, spans) in &lane.spans {
            for (from, to) in spans {
                cells(*activity, seconds(*from), time(to - from));
            }
        }
        for (activity, (number, sum)) in &lane.sums {
            let during = format!("{} in {number} short stretches", time(*sum));
            cells(*activity, "throughout".to_owned(), during);
        }
    }
    data
}

fn roles(row: &Row) -> String {
    let roles: Vec<_> = row.roles.iter().map(ToString::to_string).collect();
    roles.join(", then ")
}

fn legend(shown: &[(&Row, &Lane)], has_deaths: bool) -> Markup {
    let lanes = || shown.iter().map(|(_, lane)| lane);
    let spans = lanes().flat_map(|lane| lane.spans.keys());
    let short: BTreeSet<Activity> = lanes()
        .flat_map(|lane| lane.columns.keys().copied())
        .collect();
    let present: BTreeSet<Activity> = spans.chain(&short).copied().collect();
    html! {
        ul.legend {
            @for activity in Activity::all() {
                @if present.contains(&activity) {
                    li {
                        span class={"swatch " (activity.name())} { (activity.mark().unwrap_or("")) }
                        (activity.meaning())
                    }
                }
            }
            @if !short.is_empty() {
                li { "A low bar: the share of the time that many short stretches take, at least \
                    one pixel" }
            }
            @if has_deaths {
                li { span.died { "✕" } " the process failed" }
            }
        }
    }
}

/// Formats a time since the job's start.
pub fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn bars_are_as_high_as_their_share() {
        let canvas = Canvas::overview(COLUMNS * 1000);
        let columns = BTreeMap::from([(3, 1), (4, 20), (5, 500), (6, 500), (9, 5000)]);
        let lane = Lane {
            columns: BTreeMap::from([(Activity::Cut, columns)]),
            ..Lane::default()
        };
        let run = |first, end, height| Run { first, end, height };
        assert_eq!(
            runs(&canvas, &lane, Activity::Cut),
            [
                run(3, 5, 1),
                run(5, 7, BAND_HEIGHT / 2),
                run(9, 10, BAND_HEIGHT)
            ]
        );
    }
}
