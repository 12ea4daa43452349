//! The timeline as text: a line for each event.

use crate::Timeline;
use crate::roles_by_rank::RolesByRank;
use crate::units::{bytes, count, time};
use std::io::{self, Write};
use understudy_formats::events::{Kind, ProcessNumber, SpareChoice};
use understudy_formats::pages::PAGE_SIZE;

/// Writes a line for each event, and an empty line.
pub(super) fn write(out: &mut impl Write, timeline: &Timeline) -> io::Result<()> {
    writeln!(out, "Timeline (seconds since the first rank's start)")?;
    let mut roles = RolesByRank::default();
    for event in timeline.iter() {
        roles.follow(&event);
        let role = roles
            .role(event.rank)
            .map_or_else(String::new, |role| role.to_string());
        let (rank, seconds) = (event.rank, event.at_ns as f64 / 1e9);
        writeln!(
            out,
            "{seconds:>14.6}  rank {rank:<3} {role:<10} checkpoint {:<5} {}",
            event.epoch,
            describe(&event.kind)
        )?;
    }
    writeln!(out)
}

fn describe(kind: &Kind) -> String {
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
            count(*workers, "worker", "workers"),
            count(*spares, "spare", "spares")
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
        } => format!(
            "cut {} at call {at_call} ({})",
            epoch,
            count(*candidates, "candidate", "candidates")
        ),
        Kind::Capture {
            epoch,
            pages,
            bytes: size,
            scan_ns,
            copy_ns,
        } => format!(
            "captured {}: {}, {}, scan {}, copy {}",
            epoch,
            count(*pages, "page", "pages"),
            bytes(*size),
            time(*scan_ns),
            time(*copy_ns)
        ),
        Kind::Elided {
            epoch,
            pages,
            marks,
        } => {
            let left_out = bytes(pages.saturating_mul(PAGE_SIZE as u64));
            let marks = marks.iter().filter(|mark| mark.counts).count();
            format!(
                "left out of {}: {}, {left_out}, by {}",
                epoch,
                count(*pages, "page", "pages"),
                count(marks, "mark", "marks")
            )
        }
        Kind::Ship {
            epoch,
            to,
            bytes: size,
            alike,
            ns,
        } => {
            let sent = format!(
                "sent {} to rank {to}: {} in {}",
                epoch,
                bytes(*size),
                time(*ns)
            );
            match alike {
                0 => sent,
                _ => format!(
                    "{sent}, without {} that rank {to} has itself",
                    count(*alike, "page", "pages")
                ),
            }
        }
        Kind::Received {
            epoch,
            from,
            bytes: size,
            ns,
        } => {
            format!(
                "received {} from rank {from}: {} in {}",
                epoch,
                bytes(*size),
                time(*ns)
            )
        }
        Kind::Commit { epoch, ns } => format!("committed {}, {} after its cut", epoch, time(*ns)),
        Kind::Kill { signal } => format!("kills itself with signal {signal} (fault injection)"),
        Kind::Passed { calls, points } => {
            let passed = points.iter().filter(|(_, times)| *times > 0);
            let passed: Vec<_> = passed
                .map(|(point, times)| format!("{point} {times}"))
                .collect();
            format!(
                "{}; fault points passed: {}",
                count(*calls, "MPI call", "MPI calls"),
                passed.join(", ")
            )
        }
        Kind::TrialReplay {
            worker,
            failure: Some(why),
            ..
        } => {
            format!("the set-up phase of worker {worker} cannot be replayed: {why}")
        }
        Kind::TrialReplay {
            worker,
            journal,
            pages,
            different,
            places,
            failure: None,
            replay_ns,
            phase_ns,
        } => format!(
            "the set-up phase of worker {worker} was replayed from a log of {} in {} instead of \
             {}: {different} of {} differ{}",
            bytes(*journal),
            time(*replay_ns),
            time(*phase_ns),
            count(*pages, "page", "pages"),
            if places.is_empty() {
                String::new()
            } else {
                format!(" ({})", places.join(", "))
            }
        ),
        Kind::ReplicaReduced {
            worker,
            pages,
            left,
            journal,
        } => format!(
            "the replica of worker {worker} holds {} and a set-up log of {}; {} can be rebuilt",
            count(*left, "page", "pages"),
            bytes(*journal),
            count(*pages, "page", "pages")
        ),
        Kind::OwnReplicaReduced { pages, left } => {
            format!(
                "the rank keeps {} of its own; {} can be rebuilt",
                count(*left, "page", "pages"),
                count(*pages, "page", "pages")
            )
        }
        Kind::StaticData {
            worker,
            way,
            reason,
        } => format!("static data of worker {worker} by {way}: {reason}"),
        Kind::Rebuilt { worker, pages, ns } => {
            format!(
                "{} of worker {worker} rebuilt in {}",
                count(*pages, "page", "pages"),
                time(*ns)
            )
        }
        Kind::Recomputed {
            regions,
            bytes: length,
            ns,
        } => format!(
            "the program's functions recomputed {} in {}, in {}",
            bytes(*length),
            count(*regions, "region", "regions"),
            time(*ns)
        ),
        Kind::Reversed {
            pages,
            wrong,
            steps,
            ns,
        } => format!(
            "the program's functions undid {} in {}: pages restored {pages}, others {wrong}",
            count(*steps, "step", "steps"),
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
            as_worker,
            ..
        } => format!("recovery {recovery}: takes over as worker {as_worker}"),
        Kind::Resume {
            recovery,
            epoch,
            total_ns,
        } => {
            format!(
                "recovery {recovery}: resumes from checkpoint {} after {}",
                epoch,
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
        Kind::Traffic { traffic } => {
            format!(
                "traffic of worker {}, not reported any more",
                traffic.worker
            )
        }
        Kind::JournalCalls { calls: it } => format!(
            "the set-up log of worker {} holds {} of {}, {}, {}",
            it.worker,
            count(it.journal.count, "call", "calls"),
            count(
                it.other_places.saturating_add(it.rows.len() as u64),
                "place",
                "places"
            ),
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
            format!("recovery {recovery}: rank {rank} (worker {worker}) failed: {cause}")
        }
        Kind::Lost { reason, status } => format!("status {status}: {reason}"),
        Kind::End { how } => format!("end: {how}"),
    }
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

/// Returns the failed ranks as text.
///
/// The list is empty if a rank has detected a failure, but not which ranks have failed.
fn ranks(ranks: &[ProcessNumber]) -> String {
    if ranks.is_empty() {
        return "ranks not yet known".to_owned();
    }
    let names: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    let noun = if names.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", names.join(", "))
}
