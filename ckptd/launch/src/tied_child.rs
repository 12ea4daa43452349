//! Children that do not outlive the process that starts them (prctl(2), PR_SET_PDEATHSIG).
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Makes a command's process receive SIGKILL when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) {
    signal_with_parent(command, Signal::KILL);
}

/// Makes a command's process receive SIGTERM when the thread that starts it ends.
pub fn end_with_parent(command: &mut Command) {
    signal_with_parent(command, Signal::TERM);
}

fn signal_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: the closure makes only system calls, which are allowed between fork and exec.
    unsafe { command.pre_exec(move || tie_to(parent, signal)) };
}

/// Makes the calling process receive this signal when its parent dies.
///
/// Must be called between fork and exec, with the process id of the parent.
///
/// # Errors
/// Errors of prctl(2); ESRCH if the parent has died already, so that no signal would follow.
pub fn tie_to(parent: Pid, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    match getppid() {
        Some(current) if current == parent => Ok(()),
        _ => Err(Errno::SRCH.into()),
    }
}

/// Kills a child that has just been started if it cannot be supervised.
///
/// # Errors
/// Fails with the error because of which the child cannot be supervised.
pub fn or_end<T>(child: &mut Child, supervision: io::Result<T>) -> io::Result<T> {
    if supervision.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    supervision
}

/// Returns a descriptor that becomes readable when a child ends.
///
/// # Errors
/// Errors of pidfd_open(2).
pub fn pidfd_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_another_parent_is_not_started() {
        let other = Pid::from_raw(1);
        let mut command = Command::new("true");
        // SAFETY: the closure makes only system calls, which are allowed between fork and exec.
        unsafe { command.pre_exec(move || tie_to(other.expect("not 0"), Signal::KILL)) };
        assert!(command.status().is_err());
        let mut command = Command::new("true");
        die_with_parent(&mut command);
        assert!(command.status().is_ok_and(|status| status.success()));
    }
}
