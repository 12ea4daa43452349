//! Ties by which the kernel kills processes when the fence of their node ends.
//!
//! The fence of a node is a FIFO in the job's directory with one writer, the
//! [keeper](crate::fence_keeper). A tie is a reading end with O_ASYNC: when the last writer is
//! gone, the kernel sends the signal of F_SETSIG, here SIGKILL, to the process or process group of
//! F_SETOWN (fcntl(2), pipe(7)). No process of the job has to run for that, and stopped processes
//! die as well.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Name of the FIFO in the job's directory.
const FENCE: &str = "fence";
/// Command of fcntl(2); the C library's header has it with `_GNU_SOURCE` only.
const F_SETSIG: libc::c_int = 10;

/// Processes that a tie kills.
#[derive(Clone, Copy, Debug)]
pub enum TiedProcesses {
    One(Pid),
    /// A process group, by its leader.
    Group(Pid),
}

/// Tie of a process to the fence of its node.
///
/// The tie ends when the value is dropped.
#[derive(Debug)]
pub struct FenceTie {
    _reader: OwnedFd,
}

/// Returns the path of a node's FIFO.
pub fn fence_of(directory: &Path) -> PathBuf {
    directory.join(FENCE)
}

impl FenceTie {
    /// Ties processes to the fence; `None` if the node has no fence.
    ///
    /// # Errors
    /// Errors of open(2) and fcntl(2); `BrokenPipe` if the fence has ended already.
    pub fn new(directory: &Path, processes: TiedProcesses) -> io::Result<Option<FenceTie>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let reader = match open(fence_of(directory), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let owner = match processes {
            TiedProcesses::One(pid) => pid.as_raw_nonzero().get(),
            TiedProcesses::Group(leader) => -leader.as_raw_nonzero().get(),
        };
        control(&reader, libc::F_SETOWN, owner)?;
        control(&reader, F_SETSIG, libc::SIGKILL)?;
        control(&reader, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK)?;
        // A fence that ends from now on is noticed; an earlier end shows as the end of the file.
        match rustix::io::read(&reader, &mut [0; 1]) {
            Err(Errno::AGAIN) => Ok(Some(FenceTie { _reader: reader })),
            Err(error) => Err(error.into()),
            Ok(_) => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ties this process to the fence; `None` if the node has no fence.
    ///
    /// # Errors
    /// Errors of [`FenceTie::new`].
    pub fn of_this_process(directory: &Path) -> io::Result<Option<FenceTie>> {
        FenceTie::new(directory, TiedProcesses::One(getpid()))
    }
}

fn control(file: &OwnedFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands have an integer as argument, and the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use rustix::process::{Signal, kill_process_group};
    use std::fs::File;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    fn fence(directory: &Path) -> File {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, fence_of(directory), FileType::Fifo, mode, 0).expect("a FIFO");
        let options = File::options()
            .read(true)
            .write(true)
            .open(fence_of(directory));
        options.expect("opened")
    }

    fn group() -> (Child, Pid) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60; true"]).process_group(0);
        let child = command.spawn().expect("a shell");
        let leader = Pid::from_child(&child);
        (child, leader)
    }

    #[test]
    fn a_stopped_group_dies_with_the_fence() {
        let directory = tempfile::tempdir().expect("a directory");
        let writer = fence(directory.path());
        let (mut child, leader) = group();
        let tie = FenceTie::new(directory.path(), TiedProcesses::Group(leader));
        let tie = tie.expect("tied").expect("a fence");
        kill_process_group(leader, Signal::STOP).expect("the group lives");
        assert!(child.try_wait().expect("a child").is_none());
        drop(writer);
        let status = child.wait().expect("a child");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        drop(tie);
        let late = FenceTie::of_this_process(directory.path());
        assert!(late.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
    }

    #[test]
    fn without_a_tie_or_a_fence_nothing_happens() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut child, leader) = group();
        let tie = || FenceTie::new(directory.path(), TiedProcesses::One(leader));
        assert!(tie().expect("no error").is_none());
        let writer = fence(directory.path());
        drop(tie().expect("tied").expect("a fence"));
        drop(writer);
        assert!(child.try_wait().expect("a child").is_none());
        let _ = kill_process_group(leader, Signal::KILL);
        assert!(child.wait().is_ok());
    }
}
