//! A process of the program at its guardian.
//!
//! The guardian keeps all state that outlives the process and the manager.

use super::passed_signals::{self, PassedSignals};
use crate::fence_tie::{FenceTie, TiedProcesses};
use crate::tied_child::or_end;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_formats::process_segments::remove_segments_of;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_sockets::Source;
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::{
    Killer, Line, PAGE_BYTES, ProcessEnd, ProcessRecord, REPEATED_SIGNALS, Registration, ToManager,
    ToProcess,
};

/// Number of registrations that are reported to a new manager.
const MAX_REGISTRATIONS: usize = 2;

/// Registration of a process, or of the next program of its script.
struct Registered {
    call: Registration,
    /// Connection to the process; `None` after the process has closed it.
    line: Option<Source<Line>>,
    /// Descriptors for the manager: its end of a connection, the page, and a pidfd.
    manager_descriptors: [OwnedFd; Registration::DESCRIPTORS],
}

/// Processes to which the launcher's signals are forwarded.
pub enum SignalTargets {
    All,
    /// Processes that have resumed the program.
    ///
    /// A process that has not resumed the program may lack the program's signal handlers; it reads
    /// the signals from its page.
    Resumed,
}

/// Rule for forwarding the launcher's signals to a process.
pub struct SignalForwarding {
    pub passed: Arc<PassedSignals>,
    pub to: SignalTargets,
}

/// A process that a guardian has started.
pub struct GuardedProcess {
    pub number: ProcessNumber,
    child: Child,
    pidfd: Source<OwnedFd>,
    is_group: bool,
    /// Tie of the process, or of its group, to the fence of the node.
    fence_tie: Option<FenceTie>,
    forwarding: SignalForwarding,
    registrations: Vec<Registered>,
    /// Replica store of the process, and the worker for whose replacement the store is.
    store: Option<(Worker, Vec<OwnedFd>)>,
    adopted_from: Option<ProcessNumber>,
    /// End of the process, once its exit status was collected.
    ending: Option<ProcessEnd>,
    /// End of the process's output, once all writers have closed it.
    closing: Option<ProcessEnd>,
    /// True if the manager does not need the state of the process any more.
    is_forgotten: bool,
}

impl GuardedProcess {
    /// Returns the state of a process that has just been started.
    ///
    /// `pidfd` becomes readable when the process ends; `is_group` is true if the process leads a
    /// process group.
    pub fn new(
        number: ProcessNumber,
        child: Child,
        pidfd: Source<OwnedFd>,
        is_group: bool,
        forwarding: SignalForwarding,
    ) -> GuardedProcess {
        GuardedProcess {
            number,
            pidfd,
            child,
            is_group,
            fence_tie: None,
            forwarding,
            registrations: Vec::new(),
            store: None,
            adopted_from: None,
            ending: None,
            closing: None,
            is_forgotten: false,
        }
    }

