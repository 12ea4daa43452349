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
use understudy_protocol::ProcessHistory;
use understudy_sockets::{Registry, Source};
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::{
    CheckpointRequest, INTERRUPT, Line, MAIN_THREAD, PAGE_BYTES, Registration, SharedPage,
    ToManager, ToProcess,
};

/// A mapping of a process's shared page.
pub struct MappedPage {
    page: *mut SharedPage,
}

impl MappedPage {
    fn new(file: &OwnedFd) -> io::Result<MappedPage> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses affects no memory in use.
        let page = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                access,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(MappedPage { page: page.cast() })
    }

    fn page(&self) -> &SharedPage {
        // SAFETY: the page is mapped until `self` is dropped. The guardian has made its file
        // `PAGE_BYTES` long, and its fields are atomic, so that other processes may change them.
        unsafe { &*self.page }
    }

    /// True if the process may have a checkpoint ([`Process::mark_as_rank`]).
    pub fn was_in_generation(&self) -> bool {
        self.page().has_taken_part.load(Ordering::Acquire) != 0
    }

    /// True if the process was notified, or is about to be, that the program ends.
    pub fn has_ended(&self) -> bool {
        self.page().has_ended.load(Ordering::Acquire) != 0
    }

    /// Copies the state that the page has for a new manager.
    pub fn copy_to(&self, history: &mut ProcessHistory) {
        let is_set = |word: &AtomicU32| word.load(Ordering::Acquire) != 0;
        let page = self.page();
        history.generation = Generation(page.generation.load(Ordering::Acquire));
        (history.has_used_mpi, history.was_in_generation) = (true, is_set(&page.has_taken_part));
        (history.has_resumed, history.is_protected) =
            (is_set(&page.has_run), is_set(&page.is_protected));
        history.has_ended = self.has_ended();
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: the address and the length are those of the mapping in `new`, and no reference
        // outlives `self`.
        let _ = unsafe { munmap(self.page.cast(), PAGE_BYTES) };
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
    shared: MappedPage,
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
pub struct RegisteredProcess {
    pub call: Registration,
    files: [OwnedFd; Registration::DESCRIPTORS],
}

impl RegisteredProcess {
    /// Returns `None` if a descriptor is missing.
    pub fn new(call: Registration, files: Vec<OwnedFd>) -> Option<RegisteredProcess> {
        let files = files.try_into().ok()?;
        Some(RegisteredProcess { call, files })
    }

    /// Returns the registration and its descriptors, for forwarding.
    pub fn into_parts(self) -> (Registration, Vec<OwnedFd>) {
        (self.call, self.files.into())
    }

    /// Maps the process's page.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn map_page(&self) -> io::Result<MappedPage> {
        MappedPage::new(&self.files[1])
    }

    /// Notifies the process that a new manager has taken over.
    pub fn notify_new_manager(&self) {
        // The death of the process is detected soon.
        let _ = Line::send_on(self.files[0].as_fd(), &ToProcess::ManagerReplaced, &[]);
    }
}

impl Process {
    /// Returns the state of a process that has registered.
    ///
    /// # Errors
    /// Errors of mmap(2) and epoll_ctl(2).
    pub fn new(caller: RegisteredProcess, registry: &Registry) -> io::Result<Process> {
        let [line, file, pidfd] = caller.files;
        let shared = MappedPage::new(&file)?;
        // An earlier manager may have made the process a rank; the page contains the last
        // generation for which it was ready.
        let ready = shared
            .page()
            .ready
            .load(Ordering::Acquire)
            .saturating_sub(1);
        let ready = shared.was_in_generation().then_some(Generation(ready));
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
        self.announce_generation(generation);
        let page = [self.file.as_fd()];
        self.line.as_ref().map_or(Ok(()), |line| {
            line.send_with(&ToProcess::Page { workers }, &page)
        })
    }

    /// Marks the process as one that may have a checkpoint.
    ///
    /// Such a process is a rank of a generation that begins, or adopts a replica store.
    pub fn mark_as_rank(&self, is_protected: bool) {
        let page = self.shared.page();
        page.is_protected
            .store(u32::from(is_protected), Ordering::Release);
        page.has_taken_part.store(1, Ordering::Release);
    }

    /// Counts the death of an idle spare.
    pub fn count_spare_death(&self) {
        self.shared
            .page()
            .spare_deaths
            .fetch_add(1, Ordering::Release);
    }

    /// Requests a checkpoint on disk.
    pub fn request_checkpoint(&self, request: CheckpointRequest) {
        self.shared
            .page()
            .checkpoint_request
            .store(request.number(), Ordering::Release);
    }

    /// Orders the process to leave the job at a checkpoint ([`understudy_messages::NodeEnd`]).
    pub fn order_to_leave(&self, order: u32) {
        let page = self.shared.page();
        page.leave_order.store(order, Ordering::Release);
    }

    /// Marks the program as ended: all workers are in `MPI_Finalize`.
    pub fn note_end(&self) {
        self.shared.page().has_ended.store(1, Ordering::Release);
    }

    /// Enables or disables polling for messages of the process.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2).
    pub fn watch(&mut self, is_enabled: bool) -> io::Result<()> {
        let interest = Interest::new(is_enabled, false);
        self.line
            .as_mut()
            .map_or(Ok(()), |line| line.set_interest(interest))
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Makes the process a rank of this generation and not a spare any more.
    pub fn make_rank(&mut self, generation: Generation) {
        self.ready = Some(generation);
    }

    /// True if the process was in a generation and is not ready for `generation`.
    pub fn is_late_for(&self, generation: Generation) -> bool {
        self.ready.is_some_and(|ready| ready < generation)
    }

    /// Returns the time since the process has closed its connection; `None` while it is open.
    ///
    /// A process closes the connection only at its end.
    pub fn time_since_close(&self) -> Option<Duration> {
        self.closed.map(|since| since.elapsed())
    }

    /// Receives the messages of the process, with their files.
    pub fn receive(&mut self) -> Vec<(ToManager, Vec<OwnedFd>)> {
        let mut received = Vec::new();
        while let Some(line) = &self.line {
            match line.receive_with(Duration::ZERO) {
                Ok(Some(message)) => {
                    if let ((ToManager::Ready { generation }, _), Some(ready)) =
                        (&message, &mut self.ready)
                    {
                        *ready = *generation;
                    }
                    received.push(message);
                }
                Ok(None) => break,
                Err(_) => (self.line, self.closed) = (None, Some(Instant::now())),
            }
        }
        received
    }

    /// Sends a message to the process; its death is detected later.
    pub fn send(&self, message: &ToProcess, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        if let Some(line) = &self.line {
            let _ = line.send_with(message, &descriptors);
        }
    }

    /// Announces a generation in the process's page.
    pub fn announce_generation(&self, generation: Generation) {
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
        if let Ok(false) = wait_ready(&self.pidfd, Interest::READ, Duration::ZERO) {
            // SAFETY: tgkill(2) has no memory effects.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, INTERRUPT) };
        }
    }

    pub fn kill(&self) {
        // The process may have ended.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
