//! A process of the program at its manager: a connection and a shared page.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use understudy_numbers::Generation;
use understudy_protocol::Known;
use understudy_sockets::{Registry, Source};
use understudy_wire::io::{Interest, is_ready};
use understudy_wire::line::{Call, INTERRUPT, Line, MAIN_THREAD, PAGE, Page, ToManager, ToProcess};

/// A mapping of a process's shared page.
pub struct Shared {
    page: *mut Page,
}

impl Shared {
    fn new(file: &OwnedFd) -> io::Result<Shared> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping of a file of that length.
        let page = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE,
                access,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Shared { page: page.cast() })
    }

    fn page(&self) -> &Page {
        // SAFETY: the page is mapped until `self` is dropped; it is long enough, and its fields are
        // atomic.
        unsafe { &*self.page }
    }

    /// True if the process was in a generation.
    pub fn has_played(&self) -> bool {
        self.page().has_played.load(Ordering::Acquire) != 0
    }

    /// True if the process was notified, or is about to be, that the program ends.
    pub fn has_ended(&self) -> bool {
        self.page().has_ended.load(Ordering::Acquire) != 0
    }

    /// Copies the state that the page has for a new manager.
    pub fn tell(&self, known: &mut Known) {
        let is = |word: &AtomicU32| word.load(Ordering::Acquire) != 0;
        let page = self.page();
        known.generation = Generation(page.generation.load(Ordering::Acquire));
        (known.is_heard, known.has_played) = (true, is(&page.has_played));
        (known.has_part, known.is_protected) = (is(&page.has_run), is(&page.is_protected));
        known.has_ended = self.has_ended();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the address and the length are those of the mapping in `new`.
        let _ = unsafe { munmap(self.page.cast(), PAGE) };
    }
}

/// A process that uses MPI.
pub struct Process {
    /// Connection to the process; `None` after the process has closed it.
    line: Option<Source<Line>>,
    /// Time when the process has closed the connection.
    closed: Option<Instant>,
    /// Last generation for which the process was ready; `None` for a spare.
    ///
    /// A spare is ready for any generation.
    ready: Option<Generation>,
    pid: Pid,
    pidfd: OwnedFd,
    file: OwnedFd,
    shared: Shared,
}

/// Returns the number of processors on which at least one of these processes may run.
///
/// A launcher may have bound each process to its own processor.
pub fn processors(processes: &[&Process]) -> usize {
    let masks: Vec<CpuSet> = processes
        .iter()
        .filter_map(|process| sched_getaffinity(Some(process.pid)).ok())
        .collect();
    let is_used = |processor: &usize| masks.iter().any(|mask| mask.is_set(*processor));
    (0..CpuSet::MAX_CPU).filter(is_used).count()
}

/// A guardian's report of a process that has registered.
#[derive(Debug)]
pub struct Caller {
    pub call: Call,
    files: [OwnedFd; Call::DESCRIPTORS],
}

impl Caller {
    /// Returns `None` if a descriptor is missing.
    pub fn new(call: Call, files: Vec<OwnedFd>) -> Option<Caller> {
        let files = files.try_into().ok()?;
        Some(Caller { call, files })
    }

    /// Returns the call and its descriptors, for forwarding.
    pub fn take_apart(self) -> (Call, Vec<OwnedFd>) {
        (self.call, self.files.into())
    }

    /// Maps the process's page.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn look(&self) -> io::Result<Shared> {
        Shared::new(&self.files[1])
    }

    /// Notifies the process that a new manager has taken over.
    pub fn tell_again(&self) {
        // The death of the process is detected soon.
        let _ = Line::send_on(self.files[0].as_fd(), &ToProcess::Again, &[]);
    }
}

impl Process {
    /// Returns the state of a process that has registered.
    ///
    /// # Errors
    /// Errors of mmap(2) and epoll_ctl(2).
    pub fn new(caller: Caller, registry: &Registry) -> io::Result<Process> {
        let [line, file, pidfd] = caller.files;
        let shared = Shared::new(&file)?;
        // If the process has reported nothing as a rank, another manager has made it one.
        let ready = shared
            .page()
            .ready
            .load(Ordering::Acquire)
            .saturating_sub(1);
        let ready = shared.has_played().then_some(Generation(ready));
        let pid = Pid::from_raw(caller.call.pid as i32);
        Ok(Process {
            line: Some(Source::new(registry, line.into(), Interest::NONE)?),
            closed: None,
            ready,
            pid: pid.ok_or(io::ErrorKind::InvalidData)?,
            pidfd,
            file,
            shared,
        })
    }

