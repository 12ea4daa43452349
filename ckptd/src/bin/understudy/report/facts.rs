//! What the job was: command, hosts, times, status; and each failure in a row.

use super::clock::{date_and_time, time_of_day};
use super::timeline::seconds;
use ckptd::events::{Kind, ProcessNumber, Role};
use ckptd::report::{Ended, Event, FailedRank, Recovery, Report, count, time};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// What the processes have said of themselves at their start.
#[derive(Debug, Default)]
pub struct Facts {
    pub program: String,
    pub command: Vec<String>,
    pub version: String,
    pub job: String,
    pub workers: u32,
    pub spares: u32,
    pub hosts: BTreeMap<ProcessNumber, String>,
    /// Settings by name; those of the first process.
    pub settings: BTreeMap<String, String>,
    /// Bytes of copies, by sender and receiver.
    pub copies: BTreeMap<(ProcessNumber, ProcessNumber), u64>,
    /// Replays of the initialisation phase as rows of a table.
    pub replays: Vec<[String; 4]>,
    /// The last moment that anything was recorded, since the begin.
    pub end_ns: u64,
}

impl Facts {
    pub fn add(&mut self, event: &Event) {
        match &event.kind {
            Kind::Start {
                program,
                command,
                version,
                job,
                workers,
                spares,
                host,
                ..
            } => {
                if self.hosts.is_empty() {
                    (self.program, self.command) = (program.clone(), command.clone());
                    (self.version, self.job) = (version.clone(), job.clone());
                    (self.workers, self.spares) = (*workers, *spares);
                }
                self.hosts.insert(event.rank, host.clone());
            }
            Kind::Config { settings } if self.settings.is_empty() => {
                self.settings.extend(settings.iter().cloned());
            }
            Kind::Ship { to, bytes, .. } => {
                let sum = self.copies.entry((event.rank, *to)).or_default();
                *sum = sum.saturating_add(*bytes);
            }
            kind => self.replays.extend(super::journals::replay(kind)),
        }
        self.end_ns = self.end_ns.max(event.at_ns);
    }

    /// The program's name without its directory.
    pub fn name(&self) -> &str {
        match self.program.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ => "a job",
        }
    }

    /// The hosts, each once, in their order.
    pub fn host_names(&self) -> BTreeSet<&str> {
        self.hosts.values().map(String::as_str).collect()
    }

    fn hosts_with_ranks(&self) -> String {
        let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
        self.hosts
            .values()
            .for_each(|host| *ranks.entry(host).or_default() += 1);
        let each: Vec<_> = ranks
            .iter()
            .map(|(host, number)| format!("{host} ({})", count(*number, "process", "processes")))
            .collect();
        each.join(", ")
    }
}

/// The exit status, of `understudy run` if it has started the job.
pub fn status(report: &Report) -> Option<i32> {
    let of_run = report.run.as_ref().and_then(|run| run.status);
    of_run.map(i32::from).or_else(|| report.outcome.status())
}

/// How the job ended, in a word for titles.
pub fn ended(report: &Report) -> &'static str {
    match report.outcome.ended {
        Ended::Finished => "finished",
        Ended::Exited { .. } | Ended::Aborted { .. } => "ended with an error",
        Ended::Lost { .. } => "lost",
        Ended::Unfinished if report.run.as_ref().is_some_and(|run| run.signal.is_some()) => {
            "ended by a signal"
        }
        Ended::Unfinished => "not finished",
    }
}

/// The table of facts below the headline.
pub fn facts(report: &Report, facts: &Facts) -> Markup {
    let run = report.run.as_ref();
    let command = run.map_or(&facts.command, |run| &run.command);
    let began = run.map_or(report.began_ns, |run| run.started_ns);
    let end = run
        .and_then(|run| run.ended_ns)
        .unwrap_or(report.began_ns.saturating_add(facts.end_ns));
    let signal = run.and_then(|run| run.signal).map(|number| {
        let name = signal_hook::low_level::signal_name(number).unwrap_or("a signal");
        format!(" (ended by {name})")
    });
    let left = match report.outcome.spares_left {
        0 => "no spare left".to_owned(),
        left => format!("{} left", count(left, "spare", "spares")),
    };
    html! {
        dl.facts {
            dt { "Command" } dd { code { (shell_words::join(command)) } }
            dt { "Started" } dd { (date_and_time(began)) }
            dt { "Ended" } dd { (date_and_time(end)) ", after " (time(end.saturating_sub(began))) }
            dt { "Exit status" }
            dd {
                @match status(report) {
                    Some(status) => (status),
                    None => "unknown: the job was started by other means than understudy run, and not all workers have told of an end",
                }
                @if let Some(signal) = signal { (signal) }
            }
            dt { "Processes" }
            dd {
                (count(facts.workers as usize, "worker", "workers")) " and " (count(facts.spares as usize, "spare", "spares")) ", "
                (left)
            }
            dt { "Hosts" } dd { (facts.hosts_with_ranks()) }
            dt { "Program" } dd { (facts.program) }
            dt { "Version" } dd { "understudy " (facts.version) ", job " (facts.job) }
        }
    }
}

/// One row for each process that failed.
pub fn failures(report: &Report, facts: &Facts) -> Markup {
    let rows: Vec<(&Recovery, &FailedRank)> = report
        .recoveries
        .iter()
        .flat_map(|it| it.failed.iter().map(move |failed| (it, failed)))
        .collect();
    html! {
        @if !rows.is_empty() {
            div.wide {
                table.failures {
                    caption { "Failures; times of day are UTC" }
                    thead {
                        tr {
                            th { "recovery" } th { "at" } th { "since start" } th { "process" } th { "host" } th { "died of" }
                            th { "taken over by" } th { "back at epoch" } th { "after" }
                        }
                    }
                    tbody { @for (it, failed) in &rows { (row(it, failed, report.began_ns, facts)) } }
                }
            }
        }
    }
}

fn row(it: &Recovery, failed: &FailedRank, began_ns: u64, facts: &Facts) -> Markup {
    let at = failed.killed_ns.or(it.detected_ns).or(failed.last_sign_ns);
    let part = failed
        .role
        .map_or_else(String::new, |role| format!(", {role}"));
    let by = it
        .takeovers
        .iter()
        .find(|by| failed.role == Some(Role::Worker(by.as_worker)));
    html! {
        tr {
            td { (it.number) }
            td { (at.map_or_else(|| "?".to_owned(), |at| time_of_day(began_ns.saturating_add(at)))) }
            td { (at.map_or_else(|| "?".to_owned(), seconds)) }
            td { "rank " (failed.rank) (part) }
            td { (facts.hosts.get(&failed.rank).map_or("?", String::as_str)) }
            td { (failed.cause.as_deref().unwrap_or("unknown")) }
            td { @match by { Some(by) => { "rank " (by.rank) } None => "nobody" } }
            @match (it.epoch, it.detect_to_resume_ns) {
                (Some(epoch), Some(ns)) => { td { (epoch) } td { (time(ns)) } }
                _ => td colspan="2" { "never: the job was lost" },
            }
        }
    }
}
