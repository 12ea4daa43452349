//! `ckptd fence`: the keeper of a node's fence.
//!
//! The keeper is started by the node's first manager, and is the only writer of the node's FIFO. A
//! timer of the kernel kills the keeper at a time that the manager sets again and again. With the
//! keeper the fence ends, so that the kernel kills all processes that are
//! [tied](crate::fence_tie::FenceTie) to the fence.
//!
//! The manager and the guardians of the node have the pipe to the keeper, which ends with the last
//! of them.
//!
//! The keeper is a process of its own, because a manager may wait for a file system or for memory
//! and then cannot be killed. The keeper uses neither: its memory is locked, if that is permitted.
#![allow(unsafe_code)]

use crate::Error;
use crate::fence_tie::fence_of;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mm::{MlockAllFlags, mlockall};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::zeroed;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;
use understudy_wire::line::REPEATED_SIGNALS;

/// Length of a message to the keeper: nanoseconds, by CLOCK_BOOTTIME.
pub const MESSAGE_BYTES: usize = 8;
/// Message by which the timer is stopped.
pub const STOP: Duration = Duration::ZERO;

/// Encodes the time at which the kernel kills the keeper.
pub fn encode_deadline(deadline: Duration) -> [u8; MESSAGE_BYTES] {
    (deadline.as_nanos() as u64).to_le_bytes()
}

/// Makes the fence in a job's directory, and keeps it until standard input ends.
///
/// Standard input contains deadlines. A byte on standard output tells that the fence exists.
///
/// # Errors
/// Errors of the timer, the FIFO and the pipes.
pub fn keep_fence(directory: &Path) -> Result<i32, Error> {
    // A batch system or a terminal may send these signals to all processes. Ranks and guardians
    // handle them; the keeper must not end the node.
    for signal in REPEATED_SIGNALS {
        // SAFETY: SIG_IGN is a valid disposition for each of these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let failed = || Error::system("the fence of the node");
    let timer = KillTimer::new().map_err(failed())?;
    let mut input = io::stdin().lock();
    let mut deadline = [0; MESSAGE_BYTES];
    input.read_exact(&mut deadline).map_err(failed())?;
    timer
        .set(Duration::from_nanos(u64::from_le_bytes(deadline)))
        .map_err(failed())?;
    // Without the right, pages of this process may be swapped out, which only delays its death.
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    let _fence = make_fence(directory).map_err(failed())?;
    let mut output = io::stdout();
    output
        .write_all(&[1])
        .and_then(|()| output.flush())
        .map_err(failed())?;
    while input.read_exact(&mut deadline).is_ok() {
        timer
            .set(Duration::from_nanos(u64::from_le_bytes(deadline)))
            .map_err(failed())?;
    }
    Ok(0)
}

/// Removes the fence that an earlier job with this directory may have left.
///
/// # Errors
/// Errors of unlink(2).
pub fn remove_fence(directory: &Path) -> io::Result<()> {
    match std::fs::remove_file(fence_of(directory)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates the FIFO, and returns its only writer.
///
/// The writer is a reader as well, so that the FIFO can be opened without another process
/// (fifo(7)).
fn make_fence(directory: &Path) -> io::Result<File> {
    remove_fence(directory)?;
    let path = fence_of(directory);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    File::options().read(true).write(true).open(path)
}

/// Timer by which the kernel kills this process (timer_create(2)).
struct KillTimer(libc::timer_t);

impl KillTimer {
    fn new() -> io::Result<KillTimer> {
        // SAFETY: zeros are a valid value of the structure.
        let mut event: libc::sigevent = unsafe { zeroed() };
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGKILL);
        let mut timer = null_mut();
        // SAFETY: both structures are valid for the call.
        match unsafe { libc::timer_create(libc::CLOCK_BOOTTIME, &mut event, &mut timer) } {
            0 => Ok(KillTimer(timer)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the absolute time of the kill; [`STOP`] stops the timer.
    fn set(&self, at: Duration) -> io::Result<()> {
        // SAFETY: zeros are a valid value of the structure.
        let mut time: libc::itimerspec = unsafe { zeroed() };
        time.it_value.tv_sec = at.as_secs() as libc::time_t;
        time.it_value.tv_nsec = at.subsec_nanos().into();
        // SAFETY: the timer exists as long as the process, and the structure is valid.
        match unsafe { libc::timer_settime(self.0, libc::TIMER_ABSTIME, &time, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
