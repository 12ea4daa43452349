//! Description of the job: failures, their cost, and lost work.

use crate::timeline::seconds;
use maud::{Markup, html};
use understudy_formats::events::Worker;
use understudy_report::{Ended, Recovery, Report, count, time};

/// Describes the end of the job in one or two sentences.
pub fn outcome(report: &Report) -> String {
    let it = &report.outcome;
    let end = match &it.ended {
        Ended::Finished => "The job finished.".to_owned(),
        Ended::Exited { status } => {
            format!("A worker ended with status {status}, without MPI_Finalize.")
        }
        Ended::Aborted { status } => format!("The job was ended with status {status}."),
        Ended::Lost { status, .. } => format!("The job was lost (status {status})."),
        Ended::Stopped { .. } => format!("{}.", capitalised(&it.stopped_in_words())),
        Ended::Unfinished => {
            "The job has not finished: it still runs, or was killed as a whole.".to_owned()
        }
    };
    let failed = match it.failures {
        0 => "No process failed.".to_owned(),
        1 => "One process failed.".to_owned(),
        count => format!("{count} processes failed."),
    };
    let recovered = match (it.failures, it.recoveries) {
        (0, _) => String::new(),
        (_, 0) => " The job did not recover.".to_owned(),
        (_, 1) => " The job recovered once.".to_owned(),
        (_, done) => format!(" The job recovered {done} times."),
    };
    let committed = report
        .checkpoints
        .points
        .iter()
        .filter(|point| point.committed)
        .count();
    format!(
        "{end} {failed}{recovered} {} committed.",
        count(committed, "checkpoint was", "checkpoints were")
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Returns the reasons why the job was lost, or not protected.
pub fn refusals(report: &Report) -> Vec<String> {
    let lost = match &report.outcome.ended {
        Ended::Lost { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let unprotected = report
        .outcome
        .unprotected
        .as_ref()
        .map(|why| format!("Refused: {why}"));
    lost.into_iter().chain(unprotected).collect()
}

/// Describes each recovery, with `zoom` below.
pub fn recoveries(report: &Report, zoom: impl Fn(usize, &Recovery) -> Markup) -> Markup {
    html! {
        @if report.recoveries.is_empty() {
            p { "No recovery." }
        }
        @for (index, it) in report.recoveries.iter().enumerate() {
            article {
            h3 { @if it.number == 0 { "Restart from disk" } @else { "Recovery " (it.number) } }
            dl {
                @if it.number != 0 {
                    dt { "What failed" }
                    dd { (failed(it)) }
                }
                @if let (Some(at), Some(rank), Some(class)) = (it.detected_ns, it.detected_by, &it.error_class) {
                    dt { "Detected" }
                    dd { "at " (seconds(at)) ", first by rank " (rank) ", through " (class) }
                }
                @if !it.takeovers.is_empty() {
                    dt { "Taken over" }
                    dd { (takeovers(it)) }
                }
                dt { "Resumed" }
                dd { (resumed(it)) }
                @if let Some(lost) = it.repeated_ns {
                    dt { "Lost" }
                    dd { (time(lost)) " of work of each worker, which was repeated" }
                }
            }
            (zoom(index, it))
            (stages(it))
            }
        }
    }
}

/// Returns a table of the stages, with the longest duration of each.
fn stages(it: &Recovery) -> Markup {
    html! {
        @if !it.stages.is_empty() {
            div.wide {
                table.numbers {
                    thead { tr { th { "stage" } @for stage in &it.stages { th { (stage.stage) } } } }
                    tbody {
                        tr { td { "longest" } @for stage in &it.stages { td { (time(stage.max_ns)) } } }
                        tr { td { "in" } @for stage in &it.stages { td { "rank " (stage.slowest) } } }
                    }
                }
            }
        }
    }
}

fn failed(it: &Recovery) -> String {
    let one = |failed: &understudy_report::FailedRank| {
        let role = failed
            .role
            .map_or_else(|| "role unknown".to_owned(), |role| role.to_string());
        let cause = failed
            .cause
            .as_ref()
            .map_or_else(String::new, |cause| format!(" ({cause})"));
        let at = failed
            .killed_ns
            .map_or_else(String::new, |at| format!(" at {}", seconds(at)));
        let verb = if cause.is_empty() && at.is_empty() {
            ""
        } else {
            ", failed"
        };
        format!("rank {} ({role}){verb}{cause}{at}", failed.rank)
    };
    let all: Vec<_> = it.failed.iter().map(one).collect();
    if all.is_empty() {
        "no process; communication failed".to_owned()
    } else {
        all.join("; ")
    }
}

fn takeovers(it: &Recovery) -> String {
    let one = |by: &understudy_report::TakeoverBy| {
        let Worker(worker) = by.as_worker;
        format!("worker {worker} by {}", by.process())
    };
    it.takeovers.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn resumed(it: &Recovery) -> String {
    let (Some(at), Some(epoch)) = (it.resumed_ns, it.epoch) else {
        return "never: the recovery did not complete, and the job was lost".to_owned();
    };
    let after = it.failure_to_resume_ns.map_or_else(String::new, |ns| {
        format!(", {} after the failure", time(ns))
    });
    format!("from checkpoint {}, at {}{after}", epoch, seconds(at))
}
