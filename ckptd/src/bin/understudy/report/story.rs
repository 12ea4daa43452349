//! The job in words: what failed, what it cost, what was lost.

use super::charts::Point;
use super::timeline::seconds;
use ckptd::events::{EndHow, Kind, Worker};
use ckptd::report::{Event, Recovery, Report, time};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// What the first process says of the job.
pub fn headline(report: &Report) -> Option<(String, String)> {
    report.timeline.iter().find_map(|event| match &event.kind {
        Kind::Start {
            program,
            workers,
            spares,
            host,
            version,
            job,
            ..
        } => {
            let name = program.rsplit('/').next().unwrap_or(program).to_owned();
            let more = format!(
                "{program} with {workers} workers and {}, job {job} on {host}, understudy {version}",
                if *spares == 1 {
                    "1 spare".to_owned()
                } else {
                    format!("{spares} spares")
                }
            );
            Some((name, more))
        }
        _ => None,
    })
}

/// How it ended.
pub fn outcome(report: &Report, points: &[Point]) -> String {
    let failures: BTreeSet<_> = report
        .recoveries
        .iter()
        .flat_map(|it| it.failed.iter().map(|failed| failed.rank))
        .collect();
    let done = report.recoveries.iter().filter(|it| it.resumed_ns.is_some()).count();
    let committed = points.iter().filter(|point| point.committed).count();
    let failed = match failures.len() {
        0 => "No process failed.".to_owned(),
        1 => "One process failed.".to_owned(),
        count => format!("{count} processes failed."),
    };
    let recovered = match (failures.is_empty(), done) {
        (true, _) => String::new(),
        (false, 1) => " The job recovered once.".to_owned(),
        (false, done) => format!(" The job recovered {done} times."),
    };
    format!(
        "{failed}{recovered} {} {committed} checkpoints were committed.",
        end(report)
    )
}

fn end(report: &Report) -> String {
    let ends = report.timeline.iter().filter_map(|event| match event.kind {
        Kind::End { how } => Some(how),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    if let Some(EndHow::Aborted(code)) = ends.iter().find(|how| matches!(how, EndHow::Aborted(_))) {
        return format!("It was ended with code {code}.");
    }
    let finalized = ends.iter().filter(|how| **how == EndHow::Finalized).count();
    match finalized {
        0 => "It has not come to its end (MPI_Finalize).".to_owned(),
        count => format!("{count} workers came to their end (MPI_Finalize)."),
    }
}

/// Why protection or recovery was refused.
pub fn refusals(report: &Report) -> Vec<String> {
    let reasons: BTreeSet<String> = report
        .timeline
        .iter()
        .filter_map(|event| match &event.kind {
            Kind::Refused { reason } => Some(reason.clone()),
            _ => None,
        })
        .collect();
    reasons.into_iter().collect()
}

/// Each recovery in words, with `zoom` below.
pub fn recoveries(report: &Report, zoom: impl Fn(&Recovery) -> Markup) -> Markup {
    html! {
        @if report.recoveries.is_empty() {
            p { "There was none." }
        }
        @for it in &report.recoveries {
            article {
            h3 { @if it.number == 0 { "Restart from disk" } @else { "Recovery " (it.number) } }
            dl {
                @if it.number != 0 {
                    dt { "What failed" }
                    dd { (failed(it)) }
                }
                @if let (Some(at), Some(rank), Some(class)) = (it.detected_ns, it.detected_by, &it.error_class) {
                    dt { "Noticed" }
                    dd { "at " (seconds(at)) ", first by rank " (rank) ", through " (class) }
                }
                @if !it.takeovers.is_empty() {
                    dt { "Taken over" }
                    dd { (takeovers(it)) }
                }
                dt { "Went on" }
                dd { (resumed(it)) }
                @if let Some(lost) = lost(it, &report.timeline) {
                    dt { "Lost" }
                    dd { (time(lost)) " of computing of each worker, done again" }
                }
            }
            (zoom(it))
            }
        }
    }
}

fn failed(it: &Recovery) -> String {
    let one = |failed: &ckptd::report::FailedRank| {
        let role = failed
            .role
            .map_or_else(|| "part unknown".to_owned(), |role| role.to_string());
        let how = failed
            .killed_ns
            .map_or_else(String::new, |at| format!(", killed at {}", seconds(at)));
        format!("rank {} ({role}){how}", failed.rank)
    };
    let all: Vec<_> = it.failed.iter().map(one).collect();
    if all.is_empty() {
        "nobody; communication failed".to_owned()
    } else {
        all.join("; ")
    }
}

fn takeovers(it: &Recovery) -> String {
    let one = |by: &ckptd::report::TakeoverBy| {
        let Worker(worker) = by.as_worker;
        format!("worker {worker} by rank {} (spare {})", by.rank, by.spare)
    };
    it.takeovers.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn resumed(it: &Recovery) -> String {
    let (Some(at), Some(epoch)) = (it.resumed_ns, it.epoch) else {
        return "never: the recovery was not completed, and the job was lost".to_owned();
    };
    let after = it
        .detect_to_resume_ns
        .map_or_else(String::new, |ns| format!(", {} after it was noticed", time(ns)));
    format!("from epoch {epoch}, at {}{after}", seconds(at))
}

/// Computing time between the epoch that all went back to and the failure.
fn lost(it: &Recovery, events: &[Event]) -> Option<u64> {
    let (epoch, detected) = (it.epoch?, it.detected_ns?);
    let cut = events.iter().rev().find_map(|event| match event.kind {
        Kind::Capture { epoch: captured, .. } if captured == epoch && event.at_ns <= detected => Some(event.at_ns),
        _ => None,
    })?;
    Some(detected - cut)
}
