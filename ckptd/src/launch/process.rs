//! A process of a protected job, with its line and its page.
#![allow(unsafe_code)]

use crate::line::{self, LINE, Line};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The signal that takes a process out of its MPI library; understudy-mpi has the same.
const INTERRUPT: i32 = 32;

/// What the process and its manager share; understudy-mpi has the same structure.
#[repr(C)]
struct Page {
    generation: AtomicU32,
    is_inside: AtomicU32,
}

const PAGE: usize = 4096;

/// A mapped page.
struct Shared {
    page: *mut Page,
}

impl Shared {
    fn new(file: &OwnedFd) -> std::io::Result<Shared> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file of that length.
        let page = unsafe { mmap(std::ptr::null_mut(), PAGE, access, MapFlags::SHARED, file, 0) }?;
        Ok(Shared { page: page.cast() })
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as this lives; a page is long enough, and its words are atomic.
        unsafe { &*self.page }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        let _ = unsafe { munmap(self.page.cast(), PAGE) };
    }
}

/// A process of the job.
pub struct Process {
    /// Unique in the job; rises with each process that is started.
    pub number: u32,
    pub child: Child,
    pub line: Line,
    shared: Shared,
    /// The last generation that it was ready for.
    pub ready: Option<u32>,
    /// It has been in a generation that has begun.
    pub has_played: bool,
    pub is_at_end: bool,
}

impl Process {
    /// Starts it, for a generation that has not begun. It does not outlive this one.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn start(mut command: Command, number: u32, generation: u32) -> io::Result<Process> {
        let (own, theirs) = line::pair()?;
        let file = memfd_create("understudy-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, PAGE as u64)?;
        let shared = Shared::new(&file)?;
        shared.page().generation.store(generation, Ordering::Release);
        // The first process reads this one's input; all write where the relays of their output expect a pipe.
        command.stdin(if number == 0 { Stdio::inherit() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(LINE, format!("{},{}", theirs.as_fd().as_raw_fd(), file.as_raw_fd()));
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                for descriptor in [theirs.as_fd(), file.as_fd()] {
                    fcntl_setfd(descriptor, FdFlags::empty())?;
                }
                set_parent_process_death_signal(Some(Signal::KILL))?;
                Ok(())
            });
        }
        Ok(Process {
            number,
            child: command.spawn()?,
            line: own,
            shared,
            ready: None,
            has_played: false,
            is_at_end: false,
        })
    }

    /// Begins to forward what it writes, and counts the bytes of its standard output.
    pub fn pumps(&mut self, written: &Arc<AtomicU64>) -> impl Iterator<Item = JoinHandle<()>> + use<> {
        let out = self.child.stdout.take();
        let out = out.map(|stream| pump(stream, io::stdout(), Arc::clone(written)));
        let errors = self.child.stderr.take();
        let errors = errors.map(|stream| pump(stream, io::stderr(), Arc::default()));
        out.into_iter().chain(errors)
    }

    /// Another generation is to be.
    pub fn tell_generation(&self, generation: u32) {
        self.shared.page().generation.store(generation, Ordering::Release);
    }

    /// Whether it is in its MPI library.
    pub fn is_inside(&self) -> bool {
        self.shared.page().is_inside.load(Ordering::Acquire) != 0
    }

    /// Takes it out of there.
    pub fn interrupt(&self) {
        let pid = self.child.id();
        // SAFETY: tgkill(2) of the main thread of a child that has not been waited for.
        unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, INTERRUPT) };
    }
}

/// Forwards a stream until its end, when all that write to it, relays among them, have closed it; counts the bytes.
fn pump(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    written: Arc<AtomicU64>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            written.fetch_add(length as u64, Ordering::Relaxed);
            // Whoever has closed the other end does not want it.
            let _ = to.write_all(&bytes[..length]).and_then(|()| to.flush());
        }
    })
}
