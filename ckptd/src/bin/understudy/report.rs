//! `understudy report`: what happened in a job, as one page for a browser.

mod advice;
mod chart;
mod charts;
mod journals;
mod matrix;
mod page;
mod segments;
mod story;
mod timeline;

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, tell, verdict};
use ckptd::report::{Job, Report};
use std::path::PathBuf;
use std::time::Duration;

/// Make a page for a browser from a job's event files: timeline, checkpoints, recoveries, costs.
///
/// The page is one file that needs nothing else. It follows the reader's choice of light or dark, fits a phone, and can be printed.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the page is complete (files torn by a kill are noted)\n  \
    1  an event file is damaged or foreign; the page has what is readable, and says so\n  \
    2  wrong usage\n  \
    3  no page: no event files, none of them usable, or the page cannot be written")]
pub struct Arguments {
    /// The directory with the rank-N.events files.
    dir: PathBuf,
    /// The page; standard output if none is named.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Mean time between failures that the advice on the interval is for.
    #[arg(long, value_name = "TIME", value_parser = crate::advise::time, default_value = "24h")]
    mtbf: Duration,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let report = Report::new(Job::load(&self.dir)?);
        let page = page::page(&report, self.mtbf);
        match &self.output {
            None => print(page)?,
            Some(path) => std::fs::write(path, page).map_err(|error| {
                Failure::with_status(
                    IMPOSSIBLE,
                    format_args!("{}: {error}. Choose a file that can be written to.", path.display()),
                )
            })?,
        }
        report.problems.iter().for_each(tell);
        Ok(verdict(report.problems.is_empty()))
    }
}
