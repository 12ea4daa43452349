//! `understudy report`: the events of a job as one page for a browser.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use understudy_html::{Facts, report_page};
use understudy_launch::print_message;
use understudy_report::{Job, Report};

/// Make a page for a browser from a job's event files: timeline, checkpoints, recoveries, costs.
///
/// The page is one self-contained file. It follows the reader's choice of light or dark colours,
/// fits a phone, and can be printed.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the page is complete (files torn by a kill are noted)\n  \
    1  an event file is damaged or foreign; the page has what is readable, and says so\n  \
    2  wrong usage\n  \
    3  no page: no event files, none of them usable, or the page cannot be written")]
pub struct Arguments {
    /// Directory with the rank-N.events files.
    dir: PathBuf,
    /// File of the page. By default it is written to standard output, or to DIR/report.html if that
    /// is a terminal.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Mean time between failures for the advice on the interval.
    #[arg(long, value_name = "TIME", value_parser = crate::advise::time, default_value = "24h")]
    mtbf: Duration,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut facts = Facts::default();
        let mut report = Report::observed(Job::load(&self.dir)?, |event| facts.add(event));
        let page = report_page(&report, &facts, self.mtbf);
        report.check_unchanged();
        match self.file(std::io::stdout().is_terminal()) {
            None => print(page)?,
            Some(path) => {
                write(&path, &page)?;
                if self.output.is_none() {
                    print_message(format_args!("the page is {}", path.display()));
                }
            }
        }
        report.problems.iter().for_each(print_message);
        Ok(verdict(report.problems.is_empty()))
    }

    /// Returns the file of the page; `None` for standard output, unless that is a terminal.
    fn file(&self, is_terminal: bool) -> Option<PathBuf> {
        let beside = || is_terminal.then(|| self.dir.join("report.html"));
        self.output.clone().or_else(beside)
    }
}

fn write(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::with_status(
            IMPOSSIBLE,
            format_args!(
                "the page cannot be written to {}: {error}. Name another file with -o.",
                path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_flooded_with_a_page() {
        let arguments = |output: Option<&str>| Arguments {
            dir: "events".into(),
            output: output.map(PathBuf::from),
            mtbf: Duration::from_secs(1),
        };
        assert_eq!(
            arguments(None).file(true),
            Some("events/report.html".into())
        );
        assert_eq!(arguments(None).file(false), None);
        assert_eq!(arguments(Some("page")).file(true), Some("page".into()));
    }
}
