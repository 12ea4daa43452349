//! Metrics of the daemon in Prometheus' text format.

use crate::pool::Pools;
use std::fmt::Write;

/// Totals since the start of the daemon.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) registered: u64,
    pub(super) died: u64,
    pub(super) leased: u64,
    pub(super) returned: u64,
    pub(super) took_over: u64,
    pub(super) wanted: u64,
    pub(super) refused: u64,
    /// Disconnected clients: another user, a wrong token, another protocol, too slow, or too many.
    pub(super) turned_away: u64,
    pub(super) removed: u64,
    /// Spares that jobs were allowed to start.
    pub(super) started: u64,
}

/// Returns the metrics of all jobs and of the daemon.
pub(super) fn text(pools: &Pools, counters: &Counters, connections: usize) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        let _ = writeln!(
            out,
            "# HELP understudy_{name} {help}\n# TYPE understudy_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = writeln!(out, "understudy_{name}{labels} {value}");
        }
    };
    let mut spares = Vec::new();
    let mut running = Vec::new();
    for (key, job) in pools.jobs() {
        let label = label(&key.name);
        let leased = job.spares().filter(|spare| spare.leased.is_some()).count() as u64;
        let all = job.spares().count() as u64;
        spares.push((format!("{{job=\"{label}\",state=\"idle\"}}"), all - leased));
        spares.push((format!("{{job=\"{label}\",state=\"leased\"}}"), leased));
        running.push((
            format!("{{job=\"{label}\"}}"),
            job.active_spares().count() as u64,
        ));
    }
    let single = |value: u64| vec![(String::new(), value)];
    metric(
        "jobs",
        "gauge",
        "Jobs with a pool of spares.",
        &single(pools.jobs().count() as u64),
    );
    metric("spares", "gauge", "Spares in the pool of a job.", &spares);
    metric(
        "replacements",
        "gauge",
        "Former spares that have replaced workers.",
        &running,
    );
    metric(
        "connections",
        "gauge",
        "Open connections.",
        &single(connections as u64),
    );
    let totals = [
        (
            "spares_registered",
            "Spares that have joined.",
            counters.registered,
        ),
        ("spares_died", "Spares that have failed.", counters.died),
        (
            "leases",
            "Spares leased for failed workers.",
            counters.leased,
        ),
        (
            "leases_returned",
            "Leases that were not used.",
            counters.returned,
        ),
        (
            "takeovers",
            "Workers that spares have replaced.",
            counters.took_over,
        ),
        (
            "spares_wanted",
            "Additional spares that jobs have requested.",
            counters.wanted,
        ),
        (
            "spares_granted",
            "Spares that jobs were allowed to start.",
            counters.started,
        ),
        ("refusals", "Requests that were refused.", counters.refused),
        (
            "turned_away",
            "Clients that were rejected.",
            counters.turned_away,
        ),
        (
            "leftovers_removed",
            "Files of killed jobs that were removed.",
            counters.removed,
        ),
    ];
    for (name, help, value) in totals {
        metric(&format!("{name}_total"), "counter", help, &single(value));
    }
    out
}

/// Returns a label's value, escaped as the format requires.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
