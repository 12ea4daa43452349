//! The report for people.

use super::units::{bytes, count, time};
use super::{Checkpoints, Ended, Event, FailedRank, Outcome, Parts, Recovery, Report, Summary};
use crate::events::{Kind, ProcessNumber, SpareChoice, Traffic};
use crate::pages::PAGE_SIZE;
use std::fmt::Write;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

pub(super) fn report(report: &Report, with_timeline: bool) -> String {
    let mut out = String::new();
    if with_timeline {
        timeline(&mut out, &report.timeline);
        line!(out, "");
    }
    outcome(&mut out, &report.outcome);
    let unfinished = report
        .recoveries
        .iter()
        .filter(|it| it.resumed_ns.is_none())
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
        .for_each(|recovery| one_recovery(&mut out, recovery));
    checkpoints(&mut out, &report.checkpoints);
    let torn = report.notes.iter().map(|note| format!("note: {note}"));
    for text in torn.chain(
        report
            .problems
            .iter()
            .map(|problem| format!("PROBLEM: {problem}")),
    ) {
        line!(out, "{text}");
    }
    out
}

fn outcome(out: &mut String, it: &Outcome) {
    let end = match &it.ended {
        Ended::Finished => "all workers came to the end of MPI_Finalize".to_owned(),
        Ended::Exited { status } => {
            format!("a worker ended with status {status}, without MPI_Finalize")
        }
        Ended::Aborted { status } => format!("the job was ended with status {status}"),
        Ended::Lost { status, reason } => format!("status {status}: {reason}"),
        Ended::Unfinished => {
            "not all workers have told of an end: the job still runs, or was killed as a whole"
                .to_owned()
        }
    };
    line!(out, "Outcome: {end}");
    let (failures, spares) = (
        count(it.failures, "process failed", "processes failed"),
        count(it.spares_left, "spare", "spares"),
    );
    line!(out, "  {failures}, {spares} left");
    if let Some(why) = &it.unprotected {
        line!(out, "  unprotected: {why}");
    }
}

fn timeline(out: &mut String, events: &[Event]) {
    line!(out, "Timeline (seconds since the first rank's start)");
    let mut parts = Parts::default();
    for event in events {
        parts.follow(event);
        let part = parts
            .role(event.rank)
            .map_or_else(String::new, |role| role.to_string());
        let (rank, seconds) = (event.rank, event.at_ns as f64 / 1e9);
        line!(
            out,
            "{seconds:>14.6}  rank {rank:<3} {part:<10} epoch {:<5} {}",
            event.epoch,
            what(&event.kind)
        );
    }
}

