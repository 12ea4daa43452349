//! Libraries that the MPI library opens in MPI_Init: they are opened before.
//!
//! ld.so never forgets a library that something may still use, so what MPICH's UCX and Open MPI 4
//! open cannot be closed when the library's side is put back. Opened before the snapshot is taken,
//! it is part of that. Which libraries those are depends on the installation and on the machine: a
//! child initialises the library by itself, and tells.
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

/// How long the child may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Opens what the library will open, and what its libc opens for a backtrace, which UCX prints
/// where a connection ends. Without an answer nothing is opened; a process whose library cannot be
/// put back then says why. Where components are files that is certain, and the process ends at
/// once, to be replaced.
pub fn open() {
    let began = Instant::now();
    library::backtrace();
    match learn() {
        Ok(names) => {
            let count = library::open_ahead(names.lines());
            log::debug!(
                "{count} libraries are opened ahead, after {:?}",
                began.elapsed()
            );
        }
        Err(error) => {
            log::warn!("{}", message::openings_not_observed(error));
            if components::are_files() {
                crate::sys::kill_self();
            }
        }
    }
}

/// The paths of all libraries of the MPI side after MPI_Init, in load order, one a line.
fn learn() -> io::Result<String> {
    let (mut reader, writer) = io::pipe()?;
    let scratch = Scratch::new()?;
    // SAFETY: the child uses the library, which is not in use, and ends.
    match unsafe { shim::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => tell(writer, &scratch.0),
        child => {
            drop(writer);
            let names = read(&mut reader);
            // SAFETY: the child of above, which has told all or is of no use.
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

/// A directory for temporary files of the child, which Open MPI 5 leaves behind.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Scratch> {
        let name = format!("understudy-ahead-{}", std::process::id());
        let directory = understudy_formats::private::in_memory().join(name);
        // A process of the same number may have been killed.
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

/// MPICH (4.2 and later) leaves the memory that it would share with other processes of its world,
/// by the number of its process.
fn remove_segments(child: libc::pid_t) {
    for start in ["mpich_shm", "mpich_vci"] {
        let _ = std::fs::remove_file(format!(
            "{}/{start}_{child:x}_0",
            understudy_formats::private::MEMORY
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

fn tell(mut writer: io::PipeWriter, scratch: &Path) -> ! {
    let mut provided = 0;
    // SAFETY: prctl(2); the library is initialised and ended, once, in a world of one process.
    let rc = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        call::stand_apart();
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
    crate::sys::exit_now(rc)
}
