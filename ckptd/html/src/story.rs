//! Description of the job: failures, their cost, and lost work.

use crate::timeline::seconds;
use maud::{Markup, html};
use understudy_formats::events::Worker;
use understudy_report::{Ended, Recovery, Report, count, time};

/// Describes the end of the job, its failures and its checkpoints in a few sentences.
pub fn outcome(report: &Report) -> String {
    let outcome = &report.outcome;
    let end = match &outcome.ended {
        Ended::Finished => "The job finished.".to_owned(),
        Ended::Exited { status } => {
            format!("A worker ended with status {status}, without MPI_Finalize.")
        }
        Ended::Aborted { status } => format!("The job was ended with status {status}."),
        Ended::Lost { status, .. } => format!("The job was lost (status {status})."),
        Ended::Stopped { .. } => format!("{}.", capitalised(&outcome.stopped_in_words())),
        Ended::Unfinished => {
            "The job has not finished: it still runs, or was killed as a whole.".to_owned()
        }
    };
    let failed = match outcome.failures {
        0 => "No process failed.".to_owned(),
        1 => "One process failed.".to_owned(),
        count => format!("{count} processes failed."),
    };
    let recovered = match (outcome.failures, outcome.recoveries) {
        (0, _) => String::new(),
        (_, 0) => " The job did not recover.".to_owned(),
        (_, 1) => " The job recovered once.".to_owned(),
        (_, done) => format!(" The job recovered {done} times."),
    };
    let committed = report
        .checkpoints
        .points
        .iter()
        .filter(|point| point.is_committed())
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

/// Describes each recovery, with the drawing that `zoom` returns.
pub fn recoveries(report: &Report, zoom: impl Fn(usize, &Recovery) -> Markup) -> Markup {
    html! {
        @if report.recoveries.is_empty() {
            p { "No recovery." }
        }
        @for (index, recovery) in report.recoveries.iter().enumerate() {
            article {
            h3 {
                @if recovery.number == 0 { "Restart from disk" }
                @else { "Recovery " (recovery.number) }
            }
            dl {
                @if recovery.number != 0 {
                    dt { "What failed" }
                    dd { (failed(recovery)) }
                }
                @if let (Some(at), Some(rank), Some(class)) =
                    (recovery.detected_ns, recovery.detected_by, &recovery.error_class)
                {
                    dt { "Detected" }
                    dd { "at " (seconds(at)) ", first by rank " (rank) ", through " (class) }
                }
                @if !recovery.takeovers.is_empty() {
                    dt { "Taken over" }
                    dd { (takeovers(recovery)) }
                }
                dt { "Resumed" }
                dd { (resumed(recovery)) }
                @if let Some(lost) = recovery.repeated_ns {
                    dt { "Lost" }
                    dd { (time(lost)) " of work of each worker, which was repeated" }
                }
            }
            (zoom(index, recovery))
            (stages(recovery))
            }
        }
    }
}

/// Returns a table of the stages, with the longest duration of each.
fn stages(recovery: &Recovery) -> Markup {
    html! {
        @if !recovery.stages.is_empty() {
            div.wide {
                table.numbers {
                    thead {
                        tr {
                            th { "stage" }
                            @for stage in &recovery.stages { th { (stage.stage) } }
                        }
                    }
                    tbody {
                        tr {
                            td { "longest" }
                            @for stage in &recovery.stages { td { (time(stage.max_ns)) } }
                        }
                        tr {
                            td { "in" }
                            @for stage in &recovery.stages { td { "rank " (stage.slowest) } }
                        }
                    }
                }
            }
        }
    }
}

fn failed(recovery: &Recovery) -> String {
    let described = |failed: &understudy_report::FailedRank| {
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
    let all: Vec<_> = recovery.failed.iter().map(described).collect();
    if all.is_empty() {
        "no process; communication failed".to_owned()
    } else {
        all.join("; ")
    }
}

fn takeovers(recovery: &Recovery) -> String {
    let described = |by: &understudy_report::TakeoverBy| {
        let Worker(worker) = by.as_worker;
        format!("worker {worker} by {}", by.process())
    };
    recovery
        .takeovers
        .iter()
        .map(described)
        .collect::<Vec<_>>()
        .join("; ")
}

fn resumed(recovery: &Recovery) -> String {
    let (Some(at), Some(epoch)) = (recovery.resumed_ns, recovery.epoch) else {
        return "never: the recovery did not complete, and the job was lost".to_owned();
    };
    let after = recovery
        .failure_to_resume_ns
        .map_or_else(String::new, |ns| {
            format!(", {} after the failure", time(ns))
        });
    format!("from checkpoint {}, at {}{after}", epoch, seconds(at))
}