fn what(kind: &Kind) -> String {
    match kind {
        Kind::Start {
            pid,
            workers,
            spares,
            host,
            program,
            version,
            ..
        } => format!(
            "start: {program}, process {pid} on {host}, {} + {}, understudy {version}",
            count(*workers as usize, "worker", "workers"),
            count(*spares as usize, "spare", "spares")
        ),
        Kind::Config { settings } => {
            let pairs: Vec<_> = settings
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            format!("settings: {}", pairs.join(" "))
        }
        Kind::Cut {
            epoch,
            at_call,
            candidates,
        } => format!("cut {epoch} at call {at_call} ({candidates} candidates)"),
        Kind::Capture {
            epoch,
            pages,
            bytes: count,
            scan_ns,
            copy_ns,
        } => format!(
            "captured {epoch}: {pages} pages, {}, scan {}, copy {}",
            bytes(*count),
            time(*scan_ns),
            time(*copy_ns)
        ),
        Kind::LeftOut {
            epoch,
            pages,
            marks,
        } => {
            let left_out = bytes(pages.saturating_mul(PAGE_SIZE as u64));
            let marks = marks.iter().filter(|mark| mark.counts).count();
            format!(
                "left out of {epoch}: {pages} pages, {left_out}, by {}",
                count(marks, "mark", "marks")
            )
        }
        Kind::Ship {
            epoch,
            to,
            bytes: count,
            alike,
            ns,
        } => {
            let shipped = format!(
                "shipped {epoch} to rank {to}: {} in {}",
                bytes(*count),
                time(*ns)
            );
            match alike {
                0 => shipped,
                _ => format!("{shipped}, without {alike} pages that it has itself"),
            }
        }
        Kind::Received {
            epoch,
            from,
            bytes: count,
            ns,
        } => {
            format!(
                "received {epoch} from rank {from}: {} in {}",
                bytes(*count),
                time(*ns)
            )
        }
        Kind::Commit { epoch, ns } => format!("committed {epoch}, {} after its cut", time(*ns)),
        Kind::Kill { signal } => format!("kills itself with signal {signal} (fault injection)"),
        Kind::Passed { calls, points } => {
            let passed = points.iter().filter(|(_, times)| *times > 0);
            let passed: Vec<_> = passed
                .map(|(point, times)| format!("{point} {times}"))
                .collect();
            format!(
                "{calls} MPI calls; fault points passed: {}",
                passed.join(", ")
            )
        }
        Kind::Rehearsal {
            worker,
            failure: Some(why),
            ..
        } => {
            format!("the initialisation of {worker} cannot be replayed: {why}")
        }
        Kind::Rehearsal {
            worker,
            journal,
            pages,
            different,
            places,
            failure: None,
            replay_ns,
            phase_ns,
        } => format!(
            "the initialisation of {worker} replayed from {} in {} instead of {}: {different} of {pages} pages differ{}",
            bytes(*journal),
            time(*replay_ns),
            time(*phase_ns),
            if places.is_empty() {
                String::new()
            } else {
                format!(" ({})", places.join(", "))
            }
        ),
        Kind::Thinned {
            worker,
            pages,
            left,
            journal,
        } => format!(
            "the copy of {worker} holds {left} pages and a journal of {}; {pages} pages can be rebuilt",
            bytes(*journal)
        ),
        Kind::OwnThinned { pages, left } => {
            format!("the rank keeps {left} pages of its own; {pages} pages can be made again")
        }
        Kind::StaticData {
            worker,
            way,
            reason,
        } => format!("static data of {worker} by {way}: {reason}"),
        Kind::Rebuilt { worker, pages, ns } => {
            format!("{pages} pages of {worker} rebuilt in {}", time(*ns))
        }
        Kind::Recomputed {
            regions,
            bytes: length,
            ns,
        } => format!(
            "the program's functions made {} in {} again, in {}",
            bytes(*length),
            count(*regions as usize, "region", "regions"),
            time(*ns)
        ),
        Kind::Reversed {
            pages,
            wrong,
            steps,
            ns,
        } => format!(
            "the program's functions undid {} in {}: {pages} pages are as they were, {wrong} are not",
            count(*steps as usize, "step", "steps"),
            time(*ns)
        ),
        Kind::FailureDetected {
            recovery,
            failed,
            by,
        } => {
            format!(
                "recovery {recovery}: failure of {} detected by {by}",
                ranks(failed)
            )
        }
        Kind::SparesChosen {
            recovery,
            choices,
            reason,
        } => spares_chosen(*recovery, choices, reason.as_deref()),
        Kind::Stage {
            recovery,
            stage,
            ns,
        } => format!("recovery {recovery}: {stage} done in {}", time(*ns)),
        Kind::Takeover {
            recovery,
            from,
            as_worker,
        } => {
            format!("recovery {recovery}: spare {from} takes over as worker {as_worker}")
        }
        Kind::Resume {
            recovery,
            epoch,
            total_ns,
        } => {
            format!(
                "recovery {recovery}: resumes at epoch {epoch} after {}",
                time(*total_ns)
            )
        }
        Kind::Interval {
            cost_ns,
            mtbf_ns,
            interval_ns,
        } => format!(
            "checkpoints cost {}, and a failure is expected every {}, so one is taken every {}",
            time(*cost_ns),
            time(*mtbf_ns),
            time(*interval_ns)
        ),
        Kind::Traffic(it) => traffic(it),
        Kind::JournalCalls(it) => format!(
            "the journal of {} holds {} calls of {} places, {}, {}",
            it.worker,
            it.journal.count,
            it.rows.len() as u64 + it.other_places,
            bytes(it.journal.bytes),
            it.kept.map_or("and is not kept".to_owned(), |kept| format!(
                "compressed {}",
                bytes(kept)
            ))
        ),
        Kind::Refused { reason } => format!("refused: {reason}"),
        Kind::Death {
            recovery,
            worker,
            cause,
            rank,
        } => {
            format!("recovery {recovery}: rank {rank} (worker {worker}) died: {cause}")
        }
        Kind::Lost { reason, status } => format!("status {status}: {reason}"),
        Kind::End { how } => format!("end: {how}"),
    }
}

