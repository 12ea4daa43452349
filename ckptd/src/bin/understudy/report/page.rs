//! The page as a whole.

use super::segments::{Row, in_short, rows};
use super::timeline::timeline;
use super::{advice, charts, journals, matrix, story};
use ckptd::events::Kind;
use ckptd::report::{Recovery, Report, time};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::time::Duration;

/// The page for a job.
pub fn page(report: &Report, mtbf: Duration) -> String {
    let (name, more) =
        story::headline(report).unwrap_or_else(|| ("a job".into(), "No process has told of the job.".into()));
    let (rows, points) = (rows(report), charts::points(report));
    let end = report.timeline.last().map_or(1, |event| event.at_ns).max(1);
    let what = format!("what each rank of {name} did, over {}", time(end));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "understudy: " (name) }
                style { (PreEscaped(include_str!("style.css"))) (PreEscaped(include_str!("matrix.css"))) }
            }
            body {
                header {
                    h1 { (name) }
                    p { (more) }
                    p.outcome { (story::outcome(report, &points)) }
                    @for reason in story::refusals(report) { p.problem { "Refused: " (reason) } }
                    @for problem in &report.problems { p.problem { "Not complete: " (problem) } }
                }
                main {
                    (section("Timeline", timeline(&in_short(&rows), 0, end, &what)))
                    (section("Recoveries", story::recoveries(report, |it| zoom(&rows, it))))
                    (section("Checkpoints", charts::checkpoints(&points, end)))
                    (section("Copies", charts::traffic(report)))
                    (section("Communication", matrix::matrix(report)))
                    (section("Journal", journals::journals(report)))
                    (section("Interval", advice::plot(report, &points, mtbf)))
                    (section("Settings", settings(report)))
                }
                footer {
                    @for note in &report.notes { p { "Note: " (note) } }
                    p { "Made by understudy " (env!("CARGO_PKG_VERSION")) " from event files." }
                }
            }
        }
    };
    page.into_string()
}

fn section(title: &str, content: Markup) -> Markup {
    html! { section { h2 { (title) } (content) } }
}

/// A recovery from a little before it to a little after it.
fn zoom(rows: &[Row], it: &Recovery) -> Markup {
    let killed = it.failed.iter().filter_map(|failed| failed.killed_ns).min();
    let Some(begin) = killed.or(it.detected_ns) else {
        return html! {};
    };
    let last = rows
        .iter()
        .flat_map(|row| row.segments.iter().map(|segment| segment.to))
        .max()
        .unwrap_or(begin);
    let end = it.resumed_ns.unwrap_or(last).max(begin + 1000);
    let margin = (end - begin) / 8;
    let what = format!("recovery {}, stage by stage in each rank", it.number);
    timeline(rows, begin.saturating_sub(margin), end + margin, &what)
}

/// Those of the first process.
fn settings(report: &Report) -> Markup {
    let settings = report.timeline.iter().find_map(|event| match &event.kind {
        Kind::Config { settings } => Some(settings.clone()),
        _ => None,
    });
    let rows: Vec<_> = settings
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| vec![name, value])
        .collect();
    super::chart::table("All settings in force", &["setting", "value"], &rows)
}
