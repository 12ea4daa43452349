//! The view of `--watch`.

use super::find::{Finder, JobStatus};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::io;
use std::time::Duration;
use understudy_report::count;

/// Interval of updates.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows the jobs until `q`, Escape or Ctrl-C is pressed, then restores the terminal.
pub fn show() -> io::Result<()> {
    let mut terminal = ratatui::init();
    let mut finder = Finder::default();
    let result = loop {
        let (jobs, _) = finder.jobs();
        if let Err(error) = terminal.draw(|frame| draw(frame, &jobs)) {
            break Err(error);
        }
        match wait_for_quit() {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    result
}

/// Waits at most [`PERIOD`] for a key; returns true if the key ends the display.
fn wait_for_quit() -> io::Result<bool> {
    if !event::poll(PERIOD)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(false);
    };
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

fn draw(frame: &mut Frame, jobs: &[JobStatus]) {
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let [top, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
    frame.render_widget(
        Line::styled(
            format!(
                "{} on this node; q ends",
                count(jobs.len(), "protected job", "protected jobs")
            ),
            bold,
        ),
        top,
    );
    let titles: Vec<_> = jobs
        .iter()
        .map(|job| folded(&job.headline(), rest.width.into()))
        .collect();
    let height = |(job, title): (&JobStatus, &Vec<String>)| job.ranks.len() + title.len() + 2;
    let heights = jobs.iter().zip(&titles).map(height);
    let areas =
        Layout::vertical(heights.map(|height| Constraint::Length(height as u16))).split(rest);
    for ((job, title), area) in jobs.iter().zip(titles).zip(areas.iter()) {
        let lines = Constraint::Length(title.len() as u16);
        let [above, below] = Layout::vertical([lines, Constraint::Min(0)]).areas(*area);
        let title = title.into_iter().map(|line| Line::styled(line, bold));
        frame.render_widget(Paragraph::new(title.collect::<Vec<_>>()), above);
        let row = |cells: [String; 4]| Row::new(cells.map(Cell::from));
        let ranks = job.ranks.iter().map(|rank| {
            row([
                rank.rank.to_string(),
                rank.role_text(),
                rank.pid.to_string(),
                rank.state().to_owned(),
            ])
        });
        let widths = [6, 12, 10, 14].map(Constraint::Length);
        let head = row(["rank", "role", "process", "state"].map(str::to_owned)).style(bold);
        frame.render_widget(Table::new(ranks, widths).header(head), below);
    }
}

/// Breaks a line between words into lines of at most `width` characters.
///
/// A word that is longer has a line of its own.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::find::RankStatus;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use understudy_formats::events::{ProcessNumber, Role, Worker};

    /// A headline longer than the screen is folded, so that its end is visible.
    ///
    /// The end has the number of failures.
    #[test]
    fn a_long_line_is_folded() {
        let text = "job: solver | protected, 1 spare | checkpoint 4 | 2 failures, 2 recoveries";
        let lines = folded(text, 30);
        assert!(lines.iter().all(|line| line.len() <= 30), "{lines:?}");
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn jobs_and_their_ranks_are_on_the_screen() {
        let rank = |rank, lives, is_idle| RankStatus {
            rank: ProcessNumber(rank),
            pid: 100 + rank,
            lives,
            stage: "running",
            is_idle,
            role: (!is_idle).then_some(Role::Worker(Worker(rank))),
        };
        let jobs = [JobStatus {
            job: "prterun-vm-7@1".into(),
            launcher: 7,
            ranks: vec![
                rank(0, true, false),
                rank(1, false, false),
                rank(2, true, true),
            ],
            events: None,
            standing: None,
        }];
        let mut terminal = Terminal::new(TestBackend::new(70, 8)).expect("a screen in memory");
        terminal.draw(|frame| draw(frame, &jobs)).expect("drawn");
        let screen = terminal.backend().to_string();
        for words in [
            "1 protected job on",
            "prterun-vm-7@1",
            "worker 0",
            "101",
            "DEAD",
            "spare",
            "waits",
        ] {
            assert!(screen.contains(words), "no {words}:\n{screen}");
        }
    }
}
