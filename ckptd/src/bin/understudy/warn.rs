//! `understudy warn`: tells running jobs of this user on this node what is to come.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, tell, verdict};
use crate::status::find;
use ckptd::private;
use ckptd::relay::name_of_directory;
use ckptd::warning::{self, Warning};
use std::time::Duration;

/// Tell running jobs of this user on this node that failures are to come, or have a checkpoint taken.
///
/// A job of several nodes need be told on one of them. It looks once a second, when its program calls MPI; what it was told last
/// holds until it learns otherwise. The time between failures matters with UNDERSTUDY_INTERVAL=auto.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the jobs were told\n  \
    1  a job could not be told; a message says why\n  \
    2  wrong usage\n  \
    3  no such job runs on this node\n\n\
    Examples: understudy warn --checkpoint\n          \
    understudy warn --mtbf 10m prterun-node7-4711@1")]
pub struct Arguments {
    /// Jobs, as `understudy status` names them; all if none is named.
    jobs: Vec<String>,
    /// A failure is expected this often from now on.
    #[arg(long, value_name = "TIME", value_parser = super::advise::time, required_unless_present = "checkpoint")]
    mtbf: Option<Duration>,
    /// A checkpoint is wanted now.
    #[arg(long)]
    checkpoint: bool,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let (jobs, _) = find::jobs();
        let running: Vec<String> = jobs.into_iter().map(|job| job.job).collect();
        let unknown = self.jobs.iter().find(|&job| !running.contains(job));
        if let Some(job) = unknown {
            let why = format!(
                "no job `{job}` of this user runs on this node; `understudy status` lists them"
            );
            return Err(Failure::with_status(IMPOSSIBLE, why));
        }
        let told = if self.jobs.is_empty() {
            running
        } else {
            self.jobs
        };
        if told.is_empty() {
            let why = "no protected job of this user runs on this node";
            return Err(Failure::with_status(IMPOSSIBLE, why));
        }
        let warning = Warning {
            mtbf: self.mtbf,
            checkpoint: self.checkpoint,
        };
        let mut is_well = true;
        for job in told {
            let file = warning::file_in(&private::in_memory().join(name_of_directory(&job)));
            match warning::write(&file, &warning) {
                Ok(()) => print(format!("{job} is told\n"))?,
                Err(error) => {
                    tell(format_args!("{}: {error}", file.display()));
                    is_well = false;
                }
            }
        }
        Ok(verdict(is_well))
    }
}
