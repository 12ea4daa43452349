//! The page of a report.

use crate::document::document;
use crate::facts::{self, Facts};
use crate::segments::{Canvas, draw};
use crate::survival::survival;
use crate::timeline::timeline;
use crate::{advice, charts, clock, journals, story};
use maud::{Markup, html};
use std::time::Duration;
use understudy_report::{Recovery, Report, count, time};
use understudy_settings::SETTINGS;

/// Returns the page for a job.
pub fn report_page(report: &Report, facts: &Facts, mtbf: Duration) -> String {
    let name = facts.name();
    let failed = count(report.outcome.failures, "failure", "failures");
    let title = format!(
        "{name}: {}, {failed}, {} (understudy)",
        facts::ended(report),
        clock::date_and_time(report.began_ns)
    );
    let end = facts.end_ns.max(1);
    let label = format!("what each rank of {name} did, over {}", time(end));
    let mut canvases = vec![Canvas::overview(end)];
    canvases.extend(report.recoveries.iter().map(|it| zoom(it, end)));
    let rows = draw(report, &mut canvases);
    let zoomed = |index: usize, it: &Recovery| {
        if begin(it).is_none() {
            return html! {};
        }
        let label = format!("recovery {}, stage by stage in each rank", it.number);
        timeline(&rows, &canvases[index + 1], &label)
    };
    let body = html! {
        header {
            h1 { (name) }
            p.outcome { (story::outcome(report)) }
            @for reason in story::refusals(report) { p.problem { (reason) } }
            @for problem in &report.problems { p.problem { "Not complete: " (problem) } }
            (facts::facts(report, facts))
            (facts::failures(report, facts))
        }
        main {
            (section("What would not have been survived", survival(report, facts)))
            (section("Timeline", timeline(&rows, &canvases[0], &label)))
            (section("Recoveries", story::recoveries(report, zoomed)))
            (section("Checkpoints", charts::checkpoints(&report.checkpoints.points, end)))
            (section("Replicas", charts::traffic(facts)))
            (section("Set-up log", journals::journals(report, facts)))
            (section("Interval", advice::plot(report, mtbf)))
            (section("Settings", settings(facts)))
        }
        footer {
            @for note in &report.notes { p { "Note: " (note) } }
            p { "Made by understudy " (env!("CARGO_PKG_VERSION")) " from event files." }
        }
    };
    document(&title, &body)
}

fn section(title: &str, content: Markup) -> Markup {
    html! { section { h2 { (title) } (content) } }
}

/// Returns the time of the failure, or of its detection.
fn begin(recovery: &Recovery) -> Option<u64> {
    let killed = recovery
        .failed
        .iter()
        .filter_map(|failed| failed.killed_ns)
        .min();
    killed.or(recovery.failed_ns).or(recovery.detected_ns)
}

/// Returns a canvas for a recovery, with a margin before and after it.
fn zoom(recovery: &Recovery, last: u64) -> Canvas {
    let begin = begin(recovery).unwrap_or(0);
    let end = recovery.resumed_ns.unwrap_or(last).max(begin + 1000);
    let margin = (end - begin) / 8;
    Canvas::new(begin.saturating_sub(margin), end + margin)
}

/// Returns the settings that differ from their defaults, and all settings.
fn settings(facts: &Facts) -> Markup {
    let default = |name: &str| {
        SETTINGS
            .iter()
            .find(|it| it.variable == name)
            .map(|it| it.default)
    };
    let rows = |all: bool| -> Vec<Vec<String>> {
        let given = facts
            .settings
            .iter()
            .filter(|(name, value)| all || default(name) != Some(value.as_str()));
        given
            .map(|(name, value)| vec![name.clone(), value.clone()])
            .collect()
    };
    html! {
        div.wide {
            table.settings {
                caption { "Those that differ from their defaults" }
                thead { tr { th { "setting" } th { "value" } } }
                tbody { @for row in rows(false) { tr { @for cell in row { td { (cell) } } } } }
            }
        }
        (crate::chart::table("All settings in force", &["setting", "value"], &rows(true)))
    }
}