fn traffic(it: &Traffic) -> String {
    let mut messages = it.other_peers;
    it.peers.iter().for_each(|peer| messages += peer.messages);
    let mut collectives = it.other_comms[1];
    it.comms
        .iter()
        .for_each(|comm| collectives += comm.collectives);
    let mut text = format!(
        "so far worker {} has sent {} messages ({}), and called {} collectives ({})",
        it.worker,
        messages.count,
        bytes(messages.bytes),
        collectives.count,
        bytes(collectives.bytes)
    );
    if it.undone.count > 0 {
        let (count, size) = (it.undone.count, bytes(it.undone.bytes));
        let _ = write!(text, "; rollbacks have undone {count} messages ({size})");
    }
    text
}

fn spares_chosen(recovery: u32, choices: &[SpareChoice], reason: Option<&str>) -> String {
    let choices = choices.iter().map(|choice| {
        let by = if choice.by_daemon {
            "ckptd"
        } else {
            "the built-in rule"
        };
        format!("rank {} for worker {} by {by}", choice.rank, choice.worker)
    });
    let choices: Vec<String> = choices.collect();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    format!(
        "recovery {recovery}: chosen: {}{reason}",
        choices.join(", ")
    )
}

fn one_recovery(out: &mut String, it: &Recovery) {
    line!(out, "\nRecovery {}", it.number);
    it.failed
        .iter()
        .for_each(|failed| failed_rank(out, failed, it.detected_ns));
    if let (Some(at), Some(rank), Some(class)) = (it.detected_ns, it.detected_by, &it.error_class) {
        line!(
            out,
            "  detected     at {} s, first by rank {rank}: {class}",
            seconds(at)
        );
    }
    for by in &it.takeovers {
        line!(
            out,
            "  taken over   worker {} by rank {} (spare {})",
            by.as_worker,
            by.rank,
            by.spare
        );
    }
    if let (Some(at), Some(epoch)) = (it.resumed_ns, it.epoch) {
        line!(
            out,
            "  resumed      at epoch {epoch}, at {} s, {} ranks",
            seconds(at),
            it.resumed.len()
        );
    } else {
        line!(out, "  resumed      never: the recovery did not complete");
    }
    for (name, duration) in [
        ("detect to resume", it.detect_to_resume_ns),
        ("kill to resume", it.kill_to_resume_ns),
    ] {
        if let Some(ns) = duration {
            line!(out, "  {name:<18} {:>12}", time(ns));
        }
    }
    if !it.stages.is_empty() {
        line!(out, "  {:<18} {:>12}   slowest", "stage", "longest");
    }
    for stage in &it.stages {
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
        .map_or_else(|| "part unknown".to_owned(), |role| role.to_string());
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
        .map_or_else(String::new, |cause| format!(", died of {cause}"));
    line!(
        out,
        "  failed       rank {} ({role}){cause}, {sign}",
        failed.rank
    );
}

fn checkpoints(out: &mut String, it: &Checkpoints) {
    let last = it
        .last_committed
        .map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
    line!(
        out,
        "\nCheckpoints: {} cut, {} committed, last committed epoch {last}",
        it.cut,
        it.committed
    );
    summary(out, "captured", &it.capture_bytes, bytes);
    summary(out, "scan", &it.scan_ns, time);
    summary(out, "copy", &it.copy_ns, time);
    summary(out, "shipped", &it.ship_bytes, bytes);
    summary(out, "left out", &it.alike_pages, |pages| {
        count(pages as usize, "page", "pages")
    });
    summary(out, "ship", &it.ship_ns, time);
    summary(out, "cut to commit", &it.commit_ns, time);
}

fn summary(out: &mut String, name: &str, it: &Summary, show: fn(u64) -> String) {
    if let Some(rank) = it.max_rank {
        let (mean, max, total) = (show(it.mean()), show(it.max), show(it.total));
        line!(
            out,
            "  {name:<14} mean {mean:>10}   max {max:>10} (rank {rank})   total {total:>10} in {}",
            it.count
        );
    }
}

/// A rank that learns of a failure by a revocation may not know whose it is.
fn ranks(ranks: &[ProcessNumber]) -> String {
    if ranks.is_empty() {
        return "ranks not yet known".to_owned();
    }
    let names: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    format!("rank {}", names.join(", "))
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}
