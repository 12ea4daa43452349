//! Text of the report, its conclusion, and the lines for the site's file.

use super::trial_table::{Detection, Trial, TriedFabric};
use crate::doctor::{self, Check, Grade, Parts};
use std::fmt::Write;
use understudy_formats::events::realtime_ns;
use understudy_html::{Acceptance, AcceptanceRow, AcceptanceSection, RowVerdict, date_and_time};
use understudy_report::count;

/// Returns the rows of the parts that jobs use here.
pub fn parts_section(parts: &Parts) -> AcceptanceSection {
    let mut rows: Vec<AcceptanceRow> = parts.checks.iter().map(|it| row_of(it, None)).collect();
    for node in &parts.hosts {
        let unusual = node.checks.iter().filter(|it| it.grade != Grade::Ok);
        let before = rows.len();
        rows.extend(unusual.map(|check| row_of(check, Some(&node.host))));
        if rows.len() == before {
            rows.push(AcceptanceRow {
                name: node.host.clone(),
                verdict: RowVerdict::Right,
                finding: format!("{}; all checks are right", node.kind),
                remedy: None,
            });
        }
    }
    AcceptanceSection {
        title: "Parts".into(),
        rows,
    }
}

fn row_of(check: &Check, host: Option<&str>) -> AcceptanceRow {
    AcceptanceRow {
        name: match host {
            Some(host) => format!("{host}: {}", check.name),
            None => check.name.clone(),
        },
        verdict: match check.grade {
            Grade::Ok => RowVerdict::Right,
            Grade::Warning => RowVerdict::Noted,
            Grade::Failure => RowVerdict::Wrong,
        },
        finding: check.finding.clone(),
        remedy: check.remedy.clone(),
    }
}

pub fn not_tried(name: &str, why: String) -> AcceptanceRow {
    AcceptanceRow {
        name: name.into(),
        verdict: RowVerdict::NotTried,
        finding: why,
        remedy: None,
    }
}

/// Describes the network devices of the first host that has some; empty without any.
pub fn network_of(parts: &Parts) -> String {
    let networks = parts.hosts.iter().map(|node| node.network.clone());
    let mut networks = networks.chain([doctor::active_network()]);
    networks
        .find(|network| !network.is_empty())
        .unwrap_or_default()
}

/// Returns date and versions, and the faults that act in jobs over the native network.
pub fn subject(mpi: &str, faults: &str) -> String {
    let (date, version) = (date_and_time(realtime_ns()), env!("CARGO_PKG_VERSION"));
    let faults = match faults {
        "" => String::new(),
        _ => format!(", native with UNDERSTUDY_FAULT={faults}"),
    };
    format!(
        "{date}: understudy {version}, {}, {mpi}{faults}",
        doctor::platform()
    )
}

/// Results of the jobs by network, the worst of each; `None` without such jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobResults {
    tcp: Option<RowVerdict>,
    /// Native network, with all memory compared.
    native: Option<RowVerdict>,
    /// Native network, with compared landings.
    landings: Option<RowVerdict>,
}

impl JobResults {
    pub fn of(jobs: &[(Trial, AcceptanceRow)]) -> Self {
        let mut results = Self::default();
        for (trial, row) in jobs {
            let result = match (trial.fabric, trial.detection) {
                (TriedFabric::Tcp, _) => &mut results.tcp,
                (TriedFabric::Native, Detection::Landings) => &mut results.landings,
                (TriedFabric::Native, _) => &mut results.native,
            };
            *result = (*result).max(Some(row.verdict));
        }
        results
    }

    fn accepts_native(self) -> bool {
        self.tcp == Some(RowVerdict::Right) && self.native == Some(RowVerdict::Right)
    }

    /// True if bytes were wrong with landings only.
    fn rejects_landings_only(self) -> bool {
        self.accepts_native() && self.landings == Some(RowVerdict::Wrong)
    }
}

/// Returns the lines for the site's file; none unless all jobs with TCP were right.
///
/// The native network is named only if all jobs with it were right, and landings only if all jobs
/// with both were right.
pub fn site_lines(results: JobResults, network: &str, subject: &str) -> Vec<String> {
    if results.tcp != Some(RowVerdict::Right) {
        return Vec::new();
    }
    let settings: &[&str] = match (network.is_empty(), results.accepts_native()) {
        (true, _) => &["# The nodes have no other network than TCP."],
        (false, false) => &["fabric = tcp"],
        (false, true) => match results.landings {
            Some(RowVerdict::Right) => &["fabric = native", "tracking = landings"],
            Some(RowVerdict::Wrong) => &[
                "fabric = native",
                "# Not accepted: tracking = landings. Checkpoints compare all memory.",
            ],
            _ => &["fabric = native"],
        },
    };
    let settings = settings.iter().map(|line| (*line).to_owned());
    [format!("# Accepted {subject}")]
        .into_iter()
        .chain(settings)
        .collect()
}

