//! Starts the guardians of a job, as mpirun would: on this node, or on [`several`].

use super::forward::pass_signals_on;
use super::place::OWN;
use super::plan::Plan;
use super::share::Share;
use super::{Error, several};
use std::process::Stdio;

/// Runs a job to its end; its exit status.
///
/// # Errors
/// Those of starting a process.
pub fn run(plan: &Plan) -> Result<i32, Error> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let job = format!("{OWN}{host}-{}@1", std::process::id());
    let share = Share::of(plan, job)?;
    if !plan.hosts.is_empty() {
        return several::run(plan, &share, &host);
    }
    let guardians = share.start(None, Stdio::inherit)?;
    pass_signals_on(&guardians, |_| {})?;
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // Who was killed is missed by nobody, if others bring the job to its end.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}
