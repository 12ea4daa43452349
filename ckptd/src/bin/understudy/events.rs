//! `understudy events`: the merged event files of a job as text.

use crate::outcome::{Outcome, print_by, print_json, verdict};
use std::path::PathBuf;
use understudy_launch::print_message;
use understudy_report::{Job, Report};

/// Merge the event files of a job: timeline, recoveries, checkpoint statistics.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status:\n  0  the report is complete (files torn by a kill are \
    noted)\n  1  a file is damaged, of a foreign version or of another job; the report has what \
    is readable\n  2  wrong usage\n  3  no report: no such directory, no event files, or none of \
    them usable"
)]
pub struct Arguments {
    /// Directory with the rank-N.events files.
    dir: PathBuf,
    /// Print one JSON object; times are in nanoseconds.
    #[arg(long)]
    json: bool,
    /// Omit the timeline.
    #[arg(long, conflicts_with = "json")]
    summary: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut report = Report::new(Job::load(&self.dir)?);
        if self.json {
            print_json(&report)?;
        } else {
            print_by(|out| report.write(out, !self.summary))?;
        }
        let known = report.problems.len();
        report.check_unchanged();
        // The text contains the problems that were known when it was written.
        let first = if self.json { 0 } else { known };
        report.problems[first..].iter().for_each(print_message);
        Ok(verdict(report.problems.is_empty()))
    }
}
