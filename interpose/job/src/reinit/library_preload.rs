//! Libraries that the MPI library opens in `MPI_Init`, opened in advance.
//!
//! ld.so never closes some libraries, since they may still be in use. The libraries that MPICH's
//! UCX and Open MPI 4 open are among them, so a reset of the MPI side cannot close these libraries.
//! Libraries that are opened before the snapshot is taken are part of the snapshot. The set of
//! libraries depends on the installation and the machine, so a child process initialises the
//! library alone, and reports which libraries it has opened. One child serves all processes of a
//! job on a node.
#![allow(unsafe_code)]

use super::{components, node_report};
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::{shim, user};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::process_segments::remove_segments_of;
use understudy_mpi::{call, library};

/// Time limit for the child's report.
const LIMIT: Duration = Duration::from_secs(20);

/// Opens the libraries that `MPI_Init` will open, and libc's library for backtraces.
///
/// UCX prints a backtrace when a connection breaks. If the child does not report, the reason is
/// logged, no library of `MPI_Init` is opened, and a later reset of the MPI side may fail. If
/// components are files, the reset would certainly fail, so the process kills itself at once and is
/// replaced.
pub fn open() {
    let began = Instant::now();
    library::backtrace();
    match node_report::get(libraries_of_child) {
        Ok(names) => {
            let count = library::open_ahead(names.lines());
            log::debug!(
                "{count} libraries are opened ahead, after {:?}",
                began.elapsed()
            );
        }
        Err(error) => {
            log::warn!("{}", message::openings_not_observed(error));
            if components::has_component_files() {
                crate::system_calls::kill_self();
            }
        }
    }
}

/// Returns the paths of all libraries of the MPI side after `MPI_Init`.
///
/// The paths are in load order, one per line.
fn libraries_of_child() -> io::Result<String> {
    let (mut reader, writer) = io::pipe()?;
    let scratch = Scratch::new()?;
    // SAFETY: the child uses the library, which is not in use, and exits.
    match unsafe { shim::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => report_libraries(writer, &scratch.0),
        child => {
            drop(writer);
            let names = read_report(&mut reader, LIMIT);
            // SAFETY: the child created above, which has reported everything or is not needed any
            // more.
            unsafe {
                if names.is_err() {
                    libc::kill(child, libc::SIGKILL);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            remove_segments_of(child as u32);
            names
        }
    }
}

/// Directory for temporary files of the child, which Open MPI 5 does not remove.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Scratch> {
        let name = format!("understudy-ahead-{}", std::process::id());
        let directory = understudy_formats::private_directories::in_memory().join(name);
        // A process with an equal number may have been killed.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory)?;
        Ok(Scratch(directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads the child's report, which ends when the child closes its end of the pipe.
fn read_report(reader: &mut io::PipeReader, limit: Duration) -> io::Result<String> {
    let until = Instant::now() + limit;
    let mut bytes = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as i32;
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: poll(2) of one descriptor.
        match unsafe { libc::poll(&mut poll, 1, left) } {
            -1 => match io::Error::last_os_error() {
                // A read without a successful poll could block beyond the limit.
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
            0 => return Err(io::ErrorKind::TimedOut.into()),
            _ => {}
        }
        let mut part = [0; 4096];
        match reader.read(&mut part)? {
            0 if bytes.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => return String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into()),
            length => bytes.extend_from_slice(&part[..length]),
        }
    }
}

fn report_libraries(mut writer: io::PipeWriter, scratch: &Path) -> ! {
    let mut provided = 0;
    // SAFETY: prctl(2); the library is initialised and finalised once, in a world of one process.
    let rc = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        call::disable_abandoning();
        user::discard_library_output();
        components::prepare(scratch);
        let rc =
            real::PMPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), 0, &mut provided);
        if rc == SUCCESS {
            components::open_others();
        }
        let names: Vec<String> = library::modules()
            .into_iter()
            .map(|module| module.name)
            .collect();
        if rc == SUCCESS {
            let _ = writer.write_all(names.join("\n").as_bytes());
            real::PMPI_Finalize();
        }
        rc
    };
    crate::system_calls::exit_now(rc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    fn signals_do_not_suspend_the_time_limit() {
        let (mut reader, writer) = io::pipe().unwrap();
        let is_over = AtomicBool::new(false);
        // SAFETY: a handler without effects; the signals go to this thread, which outlives the
        // scope.
        let own = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            // An interrupted read(2) is restarted, as by most handlers; poll(2) never is.
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            libc::pthread_self()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: see above.
                    unsafe { libc::pthread_kill(own, libc::SIGUSR1) };
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let late = read_report(&mut reader, Duration::from_millis(50));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
        (&writer).write_all(b"libc.so.6").unwrap();
        drop(writer);
        assert_eq!(read_report(&mut reader, LIMIT).unwrap(), "libc.so.6");
    }
}