    /// Ties the process, or its group, to the fence of the node.
    ///
    /// # Errors
    /// Errors of [`FenceTie::new`]; the process is killed then.
    pub fn tie(&mut self, directory: &Path) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        let processes = match self.is_group {
            true => TiedProcesses::Group(pid),
            false => TiedProcesses::One(pid),
        };
        let tie = FenceTie::new(directory, processes);
        self.fence_tie = or_end(&mut self.child, tie)?;
        Ok(())
    }

    pub fn untie(&mut self) {
        self.fence_tie = None;
    }

    pub fn signal(&self, signal: Signal) {
        // After the exit status was collected, another process may have the number.
        let pid = Pid::from_raw(self.child.id() as i32).filter(|_| self.ending.is_none());
        let _ = pid.map(|pid| match self.is_group {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        });
    }

    /// Forwards a signal that the launcher has sent.
    ///
    /// Writes the times of [`REPEATED_SIGNALS`] to the process's pages. A process that is none of
    /// the [`SignalTargets`] reads these signals there, and is sent other signals only.
    pub fn pass(&self, signal: Signal) {
        let pages = || {
            self.registrations
                .iter()
                .map(|registration| &registration.manager_descriptors[1])
        };
        for page in pages() {
            let _ = self.forwarding.passed.write_to(page);
        }
        let is_target = matches!(self.forwarding.to, SignalTargets::All)
            || pages().any(passed_signals::has_run);
        if is_target || !REPEATED_SIGNALS.contains(&signal.as_raw()) {
            self.signal(signal);
        }
    }

    /// True if the process that this guardian has started has ended.
    ///
    /// The end may not have been reported yet ([`GuardedProcess::poll_end`]).
    pub fn has_ended(&mut self) -> bool {
        self.ending.is_some() || self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Registers a process: gives the process a connection to the manager.
    ///
    /// Returns the message for the manager, with duplicates of the descriptors.
    ///
    /// # Errors
    /// Errors of the system calls; the process may have ended.
    pub fn register(
        &mut self,
        line: Source<Line>,
        library: String,
    ) -> io::Result<(Registration, Vec<OwnedFd>)> {
        let pid = line.peer()?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let page = memfd_create("understudy-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&page, PAGE_BYTES as u64)?;
        self.forwarding.passed.write_to(&page)?;
        let (process_line, manager_descriptors) = Line::pair()?;
        line.send_with(&ToProcess::Connection, &[process_line.as_fd()])?;
        let call = Registration {
            pid: pid.as_raw_nonzero().get() as u32,
            library,
        };
        let manager_descriptors = [manager_descriptors.into(), page, pidfd];
        let copies = manager_descriptors
            .iter()
            .map(OwnedFd::try_clone)
            .collect::<io::Result<_>>()?;
        if self.registrations.len() == MAX_REGISTRATIONS {
            self.registrations.remove(0);
        }
        self.registrations.push(Registered {
            call: call.clone(),
            line: Some(line),
            manager_descriptors,
        });
        Ok((call, copies))
    }

    /// Returns process id and page of the registered process.
    ///
    /// `None` after the end of the process, or if all workers are in `MPI_Finalize`.
    pub fn watchable(&self) -> Option<(u32, &OwnedFd)> {
        let registration = self.registrations.last()?;
        let [_, page, process] = &registration.manager_descriptors;
        let lives = matches!(
            wait_ready(process, Interest::READ, Duration::ZERO),
            Ok(false)
        );
        let is_watchable = lives && self.ending.is_none() && !passed_signals::has_ended(page);
        is_watchable.then_some((registration.call.pid, page))
    }

    /// Receives replica stores that the process has handed over or released.
    pub fn receive(&mut self) {
        for registration in &mut self.registrations {
            while let Some(line) = &registration.line {
                match line.receive_with(Duration::ZERO) {
                    Ok(Some((ToManager::StoreReplicas { worker }, files))) => {
                        self.store = Some((worker, files))
                    }
                    Ok(Some((ToManager::ReleaseReplicas, _))) => self.store = None,
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => registration.line = None,
                }
            }
        }
    }

    /// Gives the replica store of a dead process to this process.
    pub fn adopt_store(
        &mut self,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
        files: Vec<OwnedFd>,
    ) {
        // Messages that the process has sent before are older than this store.
        self.receive();
        let borrowed: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        if let Some(registration) = self.registrations.last() {
            let line = registration.manager_descriptors[0].as_fd();
            // If the process has died, the next process adopts the files.
            let _ = Line::send_on(line, &ToProcess::AdoptStore { from, status }, &borrowed);
        }
        (self.store, self.adopted_from) = (Some((worker, files)), Some(from));
    }

    /// Polls for the end of the process; returns the report for the manager once.
    pub fn poll_end(&mut self) -> Option<ProcessEnd> {
        if self.ending.is_some() {
            return None;
        }
        let status = self.child.try_wait().ok().flatten()?;
        // Processes that a killed process has started must not outlive it.
        if self.is_group && status.signal().is_some() {
            self.signal(Signal::KILL);
        }
        self.receive();
        let registered = self.registrations.iter().map(|it| it.call.pid);
        // The number of an earlier process may belong to another process by now.
        let ended = registered
            .chain([self.child.id()])
            .filter(|pid| !exists(*pid));
        ended.for_each(remove_segments_of);
        self.ending = Some(self.end_report(status));
        // A pidfd that is still polled would be ready at every wait.
        let _ = self.pidfd.set_interest(Interest::NONE);
        self.ending.clone()
    }

    /// Kills the program's process if it outlives the wrapper that this guardian has started.
    ///
    /// The guardian would not notice the end of that process. Returns false if there is no such
    /// process, or the job has ended.
    pub fn kill_orphan(&self) -> bool {
        let Some(Registered {
            manager_descriptors,
            ..
        }) = self.registrations.last()
        else {
            return false;
        };
        let [_, page, process] = manager_descriptors;
        let is_alive = matches!(
            wait_ready(process, Interest::READ, Duration::ZERO),
            Ok(false)
        );
        if !is_alive || passed_signals::has_ended(page) {
            return false;
        }
        // A process that has changed its user cannot be killed.
        let _ = pidfd_send_signal(process, Signal::KILL);
        true
    }

    fn end_report(&self, status: ExitStatus) -> ProcessEnd {
        let number = self.number;
        match status.signal() {
            None => ProcessEnd::Exited {
                number,
                status: status.code().unwrap_or_default(),
                pid: self.child.id(),
            },
            Some(signal) => ProcessEnd::Killed {
                number,
                signal,
                // A terminal sends SIGINT to all processes.
                by: match self.forwarding.passed.contains(signal) || signal == libc::SIGINT {
                    true => Killer::Launcher,
                    false => Killer::Unknown,
                },
            },
        }
    }

    /// Records the end of the output.
    pub fn record_output_end(&mut self, closing: &ProcessEnd) {
        self.closing = Some(closing.clone());
    }

    /// Releases the replica store and marks the process as not needed any more.
    pub fn release(&mut self) {
        (self.store, self.is_forgotten) = (None, true);
    }

    /// True if no state of the process is needed any more.
    pub fn is_released(&self) -> bool {
        self.is_forgotten && self.ending.is_some() && self.closing.is_some()
    }

    /// Returns the exit status, or [`exit_status::RECOVERY_FAILED`] without one.
    ///
    /// A living process has none, nor has a process that a signal has ended: the launcher kills all
    /// processes, too, if a failure cannot be recovered from.
    pub fn status(&self) -> i32 {
        match self.ending {
            Some(ProcessEnd::Exited { status, .. }) => status,
            _ => exit_status::RECOVERY_FAILED,
        }
    }

    /// Returns the state that a new manager receives, with its descriptors.
    pub fn record(&mut self) -> (ProcessRecord, Vec<BorrowedFd<'_>>) {
        self.receive();
        let mut descriptors: Vec<_> = self
            .registrations
            .iter()
            .flat_map(|registration| &registration.manager_descriptors)
            .collect();
        let files = self.store.iter().flat_map(|(_, files)| files);
        descriptors.extend(files);
        let record = ProcessRecord {
            number: self.number,
            registrations: self
                .registrations
                .iter()
                .map(|registration| registration.call.clone())
                .collect(),
            replicas_of: self.store.as_ref().map(|(worker, _)| *worker),
            adopted_from: self.adopted_from,
            ends: self.ending.iter().chain(&self.closing).cloned().collect(),
        };
        (
            record,
            descriptors.into_iter().map(OwnedFd::as_fd).collect(),
        )
    }
}
/// True if a process has this number now.
fn exists(process: u32) -> bool {
    let pid = Pid::from_raw(process as i32);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}
