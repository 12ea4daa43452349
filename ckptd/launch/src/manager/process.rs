//! A process of the program, as its manager sees it: a line and a page.
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

/// A mapped page.
pub struct Shared {
    page: *mut Page,
}

impl Shared {
    fn new(file: &OwnedFd) -> io::Result<Shared> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file of that length.
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
        // SAFETY: mapped as long as this lives; a page is long enough, and its words are atomic.
        unsafe { &*self.page }
    }

    /// Whether its process has been in a generation.
    pub fn has_played(&self) -> bool {
        self.page().has_played.load(Ordering::Acquire) != 0
    }

    /// Whether its process has been told that the program is at its end, or is to be.
    pub fn has_ended(&self) -> bool {
        self.page().has_ended.load(Ordering::Acquire) != 0
    }

    /// What a manager is to know of its process that follows another one.
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
        // SAFETY: the mapping of `new`.
        let _ = unsafe { munmap(self.page.cast(), PAGE) };
    }
}

/// A process that uses MPI.
pub struct Process {
    /// `None`: it has closed it.
    line: Option<Source<Line>>,
    /// When it has closed it.
    closed: Option<Instant>,
    /// The last generation that it was ready for; none of a spare, which is for all.
    ready: Option<Generation>,
    pid: Pid,
    pidfd: OwnedFd,
    file: OwnedFd,
    shared: Shared,
}

/// How many processors there are that at least one of these may run on: a launcher may have bound
/// each to its own.
pub fn processors(processes: &[&Process]) -> usize {
    let masks: Vec<CpuSet> = processes
        .iter()
        .filter_map(|process| sched_getaffinity(Some(process.pid)).ok())
        .collect();
    let is_used = |processor: &usize| masks.iter().any(|mask| mask.is_set(*processor));
    (0..CpuSet::MAX_CPU).filter(is_used).count()
}

/// What a guardian has told of a process that has called.
#[derive(Debug)]
pub struct Caller {
    pub call: Call,
    files: [OwnedFd; Call::DESCRIPTORS],
}

impl Caller {
    /// `None` without all descriptors.
    pub fn new(call: Call, files: Vec<OwnedFd>) -> Option<Caller> {
        let files = files.try_into().ok()?;
        Some(Caller { call, files })
    }

    /// What is to be sent on.
    pub fn take_apart(self) -> (Call, Vec<OwnedFd>) {
        (self.call, self.files.into())
    }

    /// Its page.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn look(&self) -> io::Result<Shared> {
        Shared::new(&self.files[1])
    }

    /// Tells it that another manager follows one that has died.
    pub fn tell_again(&self) {
        // One that has died meanwhile is found soon.
        let _ = Line::send_on(self.files[0].as_fd(), &ToProcess::Again, &[]);
    }
}

impl Process {
    /// A process that has called.
    ///
    /// # Errors
    /// Those of mmap(2) and epoll_ctl(2).
    pub fn new(caller: Caller, registry: &Registry) -> io::Result<Process> {
        let [line, file, pidfd] = caller.files;
        let shared = Shared::new(&file)?;
        // If it has not said anything as a rank, another manager has made it one.
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

    /// Gives it its page, for this generation; so many workers were started on this node.
    ///
    /// # Errors
    /// Those of the line; it may have ended.
    pub fn introduce(&self, workers: u32, generation: Generation) -> io::Result<()> {
        self.tell_generation(generation);
        let page = [self.file.as_fd()];
        self.line.as_ref().map_or(Ok(()), |line| {
            line.send_with(&ToProcess::Page { workers }, &page)
        })
    }

    /// It is in a generation that begins.
    pub fn note_played(&self, is_protected: bool) {
        let page = self.shared.page();
        page.is_protected
            .store(u32::from(is_protected), Ordering::Release);
        page.has_played.store(1, Ordering::Release);
    }

    /// An idle spare has died.
    pub fn count_spare_death(&self) {
        self.shared
            .page()
            .spare_deaths
            .fetch_add(1, Ordering::Release);
    }

    /// All workers are at their end.
    pub fn note_end(&self) {
        self.shared.page().has_ended.store(1, Ordering::Release);
    }

    /// Has the poller wait for what the process says, or not.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn watch(&mut self, is_heard: bool) -> io::Result<()> {
        let interest = Interest::new(is_heard, false);
        self.line
            .as_mut()
            .map_or(Ok(()), |line| line.set_interest(interest))
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// It is a rank of this generation, and from now on not a spare.
    pub fn takes_part(&mut self, generation: Generation) {
        self.ready = Some(generation);
    }

    /// It has been in a generation, and is not ready for this one.
    pub fn is_late_for(&self, generation: Generation) -> bool {
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

    /// Tells it something; one that has died meanwhile is found soon.
    pub fn tell(&self, message: &ToProcess, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        if let Some(line) = &self.line {
            let _ = line.send_with(message, &descriptors);
        }
    }

    /// Another generation is to be.
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

    /// Whether it is in its MPI library.
    pub fn is_inside(&self) -> bool {
        self.shared.page().is_inside.load(Ordering::Acquire) != 0
    }

    /// Whether its main thread can be called in wherever it is.
    pub fn is_interruptible(&self) -> bool {
        self.shared.page().is_interruptible.load(Ordering::Acquire) != 0
    }

    /// Takes the thread that is in there out of it, or calls the main thread in.
    pub fn interrupt(&self) {
        let pid = self.pid.as_raw_nonzero().get();
        let thread = match self.shared.page().is_inside.load(Ordering::Acquire) {
            0 | MAIN_THREAD => pid,
            thread => thread as i32,
        };
        // The number of one that has ended may be another's.
        if let Ok(false) = is_ready(&self.pidfd, Interest::READ, Duration::ZERO) {
            // SAFETY: tgkill(2) has no memory effects.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, INTERRUPT) };
        }
    }

    pub fn kill(&self) {
        // It may have ended.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
