//! Libraries that the MPI library opens in `MPI_Init`, opened in advance.
//!
//! ld.so never closes a library that may still be used, so libraries that MPICH's UCX and Open MPI
//! 4 open cannot be closed when the MPI side is reset. Libraries that are opened before the
//! snapshot is taken are part of the snapshot. The set of libraries depends on the installation and
//! the machine: a child process initialises the library alone, and reports which libraries it has
//! opened.
#![allow(unsafe_code)]

use super::components;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::{shim, user};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
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
    match libraries_of_child() {
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
            let names = read(&mut reader);
            // SAFETY: the child created above, which has reported everything or is not needed any
            // more.
            unsafe {
                if names.is_err() {
                    libc::kill(child, libc::SIGKILL);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            remove_segments(child);
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

/// Removes shared memory that MPICH (4.2 and later) leaves behind, named by the process number.
///
/// The memory is for other processes of the child's world, which has no other process.
fn remove_segments(child: libc::pid_t) {
    for start in ["mpich_shm", "mpich_vci"] {
        let _ = std::fs::remove_file(format!(
            "{}/{start}_{child:x}_0",
            understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY
        ));
    }
}

fn read(reader: &mut io::PipeReader) -> io::Result<String> {
    let until = Instant::now() + LIMIT;
    let mut bytes = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as i32;
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: poll(2) of one descriptor.
        if unsafe { libc::poll(&mut poll, 1, left) } == 0 {
            return Err(io::ErrorKind::TimedOut.into());
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
