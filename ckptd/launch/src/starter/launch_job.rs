//! Starts the guardians of a job, as mpirun does.
//!
//! The guardians run on this node, or on [several hosts](run_on_several).

use super::forwarded_signals::{CaughtSignals, StartedGuardians};
use super::node_share::NodeShare;
use super::plan::Plan;
use super::several_hosts::run_on_several;
use crate::Error;
use crate::job_directory::{CKPTD_JOB, directory_of, prepare, remove_left};
use crate::process_context::ProcessContext;
use crate::refused_start::refuse;
use crate::streams::Streams;
use std::process::Stdio;

/// Runs a job to its end, and returns its exit status.
///
/// The processes write to `streams`, which are closed at the end.
///
/// The guardians end with the calling thread, which must therefore live as long as the process.
/// Signals to this process are forwarded to the job, after `notify` was called with their numbers.
///
/// # Errors
/// Errors of starting a process.
pub fn run(
    plan: &Plan,
    streams: Streams,
    notify: impl FnMut(i32) + Send + 'static,
) -> Result<i32, Error> {
    let signals = CaughtSignals::catch()?;
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let job = format!("{CKPTD_JOB}{host}-{}@1", std::process::id());
    let share = NodeShare::of(plan, job)?;
    let context = ProcessContext {
        ckptd: &plan.ckptd,
        environment: &plan.environment,
        streams: &streams,
    };
    if !plan.hosts.is_empty() {
        return run_on_several(plan, context, &share, &host, (signals, notify));
    }
    if let Err(error) = prepare(&share.job) {
        remove_left(&directory_of(&share.job));
        return match error.is_refusal() {
            true => Ok(refuse(&error, &streams)),
            false => Err(error),
        };
    }
    let status = guard(&share, context, signals, notify);
    // A manager that could not be started, or was killed, has left the directory.
    remove_left(&directory_of(&share.job));
    status
}

fn guard(
    share: &NodeShare,
    context: ProcessContext<'_>,
    signals: CaughtSignals,
    notify: impl FnMut(i32) + Send + 'static,
) -> Result<i32, Error> {
    let guardians = share.start(context, Stdio::inherit)?;
    signals.pass_on_to(StartedGuardians::new(&guardians)?, notify)?;
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // A guardian that was killed has no effect if other processes complete the job.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}
