//! Page with the results of `understudy accept`, which tries understudy at a site.

use crate::document::document;
use maud::{Markup, html};

/// Result of a check or of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowVerdict {
    Right,
    /// Right, with a remark for the administrator.
    Noted,
    NotTried,
    Wrong,
}

impl RowVerdict {
    /// Returns the word that stands for the result on the page and on standard output.
    pub fn word(self) -> &'static str {
        match self {
            RowVerdict::Right => "ok",
            RowVerdict::Noted => "note",
            RowVerdict::NotTried => "not tried",
            RowVerdict::Wrong => "WRONG",
        }
    }
}

/// Check of the site's hardware or software, or a trial job, with its result.
#[derive(Clone, Debug)]
pub struct AcceptanceRow {
    pub name: String,
    pub verdict: RowVerdict,
    pub finding: String,
    /// Action that solves the problem.
    pub remedy: Option<String>,
}

/// Rows with a common title.
#[derive(Clone, Debug)]
pub struct AcceptanceSection {
    pub title: String,
    pub rows: Vec<AcceptanceRow>,
}

/// Results of one run of `understudy accept`.
#[derive(Clone, Debug)]
pub struct Acceptance {
    /// Date, versions and hosts.
    pub subject: String,
    pub conclusion: String,
    pub verdict: RowVerdict,
    pub sections: Vec<AcceptanceSection>,
    /// Lines for the site's settings file; empty if nothing was accepted.
    pub site_lines: Vec<String>,
}

impl Acceptance {
    /// Returns the worst result of the rows.
    pub fn worst(sections: &[AcceptanceSection]) -> RowVerdict {
        let rows = sections.iter().flat_map(|section| &section.rows);
        rows.map(|row| row.verdict)
            .max()
            .unwrap_or(RowVerdict::NotTried)
    }
}

/// Returns the page for an acceptance.
pub fn acceptance_page(acceptance: &Acceptance) -> String {
    let is_well = acceptance.verdict <= RowVerdict::Noted;
    let title = format!("Acceptance of understudy: {}", acceptance.conclusion);
    let body = html! {
        header {
            h1 { "Acceptance of understudy" }
            p.outcome.problem[!is_well] { (acceptance.conclusion) }
            p { (acceptance.subject) }
        }
        main {
            @for section in &acceptance.sections { (rows(section)) }
            @if !acceptance.site_lines.is_empty() {
                section {
                    h2 { "Lines for /etc/understudy.conf" }
                    pre { @for line in &acceptance.site_lines { (line) "\n" } }
                }
            }
        }
        footer { p { "Made by understudy accept " (env!("CARGO_PKG_VERSION")) "." } }
    };
    document(&title, &body)
}

fn rows(section: &AcceptanceSection) -> Markup {
    html! {
        section {
            h2 { (section.title) }
            div.wide {
                table.settings {
                    @for row in &section.rows {
                        tr {
                            td {
                                @let is_wrong = row.verdict == RowVerdict::Wrong;
                                span.died[is_wrong] { (row.verdict.word()) }
                            }
                            td { (row.name) }
                            td {
                                (row.finding)
                                @if let Some(remedy) = &row.remedy { br; "→ " (remedy) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_row_and_its_finding_are_shown() {
        let row = |name: &str, verdict| AcceptanceRow {
            name: name.into(),
            verdict,
            finding: format!("<{name}>"),
            remedy: None,
        };
        let sections = vec![AcceptanceSection {
            title: "Jobs".into(),
            rows: vec![
                row("first", RowVerdict::Right),
                row("second", RowVerdict::Wrong),
            ],
        }];
        let acceptance = Acceptance {
            subject: "today".into(),
            conclusion: "no".into(),
            verdict: Acceptance::worst(&sections),
            sections,
            site_lines: Vec::new(),
        };
        assert_eq!(acceptance.verdict, RowVerdict::Wrong);
        let page = acceptance_page(&acceptance);
        assert!(page.contains("WRONG") && page.contains("&lt;second&gt;"));
        assert!(!page.contains("/etc/understudy.conf"));
        assert_eq!(page.matches("class=\"died\"").count(), 1);
    }
}