/// Returns the result, and the result in a sentence.
pub fn conclusion(sections: &[AcceptanceSection], results: JobResults) -> (RowVerdict, String) {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let with = |verdict| rows().filter(|row| row.verdict == verdict).count();
    let worst = Acceptance::worst(sections);
    let sentence = match worst {
        RowVerdict::Right | RowVerdict::Noted => {
            "Accepted: every byte was right after all failures.".into()
        }
        RowVerdict::NotTried => format!(
            "Not complete: nothing is wrong, but {} not tried.",
            count(with(RowVerdict::NotTried), "row was", "rows were")
        ),
        RowVerdict::Wrong if results.rejects_landings_only() => format!(
            "Accepted without tracking = landings: every byte was right with the native network \
             and compared memory, and {} wrong with landings.",
            count(with(RowVerdict::Wrong), "row is", "rows are")
        ),
        RowVerdict::Wrong => format!(
            "NOT accepted: {} wrong.",
            count(with(RowVerdict::Wrong), "row is", "rows are")
        ),
    };
    (worst, sentence)
}

/// Returns the report as text.
pub fn text(acceptance: &Acceptance) -> String {
    let mut out = format!("Acceptance of understudy\n{}\n", acceptance.subject);
    for section in &acceptance.sections {
        let _ = writeln!(out, "\n{}:", section.title);
        for row in &section.rows {
            let word = row.verdict.word();
            let _ = writeln!(out, "{word:<9} {}: {}", row.name, row.finding);
            if let Some(remedy) = &row.remedy {
                let _ = writeln!(out, "{:>9} -> {remedy}", "");
            }
        }
    }
    let _ = writeln!(out, "\n{}", acceptance.conclusion);
    if !acceptance.site_lines.is_empty() {
        let _ = writeln!(out, "\nLines for /etc/understudy.conf:");
        for line in &acceptance.site_lines {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::trial_table::Disturbance;
    use super::*;

    fn row(name: &str, verdict: RowVerdict) -> AcceptanceRow {
        AcceptanceRow {
            verdict,
            ..not_tried(name, String::new())
        }
    }

    /// Returns the results of jobs with TCP, with the native network, and with landings.
    fn results(tcp: &[RowVerdict], native: &[RowVerdict], landings: &[RowVerdict]) -> JobResults {
        let jobs_of = |verdicts: &[RowVerdict], fabric, detection| {
            let trial = Trial {
                fabric,
                detection,
                disturbance: Disturbance::Worker,
            };
            let job = |&verdict| (trial, row("a", verdict));
            verdicts.iter().map(job).collect::<Vec<_>>()
        };
        let jobs = [
            jobs_of(tcp, TriedFabric::Tcp, Detection::Marks),
            jobs_of(native, TriedFabric::Native, Detection::Compare),
            jobs_of(landings, TriedFabric::Native, Detection::Landings),
        ];
        JobResults::of(&jobs.concat())
    }

    #[test]
    fn the_native_network_is_named_only_if_every_byte_was_right() {
        use RowVerdict::{NotTried, Right, Wrong};
        let lines = |tcp, native: &[RowVerdict], network: &str| {
            let lines = site_lines(results(&[tcp], native, &[]), network, "");
            lines.last().cloned().unwrap_or_default()
        };
        assert_eq!(lines(Right, &[Right, Right], "mlx5_0"), "fabric = native");
        assert_eq!(lines(Right, &[Right, Wrong], "mlx5_0"), "fabric = tcp");
        assert_eq!(lines(Right, &[NotTried], "mlx5_0"), "fabric = tcp");
        assert_eq!(lines(Right, &[], "mlx5_0"), "fabric = tcp");
        assert!(lines(Right, &[], "").starts_with('#'));
        assert_eq!(lines(Wrong, &[Right], "mlx5_0"), "");
        let none = site_lines(results(&[], &[], &[]), "mlx5_0", "");
        assert_eq!(none, Vec::<String>::new());
    }

    #[test]
    fn landings_are_named_only_if_every_byte_was_right() {
        use RowVerdict::{NotTried, Right, Wrong};
        let settings = |native: &[RowVerdict], landings: &[RowVerdict]| {
            let lines = site_lines(results(&[Right], native, landings), "mlx5_0", "");
            let is_setting = |line: &String| !line.starts_with('#');
            lines.into_iter().filter(is_setting).collect::<Vec<_>>()
        };
        let both = ["fabric = native", "tracking = landings"];
        assert_eq!(settings(&[Right], &[Right, Right]), both);
        assert_eq!(settings(&[Right], &[Right, Wrong]), both[..1]);
        assert_eq!(settings(&[Right], &[NotTried]), both[..1]);
        assert_eq!(settings(&[Right], &[]), both[..1]);
        assert_eq!(settings(&[Wrong], &[Right]), ["fabric = tcp"]);
    }

    #[test]
    fn the_conclusion_is_that_of_the_worst_row() {
        let with = |verdicts: &[RowVerdict], results| {
            let rows = verdicts.iter().map(|&it| row("a", it)).collect();
            let title = String::new();
            conclusion(&[AcceptanceSection { title, rows }], results).1
        };
        use RowVerdict::{NotTried, Noted, Right, Wrong};
        let of = |verdicts| with(verdicts, JobResults::default());
        assert!(of(&[Right, Noted]).starts_with("Accepted"));
        assert!(of(&[Right, NotTried]).starts_with("Not complete"));
        assert_eq!(of(&[Wrong, NotTried]), "NOT accepted: 1 row is wrong.");
        let landings = with(&[Right, Wrong], results(&[Right], &[Right], &[Wrong]));
        assert!(landings.starts_with("Accepted without tracking = landings"));
        let both = with(&[Wrong, Wrong], results(&[Right], &[Wrong], &[Wrong]));
        assert_eq!(both, "NOT accepted: 2 rows are wrong.");
    }
}
