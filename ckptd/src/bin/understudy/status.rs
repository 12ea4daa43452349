//! `understudy status`: the jobs of this user on this node.

pub mod find;
mod screen;

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, print_json, verdict};
use find::JobStatus;
use std::fmt::Write;
use std::io::IsTerminal;
use understudy_report::count;

/// Show the protected jobs of this user on this node: workers, spares, checkpoints, failures.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the jobs, if there are any, were listed\n  \
    2  wrong usage\n  \
    3  it could not be shown\n\n\
    Ranks on other nodes are known by their event files only, if these are in a shared directory.")]
pub struct Arguments {
    /// Print one JSON array; times are in nanoseconds.
    #[arg(long)]
    json: bool,
    /// Update the display until the key q is pressed.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        if self.watch {
            if !std::io::stdout().is_terminal() {
                return Err(Failure::with_status(
                    IMPOSSIBLE,
                    "--watch needs a terminal. Without it the jobs are listed once.",
                ));
            }
            screen::show()?;
            return Ok(verdict(true));
        }
        let (jobs, abandoned) = find::Finder::default().jobs();
        if self.json {
            print_json(&jobs)?;
        } else {
            print(text(&jobs, abandoned))?;
        }
        Ok(verdict(true))
    }
}

fn text(jobs: &[JobStatus], abandoned: usize) -> String {
    let mut out = String::new();
    for job in jobs {
        let _ = writeln!(out, "{}", job.headline());
        for rank in &job.ranks {
            let _ = writeln!(out, "  {}", rank.line());
        }
    }
    if jobs.is_empty() {
        out += "No protected job of this user runs on this node.\n";
    }
    if abandoned > 0 {
        let _ = writeln!(
            out,
            "{} killed as a whole and left files behind: `understudy clean` removes them.",
            count(abandoned, "job was", "jobs were")
        );
    }
    out
}
