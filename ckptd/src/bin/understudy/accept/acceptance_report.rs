//! Text of the report, its conclusion, and the lines for the site's file.

use super::trial_table::TriedFabric;
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

/// Returns date and versions.
pub fn subject(mpi: &str) -> String {
    let (date, version) = (date_and_time(realtime_ns()), env!("CARGO_PKG_VERSION"));
    format!(
        "{date}: understudy {version}, {}, {mpi}",
        doctor::platform()
    )
}

/// Returns the lines for the site's file; none unless all jobs with TCP were right.
///
/// The native network is named only if all jobs with it were right.
pub fn site_lines(jobs: &[AcceptanceRow], network: &str, mpi: &str) -> Vec<String> {
    let are_right = |fabric: TriedFabric| {
        let start = format!("{},", fabric.option());
        let mut of_fabric = jobs.iter().filter(|row| row.name.starts_with(&start));
        let first = of_fabric.next();
        first.is_some_and(|first| {
            first.verdict == RowVerdict::Right
                && of_fabric.all(|row| row.verdict == RowVerdict::Right)
        })
    };
    if !are_right(TriedFabric::Tcp) {
        return Vec::new();
    }
    let accepted = format!("# Accepted {}", subject(mpi));
    let setting = match (network.is_empty(), are_right(TriedFabric::Native)) {
        (true, _) => "# The nodes have no other network than TCP.".to_owned(),
        (false, true) => "fabric = native".to_owned(),
        (false, false) => "fabric = tcp".to_owned(),
    };
    vec![accepted, setting]
}

/// Returns the result, and the result in a sentence.
pub fn conclusion(sections: &[AcceptanceSection]) -> (RowVerdict, String) {
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
    use super::*;

    fn row(name: &str, verdict: RowVerdict) -> AcceptanceRow {
        AcceptanceRow {
            verdict,
            ..not_tried(name, String::new())
        }
    }

    #[test]
    fn the_native_network_is_named_only_if_every_byte_was_right() {
        use RowVerdict::{NotTried, Right, Wrong};
        let lines = |tcp, native: &[RowVerdict], network: &str| {
            let mut jobs = vec![row("tcp, marks: a", tcp)];
            jobs.extend(native.iter().map(|&it| row("native, compare: b", it)));
            let lines = site_lines(&jobs, network, "an MPI");
            lines.last().cloned().unwrap_or_default()
        };
        assert_eq!(lines(Right, &[Right, Right], "mlx5_0"), "fabric = native");
        assert_eq!(lines(Right, &[Right, Wrong], "mlx5_0"), "fabric = tcp");
        assert_eq!(lines(Right, &[NotTried], "mlx5_0"), "fabric = tcp");
        assert_eq!(lines(Right, &[], "mlx5_0"), "fabric = tcp");
        assert!(lines(Right, &[], "").starts_with('#'));
        assert_eq!(lines(Wrong, &[Right], "mlx5_0"), "");
        assert_eq!(site_lines(&[], "mlx5_0", ""), Vec::<String>::new());
    }

    #[test]
    fn the_conclusion_is_that_of_the_worst_row() {
        let of = |verdicts: &[RowVerdict]| {
            let rows = verdicts.iter().map(|&it| row("a", it)).collect();
            let title = String::new();
            conclusion(&[AcceptanceSection { title, rows }]).1
        };
        use RowVerdict::{NotTried, Noted, Right, Wrong};
        assert!(of(&[Right, Noted]).starts_with("Accepted"));
        assert!(of(&[Right, NotTried]).starts_with("Not complete"));
        assert_eq!(of(&[Wrong, NotTried]), "NOT accepted: 1 row is wrong.");
    }
}