    /// Sends the process its page, which contains this generation.
    ///
    /// `workers` is the number of workers that were started on this node.
    ///
    /// # Errors
    /// Errors of the connection; the process may have ended.
    pub fn introduce(&self, workers: u32, generation: Generation) -> io::Result<()> {
        self.tell_generation(generation);
        let page = [self.file.as_fd()];
        self.line.as_ref().map_or(Ok(()), |line| {
            line.send_with(&ToProcess::Page { workers }, &page)
        })
    }

    /// Marks the process as a rank of a generation that begins.
    pub fn note_played(&self, is_protected: bool) {
        let page = self.shared.page();
        page.is_protected
            .store(u32::from(is_protected), Ordering::Release);
        page.has_played.store(1, Ordering::Release);
    }

    /// Counts the death of an idle spare.
    pub fn count_spare_death(&self) {
        self.shared
            .page()
            .spare_deaths
            .fetch_add(1, Ordering::Release);
    }

    /// Marks the program as ended: all workers are in `MPI_Finalize`.
    pub fn note_end(&self) {
        self.shared.page().has_ended.store(1, Ordering::Release);
    }

    /// Enables or disables polling for messages of the process.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2).
    pub fn watch(&mut self, is_heard: bool) -> io::Result<()> {
        let interest = Interest::new(is_heard, false);
        self.line
            .as_mut()
            .map_or(Ok(()), |line| line.set_interest(interest))
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Makes the process a rank of this generation and not a spare any more.
    pub fn takes_part(&mut self, generation: Generation) {
        self.ready = Some(generation);
    }

    /// True if the process was in a generation and is not ready for this one.
    pub fn is_late_for(&self, generation: Generation) -> bool {
        self.ready.is_some_and(|ready| ready < generation)
    }

    /// Returns the time since the process has closed its connection, if it has.
    ///
    /// A process closes the connection only at its end.
    pub fn is_silent_for(&self) -> Option<Duration> {
        self.closed.map(|since| since.elapsed())
    }

    /// Receives the messages of the process, with their files.
    pub fn hear(&mut self) -> Vec<(ToManager, Vec<OwnedFd>)> {
        let mut heard = Vec::new();
        while let Some(line) = &self.line {
            match line.receive_with(Duration::ZERO) {
                Ok(Some(message)) => {
                    if let ((ToManager::Ready { generation }, _), Some(ready)) =
                        (&message, &mut self.ready)
                    {
                        *ready = *generation;
                    }
                    heard.push(message);
                }
                Ok(None) => break,
                Err(_) => (self.line, self.closed) = (None, Some(Instant::now())),
            }
        }
        heard
    }

    /// Sends a message to the process; its death is detected later.
    pub fn tell(&self, message: &ToProcess, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        if let Some(line) = &self.line {
            let _ = line.send_with(message, &descriptors);
        }
    }

    /// Announces a generation in the process's page.
    pub fn tell_generation(&self, generation: Generation) {
        self.shared
            .page()
            .manager
            .store(std::process::id(), Ordering::Release);
        self.shared
            .page()
            .generation
            .store(generation.0, Ordering::Release);
    }

    /// True if a thread of the process is inside the MPI library.
    pub fn is_inside(&self) -> bool {
        self.shared.page().is_inside.load(Ordering::Acquire) != 0
    }

    /// True if the main thread can be interrupted at any place.
    pub fn is_interruptible(&self) -> bool {
        self.shared.page().is_interruptible.load(Ordering::Acquire) != 0
    }

    /// Interrupts the thread that is inside the MPI library, or else the main thread.
    pub fn interrupt(&self) {
        let pid = self.pid.as_raw_nonzero().get();
        let thread = match self.shared.page().is_inside.load(Ordering::Acquire) {
            0 | MAIN_THREAD => pid,
            thread => thread as i32,
        };
        // After the process has ended, another process may have its number.
        if let Ok(false) = is_ready(&self.pidfd, Interest::READ, Duration::ZERO) {
            // SAFETY: tgkill(2) has no memory effects.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, INTERRUPT) };
        }
    }

    pub fn kill(&self) {
        // The process may have ended.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
