//! Display of a job's progress on standard error.

use clap::ValueEnum;
use parking_lot::Mutex;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use understudy_formats::events::realtime_ns;
use understudy_report::{JobState, Protection};

/// Form in which progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Single line if standard error is a terminal, otherwise plain lines.
    Auto,
    /// Single line that is overwritten.
    Line,
    /// Plain lines.
    Plain,
    /// No display.
    None,
}

/// Minimum time from a plain line to one that reports only a new checkpoint.
const PLAIN_PERIOD: Duration = Duration::from_secs(60);

/// Line at the bottom of a terminal, below the output of the job.
#[derive(Default)]
struct StatusLine {
    text: String,
    is_shown: bool,
    /// True if the last output of the job did not end its line.
    is_output_line_open: bool,
}

impl StatusLine {
    fn hide(&mut self, to: &mut impl Write) {
        if std::mem::take(&mut self.is_shown) {
            let _ = to.write_all(b"\r\x1b[2K");
        }
    }

    fn show(&mut self, to: &mut impl Write) {
        if !self.is_output_line_open && !self.text.is_empty() {
            let _ = to.write_all(self.text.as_bytes());
            self.is_shown = true;
        }
        let _ = to.flush();
    }
}

/// Terminal that the job's output and the line at the bottom share.
#[derive(Clone, Default)]
pub struct Terminal(Arc<Mutex<StatusLine>>);

impl Terminal {
    /// Writes output of the job to `to`, above the line at the bottom.
    pub fn write(&self, to: &mut impl Write, text: &[u8]) -> io::Result<()> {
        let mut status_line = self.0.lock();
        let mut screen = io::stderr().lock();
        status_line.hide(&mut screen);
        let _ = screen.flush();
        let written = to.write_all(text).and_then(|()| to.flush());
        status_line.is_output_line_open = text.last() != Some(&b'\n');
        status_line.show(&mut screen);
        written
    }

    /// Replaces the text of the line at the bottom.
    fn set(&self, text: String) {
        let mut status_line = self.0.lock();
        if status_line.text != text || !status_line.is_shown {
            let mut screen = io::stderr().lock();
            status_line.hide(&mut screen);
            status_line.text = text;
            status_line.show(&mut screen);
        }
    }
}

/// Display of a job's progress.
pub enum ProgressDisplay {
    Line(Terminal),
    Plain(Plain),
    Silent,
}

/// State of the last plain line.
#[derive(Default)]
pub struct Plain {
    last_shown: Option<(Protection, u32)>,
    last_shown_at: Option<Instant>,
    epoch: u64,
}

impl ProgressDisplay {
    pub fn new(how: Progress) -> Self {
        let is_terminal = || {
            io::stderr().is_terminal()
                && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
        };
        match how {
            Progress::Auto if is_terminal() => Self::Line(Terminal::default()),
            Progress::Line => Self::Line(Terminal::default()),
            Progress::Auto | Progress::Plain => Self::Plain(Plain::default()),
            Progress::None => Self::Silent,
        }
    }

    /// Returns the terminal through which output of the job must be written.
    pub fn terminal(&self) -> Option<Terminal> {
        match self {
            Self::Line(terminal) => Some(terminal.clone()),
            _ => None,
        }
    }

    /// Shows the state of the job.
    pub fn show(&mut self, state: &JobState) {
        match self {
            Self::Line(terminal) => terminal.set(truncated(
                &format!("understudy: {}", state.to_line(realtime_ns())),
                width(),
            )),
            Self::Plain(plain) => plain.show(state),
            Self::Silent => {}
        }
    }

    /// Prints the job's exit status and state, in place of the line at the bottom.
    pub fn end(&mut self, state: Option<&JobState>, status: u8) {
        if let Self::Line(terminal) = self {
            terminal.set(String::new());
        }
        if let (Self::Line(_) | Self::Plain(_), Some(state)) = (&self, state) {
            understudy_launch::print_message(state.to_last_line(status));
        }
    }
}

impl Plain {
    /// Prints a line if protection or the number of recoveries has changed.
    ///
    /// A new checkpoint alone is reported at most once a [`PLAIN_PERIOD`].
    fn show(&mut self, state: &JobState) {
        let new = (state.protection.clone(), state.recoveries);
        let epoch = state.checkpoint.map_or(0, |last| last.epoch.0);
        let has_changed = self.last_shown.as_ref() != Some(&new) && new.0 != Protection::Starting;
        let is_due = epoch > self.epoch
            && self
                .last_shown_at
                .is_some_and(|at| at.elapsed() >= PLAIN_PERIOD);
        if has_changed || is_due {
            understudy_launch::print_message(state.to_line(realtime_ns()));
            (self.last_shown, self.last_shown_at, self.epoch) =
                (Some(new), Some(Instant::now()), epoch);
        }
    }
}

/// Returns the width of the terminal in columns.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(80, |size| usize::from(size.ws_col)).max(20)
}

/// Shortens a text so that the last column of the terminal stays free.
fn truncated(text: &str, width: usize) -> String {
    text.chars().take(width - 1).collect()
}
