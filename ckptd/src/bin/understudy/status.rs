//! `understudy status`: the jobs of this user on this node.

pub mod find;
mod hang;
mod screen;
mod stack_names;

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
    /// Print where each rank on this node is: its MPI call, or stopped or blocked.
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    hang: bool,
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
        if self.hang {
            print(hang_text(&jobs))?;
        } else if self.json {
            print_json(&jobs)?;
        } else {
            print(text(&jobs, abandoned))?;
        }
        Ok(verdict(true))
    }
}

/// Returns the places of all ranks.
fn hang_text(jobs: &[JobStatus]) -> String {
    let mut out = String::new();
    for job in jobs {
        let is_idle_spare = |number| {
            let mut ranks = job.ranks.iter();
            ranks.any(|rank| rank.rank == number && rank.is_idle)
        };
        let _ = writeln!(out, "{}", job.headline());
        out += &match understudy_launch::activities(&job.job) {
            Ok(activities) => hang::text(&activities, is_idle_spare),
            Err(error) => format!("  its ranks cannot be asked: {error}\n"),
        };
    }
    out
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
