//! Starts the guardians of a job, as mpirun would: on this node, or on [`several`].

use super::forward::{Started, pass_signals_on};
use super::guardian::refuse;
use super::place::{self, OWN};
use super::plan::Plan;
use super::share::Share;
use super::{Error, several};
use std::process::Stdio;

/// Runs a job to its end; its exit status.
///
/// # Errors
/// Those of starting a process.
pub fn run(plan: &Plan) -> Result<i32, Error> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let job = format!("{OWN}{host}-{}@1", std::process::id());
    let share = Share::of(plan, job)?;
    if !plan.hosts.is_empty() {
        return several::run(plan, &share, &host);
    }
    if let Err(error) = place::prepare(&share.job) {
        return match error.is_refusal() {
            true => Ok(refuse(&error)),
            false => Err(error),
        };
    }
    let status = guard(&share);
    // A manager that could not be started, or was killed, has left its directory.
    place::remove_left(&place::directory_of(&share.job));
    status
}

fn guard(share: &Share) -> Result<i32, Error> {
    let guardians = share.start(None, Stdio::inherit)?;
    pass_signals_on(Started::new(&guardians)?, |_| {})?;
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // Who was killed is missed by nobody, if others bring the job to its end.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}
