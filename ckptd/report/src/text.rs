//! The report as text.

use crate::event_lines;
use crate::units::{bytes, count, time};
use crate::{Checkpoints, Ended, FailedRank, Outcome, Recovery, Report, Summary};
use std::fmt::Write;
use std::io;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

impl Report {
    /// Writes the report as text, with or without the timeline.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write(&self, out: &mut impl io::Write, with_timeline: bool) -> io::Result<()> {
        if with_timeline {
            event_lines::write(out, &self.timeline)?;
        }
        out.write_all(summary(self).as_bytes())
    }
}

/// Returns the report without the timeline.
fn summary(report: &Report) -> String {
    let mut out = String::new();
    write_outcome(&mut out, &report.outcome);
    let unfinished = report
        .recoveries
        .iter()
        .filter(|recovery| recovery.resumed_ns.is_none())
        .count();
    let more = match unfinished {
        0 => String::new(),
        more => format!(", and {more} that did not complete"),
    };
    line!(
        out,
        "Recoveries: {}{more}",
        report.recoveries.len() - unfinished
    );
    report
        .recoveries
        .iter()
        .for_each(|recovery| write_recovery(&mut out, recovery));
    write_checkpoints(&mut out, &report.checkpoints);
    let notes = report.notes.iter().map(|note| format!("note: {note}"));
    for text in notes.chain(
        report
            .problems
            .iter()
            .map(|problem| format!("PROBLEM: {problem}")),
    ) {
        line!(out, "{text}");
    }
    out
}

fn write_outcome(out: &mut String, outcome: &Outcome) {
    let end = match &outcome.ended {
        Ended::Finished => "all workers completed MPI_Finalize".to_owned(),
        Ended::Exited { status } => {
            format!("a worker ended with status {status}, without MPI_Finalize")
        }
        Ended::Aborted { status } => format!("the job was ended with status {status}"),
        Ended::Lost { status, reason } => format!("status {status}: {reason}"),
        Ended::Stopped { .. } => outcome.stopped_in_words(),
        Ended::Unfinished => {
            "not all workers recorded an end: the job still runs, or was killed as a whole"
                .to_owned()
        }
    };
    line!(out, "Outcome: {end}");
    let (failures, spares) = (
        count(outcome.failures, "process failed", "processes failed"),
        count(outcome.spares_left, "spare", "spares"),
    );
    line!(out, "  {failures}, {spares} left");
    if let Some(why) = &outcome.unprotected {
        line!(out, "  unprotected: {why}");
    }
    if let Some(network) = &outcome.network {
        line!(out, "  messages between nodes: {network}");
    }
}

fn write_recovery(out: &mut String, recovery: &Recovery) {
    line!(out, "\nRecovery {}", recovery.number);
    recovery
        .failed
        .iter()
        .for_each(|failed| failed_rank(out, failed, recovery.detected_ns));
    if let (Some(at), Some(rank), Some(class)) = (
        recovery.detected_ns,
        recovery.detected_by,
        &recovery.error_class,
    ) {
        line!(
            out,
            "  detected     at {} s, first by rank {rank}: {class}",
            seconds(at)
        );
    }
    for by in &recovery.takeovers {
        line!(
            out,
            "  taken over   worker {} by {}",
            by.as_worker,
            by.process()
        );
    }
    if let (Some(at), Some(epoch)) = (recovery.resumed_ns, recovery.epoch) {
        line!(
            out,
            "  resumed      from checkpoint {}, at {} s, {}",
            epoch,
            seconds(at),
            count(recovery.resumed.len(), "rank", "ranks")
        );
    } else {
        line!(out, "  resumed      never: the recovery did not complete");
    }
    for (name, duration) in [
        ("failure to resume", recovery.failure_to_resume_ns),
        ("kill to resume", recovery.kill_to_resume_ns),
    ] {
        if let Some(ns) = duration {
            line!(out, "  {name:<18} {:>12}", time(ns));
        }
    }
    if !recovery.stages.is_empty() {
        line!(out, "  {:<18} {:>12}   slowest", "stage", "longest");
    }
    for stage in &recovery.stages {
        let (name, longest) = (stage.stage, time(stage.max_ns));
        line!(
            out,
            "    {name:<16} {longest:>12}   rank {}, of {}",
            stage.slowest,
            count(stage.ranks, "rank", "ranks")
        );
    }
}

fn failed_rank(out: &mut String, failed: &FailedRank, detected_ns: Option<u64>) {
    let role = failed
        .role
        .map_or_else(|| "role unknown".to_owned(), |role| role.to_string());
    let sign = match (failed.killed_ns, failed.last_sign_ns) {
        (Some(at), _) => format!("killed at {} s", seconds(at)),
        (None, Some(at)) => {
            let before = detected_ns.map_or(0, |detected| detected.saturating_sub(at));
            format!("last sign of life {} before the detection", time(before))
        }
        (None, None) => "left no event file".to_owned(),
    };
    let cause = failed
        .cause
        .as_ref()
        .map_or_else(String::new, |cause| format!(", {cause}"));
    line!(
        out,
        "  failed       rank {} ({role}){cause}, {sign}",
        failed.rank
    );
}

fn write_checkpoints(out: &mut String, checkpoints: &Checkpoints) {
    let last = checkpoints
        .last_committed
        .map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
    line!(
        out,
        "\nCheckpoints: {} cut, {} committed, last committed {last}",
        checkpoints.cut,
        checkpoints.committed
    );
    quantity(out, "captured", &checkpoints.capture_bytes, bytes);
    quantity(out, "scan", &checkpoints.scan_ns, time);
    quantity(out, "copy", &checkpoints.copy_ns, time);
    quantity(out, "shipped", &checkpoints.ship_bytes, bytes);
    quantity(out, "left out", &checkpoints.alike_pages, |pages| {
        count(pages as usize, "page", "pages")
    });
    quantity(out, "ship", &checkpoints.ship_ns, time);
    quantity(out, "cut to commit", &checkpoints.commit_ns, time);
}

fn quantity(out: &mut String, name: &str, summary: &Summary, show: fn(u64) -> String) {
    if let Some(rank) = summary.max_rank {
        let (mean, max, total) = (show(summary.mean()), show(summary.max), show(summary.total));
        line!(
            out,
            "  {name:<14} mean {mean:>10}   max {max:>10} (rank {rank})   total {total:>10} in {}",
            summary.count
        );
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}
