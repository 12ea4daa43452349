//! Starts the guardians of a job, as mpirun does.
//!
//! They run on this node, or on [several hosts](run_on_several).

use super::forwarded_signals::{Started, pass_signals_on};
use super::node_share::Share;
use super::plan::Plan;
use super::several_hosts::run_on_several;
use crate::Error;
use crate::job_directory::{CKPTD_JOB, directory_of, prepare, remove_left};
use crate::refused_start::refuse;
use std::process::Stdio;

/// Runs a job to its end; returns its exit status.
///
/// # Errors
/// Errors of starting a process.
pub fn run(plan: &Plan) -> Result<i32, Error> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let job = format!("{CKPTD_JOB}{host}-{}@1", std::process::id());
    let share = Share::of(plan, job)?;
    if !plan.hosts.is_empty() {
        return run_on_several(plan, &share, &host);
    }
    if let Err(error) = prepare(&share.job) {
        return match error.is_refusal() {
            true => Ok(refuse(&error)),
            false => Err(error),
        };
    }
    let status = guard(&share);
    // A manager that could not be started, or was killed, has left the directory.
    remove_left(&directory_of(&share.job));
    status
}

fn guard(share: &Share) -> Result<i32, Error> {
    let guardians = share.start(None, Stdio::inherit)?;
    pass_signals_on(Started::new(&guardians)?, |_| {})?;
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // A guardian that was killed has no effect if other processes complete the job.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}
