//! The workers' findings as one text.

use super::tally::Count;
use std::collections::BTreeMap;
use std::fmt;

/// A place that calls MPI.
#[derive(Clone, bincode::Encode, bincode::Decode)]
pub struct Row {
    /// Where.
    pub place: String,
    /// What.
    pub procedure: String,
    /// In the phase.
    pub in_phase: Count,
    /// After it.
    pub later: Count,
}

/// What a worker has found, or all of them.
#[derive(Clone, Default, bincode::Encode, bincode::Decode)]
pub struct Report {
    /// Places.
    pub rows: Vec<Row>,
    /// Calls of a worker.
    pub calls: u64,
    /// Those in the phase.
    pub calls_in_phase: u64,
    /// Bytes that these have written.
    pub bytes_in_phase: u64,
    /// The call at which `auto` ends the phase.
    pub automatic: Option<u64>,
    /// The last call of the phase that could be a cut: its number, name, and how often that has been called by then.
    pub end: Option<(u64, String, u64)>,
}

/// The report of all workers, with how many there are.
pub struct Merged {
    workers: usize,
    report: Report,
}

/// With fewer calls after the phase than this nothing can be said of it.
const FEW_CALLS: u64 = 32;
/// Places that are listed at most.
const MOST_ROWS: usize = 60;

/// Adds up what workers have found: counts of equal places, and the latest of all ends.
pub fn merge(reports: Vec<Report>) -> Merged {
    let mut rows: BTreeMap<(String, String), (Count, Count)> = BTreeMap::new();
    let mut all = Report::default();
    let workers = reports.len();
    for report in reports {
        for row in report.rows {
            let sum = rows.entry((row.procedure, row.place)).or_default();
            let add = |a: Count, b: Count| (a.0 + b.0, a.1 + b.1);
            *sum = (add(sum.0, row.in_phase), add(sum.1, row.later));
        }
        all.calls = all.calls.max(report.calls);
        all.calls_in_phase = all.calls_in_phase.max(report.calls_in_phase);
        all.bytes_in_phase = all.bytes_in_phase.max(report.bytes_in_phase);
        all.automatic = all.automatic.max(report.automatic);
        all.end = all.end.max(report.end);
    }
    let row = |((procedure, place), (in_phase, later))| Row {
        place,
        procedure,
        in_phase,
        later,
    };
    all.rows = rows.into_iter().map(row).collect();
    all.rows.sort_by_key(|row| {
        std::cmp::Reverse((row.in_phase.1 + row.later.1, row.in_phase.0 + row.later.0))
    });
    Merged {
        workers,
        report: all,
    }
}

impl Merged {
    /// The value of `UNDERSTUDY_INIT_END`.
    fn recommended(&self) -> String {
        let Report {
            calls,
            calls_in_phase,
            end,
            ..
        } = &self.report;
        match end {
            Some((_, name, times)) if calls - calls_in_phase >= FEW_CALLS => {
                format!("{name}#{times}")
            }
            _ => "auto".into(),
        }
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        writeln!(
            out,
            "understudy trace: {} workers, at most {} MPI calls each; the first {} are the initialisation phase, in which MPI \
             writes at most {} bytes",
            self.workers, report.calls, report.calls_in_phase, report.bytes_in_phase
        )?;
        writeln!(
            out,
            "{:>12} {:>14} {:>12} {:>14}  procedure, place (all workers; calls and bytes written, in the phase and after it)",
            "calls", "bytes", "later", "bytes"
        )?;
        for row in report.rows.iter().take(MOST_ROWS) {
            let ((calls, bytes), (later, more)) = (row.in_phase, row.later);
            writeln!(
                out,
                "{calls:>12} {bytes:>14} {later:>12} {more:>14}  {} at {}",
                row.procedure, row.place
            )?;
        }
        if report.rows.len() > MOST_ROWS {
            writeln!(out, "and {} more places", report.rows.len() - MOST_ROWS)?;
        }
        match report.automatic {
            Some(call) => writeln!(
                out,
                "`auto` would end the phase at the first cut after call {call}"
            )?,
            None => writeln!(
                out,
                "`auto` would end the phase when the first interval is over"
            )?,
        }
        writeln!(
            out,
            "recommended: UNDERSTUDY_INIT_END={}",
            self.recommended()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rank: u64, calls: u64) -> Report {
        Report {
            rows: vec![Row {
                place: "main+0x10 (solver)".into(),
                procedure: "MPI_Bcast".into(),
                in_phase: (3, 30 + rank),
                later: (0, 0),
            }],
            calls,
            calls_in_phase: 40,
            bytes_in_phase: 30 + rank,
            automatic: Some(120),
            end: Some((7 - rank, "MPI_Allreduce".into(), 5)),
        }
    }

    #[test]
    fn reports_become_one() {
        let text = merge(vec![report(0, 500), report(1, 501)]).to_string();
        assert!(
            text.contains("2 workers, at most 501 MPI calls each; the first 40"),
            "{text}"
        );
        assert!(
            text.contains(
                "           6             61            0              0  MPI_Bcast at main+0x10"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("recommended: UNDERSTUDY_INIT_END=MPI_Allreduce#5\n"),
            "{text}"
        );
    }

    #[test]
    fn a_run_without_a_pattern_gets_no_advice() {
        let text = merge(vec![report(0, 45)]).to_string();
        assert!(
            text.ends_with("recommended: UNDERSTUDY_INIT_END=auto\n"),
            "{text}"
        );
    }
}
