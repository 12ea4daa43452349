//! `understudy`: the user's program around understudy jobs.

use ckptd::report::{Job, Report};
use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The report is there, but a file is damaged or foreign and parts are missing.
const INCOMPLETE: u8 = 1;
/// No report is possible. (2 is for wrong usage.)
const IMPOSSIBLE: u8 = 3;

/// Look into jobs that run under understudy.
#[derive(Parser)]
#[command(name = "understudy", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Merge the event files of a job: timeline, recoveries, checkpoint statistics.
    #[command(after_help = "Exit status:\n  \
        0  the report is complete (files torn by a kill are noted)\n  \
        1  a file is damaged, of a foreign version or of another job; the report has what is readable\n  \
        2  wrong usage\n  \
        3  no report: no such directory, no event files, or none of them usable")]
    Events {
        /// The directory with the rank-N.events files.
        dir: PathBuf,
        /// Print one JSON object; times are in nanoseconds.
        #[arg(long)]
        json: bool,
        /// Leave the timeline out.
        #[arg(long, conflicts_with = "json")]
        summary: bool,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Events { dir, json, summary } => events(&dir, json, summary),
    }
}

fn events(dir: &Path, json: bool, summary: bool) -> ExitCode {
    let report = match Job::load(dir) {
        Ok(job) => Report::new(job),
        Err(error) => return fail(&error.to_string()),
    };
    let text = if json {
        serde_json::to_string_pretty(&report).map(|text| text + "\n")
    } else if summary {
        Ok(report.to_summary())
    } else {
        Ok(report.to_text())
    };
    match text
        .map_err(io::Error::from)
        .and_then(|text| io::stdout().lock().write_all(text.as_bytes()))
    {
        // The reader (a pager, head) has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            return fail(&format!(
                "standard output: {error}. Redirect it to where there is room."
            ));
        }
        Ok(()) => {}
    }
    // The text has them already.
    for problem in report.problems.iter().filter(|_| json) {
        eprintln!("understudy: {problem}");
    }
    if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE)
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("understudy: {message}");
    ExitCode::from(IMPOSSIBLE)
}
