//! Basic data of the job (command, hosts, times, status), and a table of failures.

use crate::clock::{date_and_time, time_of_day};
use crate::replay_row::replay_row;
use crate::timeline::seconds;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use understudy_formats::events::{Kind, ProcessNumber, Role};
use understudy_report::{Ended, Event, FailedRank, Recovery, Report, count, time};

/// Data of a job, collected event by event: start, settings, sent replicas, trial replays.
#[derive(Debug, Default)]
pub struct Facts {
    pub program: String,
    pub command: Vec<String>,
    pub version: String,
    pub job: String,
    pub workers: u32,
    pub spares: u32,
    pub hosts: BTreeMap<ProcessNumber, String>,
    /// Settings of the first process, by name.
    pub settings: BTreeMap<String, String>,
    /// Size of sent replicas in bytes, by sender and receiver.
    pub copies: BTreeMap<(ProcessNumber, ProcessNumber), u64>,
    /// Trial replays of the set-up phase, as rows of a table.
    pub replays: Vec<[String; 4]>,
    /// Time of the last event, in nanoseconds since the beginning of the job.
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
            kind => self.replays.extend(replay_row(kind)),
        }
        self.end_ns = self.end_ns.max(event.at_ns);
    }

    /// Returns the program's name without its directory.
    pub fn name(&self) -> &str {
        match self.program.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ => "a job",
        }
    }

    /// Returns the hosts, each once, in order.
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

/// Returns the exit status of `understudy run` or, if it has recorded none, of the job.
pub fn status(report: &Report) -> Option<i32> {
    let status_of_run = report.run.as_ref().and_then(|run| run.status);
    status_of_run
        .map(i32::from)
        .or_else(|| report.outcome.status())
}

/// Returns the end of the job, in a few words for titles.
pub fn ended(report: &Report) -> &'static str {
    match report.outcome.ended {
        Ended::Finished => "finished",
        Ended::Exited { .. } | Ended::Aborted { .. } => "ended with an error",
        Ended::Lost { .. } => "lost",
        Ended::Stopped { signal, .. } => match signal {
            Some(_) => "ended by a signal",
            None => "ended",
        },
        Ended::Unfinished => "not finished",
    }
}

/// Returns the table of basic data below the headline.
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
                    None => "unknown: not all workers recorded an end, and understudy run recorded \
                        no exit status",
                }
                @if let Some(signal) = signal { (signal) }
            }
            dt { "Processes" }
            dd {
                (count(facts.workers, "worker", "workers")) " and " (count(facts.spares, "spare", "spares")) ", \
                    "
                (left)
            }
            dt { "Hosts" } dd { (facts.hosts_with_ranks()) }
            @if let Some(network) = &report.outcome.network {
                dt { "Network" } dd { (network) }
            }
            dt { "Program" } dd { (facts.program) }
            dt { "Version" } dd { "understudy " (facts.version) ", job " (facts.job) }
        }
    }
}

/// Columns of the table of failures; a narrow screen repeats their names in each cell.
const FAILURE_COLUMNS: [&str; 9] = [
    "recovery",
    "at",
    "since start",
    "process",
    "host",
    "cause",
    "replaced by",
    "checkpoint",
    "after",
];

/// Returns a table with a row for each process that has failed.
pub fn failures(report: &Report, facts: &Facts) -> Markup {
    let rows: Vec<(&Recovery, &FailedRank)> = report
        .recoveries
        .iter()
        .flat_map(|recovery| recovery.failed.iter().map(move |failed| (recovery, failed)))
        .collect();
    html! {
        @if !rows.is_empty() {
            div.wide {
                table.failures {
                    caption { "Failures; times of day are UTC" }
                    thead { tr { @for name in FAILURE_COLUMNS { th scope="col" { (name) } } } }
                    tbody {
                        @for (recovery, failed) in &rows {
                            (row(recovery, failed, report.began_ns, facts))
                        }
                    }
                }
            }
        }
    }
}

fn row(recovery: &Recovery, failed: &FailedRank, began_ns: u64, facts: &Facts) -> Markup {
    let at = failed.killed_ns.or(recovery.failed_ns);
    let at = at.or(recovery.detected_ns).or(failed.last_sign_ns);
    let role_text = failed
        .role
        .map_or_else(String::new, |role| format!(", {role}"));
    let replacement = recovery
        .takeovers
        .iter()
        .find(|takeover| failed.role == Some(Role::Worker(takeover.as_worker)));
    let at_time = |show: &dyn Fn(u64) -> String| at.map_or_else(|| "?".to_owned(), show);
    let cells = [
        recovery.number.to_string(),
        at_time(&|at| time_of_day(began_ns.saturating_add(at))),
        at_time(&seconds),
        format!("rank {}{role_text}", failed.rank),
        facts
            .hosts
            .get(&failed.rank)
            .map_or("?", String::as_str)
            .to_owned(),
        failed.cause.as_deref().unwrap_or("unknown").to_owned(),
        replacement.map_or("no process".to_owned(), |by| format!("rank {}", by.rank)),
        recovery
            .epoch
            .map_or("none".to_owned(), |epoch| epoch.to_string()),
        recovery
            .failure_to_resume_ns
            .map_or("never: the job was lost".to_owned(), time),
    ];
    html! {
        tr {
            @for (name, cell) in FAILURE_COLUMNS.iter().zip(cells) { td data-name=(name) { (cell) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each cell of a failure has the name of its column.
    ///
    /// A narrow screen shows the cells below each other.
    #[test]
    fn each_cell_of_a_failure_has_its_column_s_name() {
        let recovery = Recovery {
            number: 3,
            ..Recovery::default()
        };
        let failed = FailedRank {
            rank: ProcessNumber(5),
            role: None,
            cause: Some("SIGKILL".to_owned()),
            last_sign_ns: Some(7),
            killed_ns: None,
        };
        let row = row(&recovery, &failed, 0, &Facts::default()).into_string();
        for name in FAILURE_COLUMNS {
            assert!(row.contains(&format!("<td data-name=\"{name}\">")), "{row}");
        }
        let css = include_str!("style.css");
        assert!(css.contains(".failures td::before { content: attr(data-name)"));
    }
}
