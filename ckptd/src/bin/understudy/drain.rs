//! `understudy drain`: takes a host out of a running job, for maintenance.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use crate::replace::running_job;
use std::io::ErrorKind;
use understudy_launch::{ReplaceTarget, replace};

/// Take a host out of a running job, so that it can be serviced.
///
/// The ranks of the host leave the job at a checkpoint, which is requested now, and are replaced on
/// other hosts: by spares, or by new processes that are started before. No work of them is
/// repeated, and files and output are exact. The command waits until the host has no process of the
/// job any more.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  the host has no process of the job any more\n  \
    2  wrong usage\n  \
    3  the host stays in the job, which continues; a message says why\n\n\
    Example: understudy drain node5")]
pub struct Arguments {
    /// Name of the host, as in `understudy status`; not the first host, which leads the job.
    host: String,
    /// Job, named as by `understudy status`; optional if only one job runs here.
    #[arg(long)]
    job: Option<String>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let job = running_job(self.job)?;
        let host = replace(&job, ReplaceTarget::DrainedHost(self.host.clone()));
        let host = host.map_err(|error| {
            let error = match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    "the job has ended before".to_owned()
                }
                _ => error.to_string(),
            };
            let text = format!("{} is not drained from {job}: {error}", self.host);
            Failure::with_status(IMPOSSIBLE, text)
        })?;
        print(format!("{host} has no process of {job} any more\n"))?;
        Ok(verdict(true))
    }
}
