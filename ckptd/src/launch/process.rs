//! A process of the program, as its manager sees it: a line and a page.
#![allow(unsafe_code)]

use crate::line::{INTERRUPT, Line, PAGE, Page, ToManager, ToProcess};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A mapped page.
struct Shared {
    page: *mut Page,
}

impl Shared {
    fn new(file: &OwnedFd) -> io::Result<Shared> {
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

/// A process that uses MPI.
pub struct Process {
    /// `None`: it has closed it.
    line: Option<Line>,
    /// When it has closed it.
    closed: Option<Instant>,
    /// The last generation that it was ready for.
    ready: Option<u32>,
    pid: Pid,
    pidfd: OwnedFd,
    file: OwnedFd,
    shared: Shared,
}

impl Process {
    /// The process at the other end of a line, with a page for it.
    ///
    /// # Errors
    /// Those of the system calls; it may have ended.
    pub fn new(line: Line, generation: u32) -> io::Result<Process> {
        let pid = socket_peercred(&line)?.pid;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let file = memfd_create("understudy-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, PAGE as u64)?;
        let shared = Shared::new(&file)?;
        shared.page().generation.store(generation, Ordering::Release);
        Ok(Process {
            line: Some(line),
            closed: None,
            ready: None,
            pid,
            pidfd,
            file,
            shared,
        })
    }

    /// Gives it its page.
    ///
    /// # Errors
    /// Those of the line.
    pub fn introduce(&self) -> io::Result<()> {
        let page = [self.file.as_fd()];
        self.line
            .as_ref()
            .map_or(Ok(()), |line| line.send_with(&ToProcess::Page, &page))
    }

    /// Its line, as long as that is open.
    pub fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// It has been ready for a generation, and is not for this one.
    pub fn is_late_for(&self, generation: u32) -> bool {
        self.ready.is_some_and(|ready| ready < generation)
    }

    /// How long ago it has closed its line; not before it ends.
    pub fn is_silent_for(&self) -> Option<Duration> {
        self.closed.map(|since| since.elapsed())
    }

    /// What it has said since, with the files that came with that.
    pub fn hear(&mut self) -> Vec<(ToManager, Vec<OwnedFd>)> {
        let mut heard = Vec::new();
        while let Some(line) = &self.line {
            match line.receive_with(Duration::ZERO) {
                Ok(Some(message)) => {
                    if let (ToManager::Ready { generation }, _) = message {
                        self.ready = Some(generation);
                    }
                    heard.push(message);
                }
                Ok(None) => break,
                Err(_) => (self.line, self.closed) = (None, Some(Instant::now())),
            }
        }
        heard
    }

    /// Tells it something; one that has died meanwhile is found soon.
    pub fn tell(&self, message: &ToProcess, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        if let Some(line) = &self.line {
            let _ = line.send_with(message, &descriptors);
        }
    }

    /// Another generation is to be.
    pub fn tell_generation(&self, generation: u32) {
        self.shared.page().generation.store(generation, Ordering::Release);
    }

    /// Whether it is in its MPI library.
    pub fn is_inside(&self) -> bool {
        self.shared.page().is_inside.load(Ordering::Acquire) != 0
    }

    /// Takes its main thread out of there.
    pub fn interrupt(&self) {
        let pid = self.pid.as_raw_nonzero().get();
        let mut polls = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // The number of one that has ended may be another's.
        if let Ok(0) = poll(&mut polls, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            // SAFETY: tgkill(2) has no memory effects.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, INTERRUPT) };
        }
    }

    pub fn kill(&self) {
        // It may have ended.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
