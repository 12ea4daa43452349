//! Plot of the cost of intervals.

use crate::chart::table;
use maud::{Markup, html};
use std::time::Duration;
use understudy_formats::checkpoint_interval;
use understudy_report::{CheckpointPoint, Report, time};

/// Number of steps from one point of the curve to the next.
const STEPS: u32 = 60;

/// Draws the expected time that is lost to checkpoints and failures, by interval.
///
/// Returns a sentence about the missing cost if the job has taken only the first checkpoint.
pub fn plot(report: &Report, mtbf: Duration) -> Markup {
    let Some(costs) = report.costs.filter(|costs| costs.pause_ns > 0) else {
        return html! { p { "There was no checkpoint after the first, so the cost of one is not \
        known." } };
    };
    let (cost, mtbf) = (costs.pause_ns as f64 / 1e9, mtbf.as_secs_f64());
    let recovery = costs.recovery_ns as f64 / 1e9;
    let best = checkpoint_interval::daly_interval(cost, mtbf);
    // Time that is lost per time of work: the expected time for one interval of work, including
    // its checkpoint and the expected failures, is divided by the interval, and 1 is subtracted.
    let overhead = |interval: f64| {
        checkpoint_interval::expected_time(interval, cost, recovery, mtbf, 1.0) / interval - 1.0
    };
    let curve: Vec<(f64, f64)> = (0..=STEPS)
        .map(|index| best * 100f64.powf(f64::from(index) / f64::from(STEPS / 2) - 1.0))
        .map(|interval| (interval, overhead(interval)))
        .collect();
    let most = curve.iter().map(|(_, lost)| *lost).fold(0.0, f64::max);
    let path: Vec<String> = curve
        .iter()
        .enumerate()
        .map(|(index, (_, lost))| {
            format!(
                "{:.1},{:.1}",
                index as f64 * 1000.0 / f64::from(STEPS),
                100.0 - lost / most * 95.0
            )
        })
        .collect();
    let used = mean_interval(&report.checkpoints.points);
    let data: Vec<Vec<String>> = curve
        .iter()
        .step_by(6)
        .map(|(interval, lost)| vec![show(*interval), percentage(*lost)])
        .collect();
    let label = format!("time lost by interval, least at {}", show(best));
    html! {
        p {
            "A checkpoint cost " (time(costs.pause_ns)) " (the slowest worker, mean of " (costs.checkpoints)
            "). With a failure every " (show(mtbf)) " the best interval is " strong { (show(best)) } " \
                (Daly), and "
            (percentage(overhead(best))) " of the time is lost"
            @if let Some(used) = used {
                "; with that of this job, " (show(used)) ", it is " (percentage(overhead(used)))
            }
            "."
        }
        svg role="img" aria-label=(label) width="100%" height="150" {
            title { (label) }
            svg x="0" y="0" width="100%" height="120" viewBox="0 0 1000 100" preserveAspectRatio="none" {
                polyline.curve points=(path.join(" ")) {}
            }
            line.best x1="50%" x2="50%" y1="0" y2="120" {}
            text.label x="51%" y="14" { "best: " (show(best)) }
            text.label x="10%" y="14" { "at most " (percentage(most)) " lost" }
            text.tick x="0" y="140" text-anchor="start" { (show(best / 100.0)) }
            text.tick x="50%" y="140" { "interval" }
            text.tick x="100%" y="140" text-anchor="end" { (show(best * 100.0)) }
        }
        (table("The same as a table", &["interval", "lost"], &data))
    }
}

/// Returns the mean time from one cut to the next, without the cut in `MPI_Init`.
fn mean_interval(points: &[CheckpointPoint]) -> Option<f64> {
    let (first, last) = (points.get(1)?, points.last()?);
    let gaps = points.len().checked_sub(2).filter(|gaps| *gaps > 0)?;
    Some(last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9 / gaps as f64)
}

fn show(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => time((seconds * 1e9) as u64),
        _ if seconds < 7200.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn percentage(fraction: f64) -> String {
    format!("{:.3}%", fraction * 100.0)
}
