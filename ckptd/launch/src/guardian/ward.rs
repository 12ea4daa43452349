//! A process of the program at its guardian.
//!
//! The guardian keeps all state that outlives the process and the manager.

use super::passed_signals::{self, PassedSignals};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_sockets::Source;
use understudy_wire::io::{Interest, is_ready};
use understudy_wire::line::{
    Call, Ended, Has, Killer, Line, PAGE, REMEMBERED, ToManager, ToProcess,
};

/// Number of registrations that are reported to a new manager.
const CALLS: usize = 2;

/// Registration of a process, or of the next program of its script.
struct Caller {
    call: Call,
    /// Connection to the process; `None` after the process has closed it.
    line: Option<Source<Line>>,
    /// Descriptors for the manager: its end of a connection, the page, and a pidfd.
    of_manager: [OwnedFd; Call::DESCRIPTORS],
}

/// Processes to which the launcher's signals are forwarded.
pub enum To {
    Whoever,
    /// Processes that have resumed the program.
    ///
    /// An earlier process may not have the program's signal handlers yet; it reads the signals from
    /// its page.
    Players,
}

/// Rule for forwarding the launcher's signals to a process.
pub struct Passing {
    pub passed: Arc<PassedSignals>,
    pub to: To,
}

/// A process that a guardian has started.
pub struct Ward {
    pub number: ProcessNumber,
    child: Child,
    pidfd: Source<OwnedFd>,
    is_group: bool,
    passing: Passing,
    callers: Vec<Caller>,
    /// Worker whose replicas are in these files.
    keeps: Option<(Worker, Vec<OwnedFd>)>,
    heir_of: Option<ProcessNumber>,
    /// End of the process, and of its output.
    ending: Option<Ended>,
    closing: Option<Ended>,
    is_forgotten: bool,
}

impl Ward {
    /// Returns the state of a process that has just been started.
    ///
    /// `pidfd` becomes readable at its end; `is_group` if the process leads a process group.
    pub fn new(
        number: ProcessNumber,
        child: Child,
        pidfd: Source<OwnedFd>,
        is_group: bool,
        passing: Passing,
    ) -> Ward {
        Ward {
            number,
            pidfd,
            child,
            is_group,
            passing,
            callers: Vec::new(),
            keeps: None,
            heir_of: None,
            ending: None,
            closing: None,
            is_forgotten: false,
        }
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
    pub fn pass(&self, signal: Signal) {
        let pages = || self.callers.iter().map(|caller| &caller.of_manager[1]);
        for page in pages() {
            let _ = self.passing.passed.tell(page);
        }
        let is_told =
            matches!(self.passing.to, To::Whoever) || pages().any(passed_signals::has_run);
        if is_told || !REMEMBERED.contains(&signal.as_raw()) {
            self.signal(signal);
        }
    }

    /// True if the process that this guardian has started has ended.
    ///
    /// The end may not have been reported yet ([`Ward::look`]).
    pub fn has_ended(&mut self) -> bool {
        self.ending.is_some() || self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Gives a process that registers a connection to the manager.
    ///
    /// Returns the message for the manager, with duplicates of the descriptors.
    ///
    /// # Errors
    /// Errors of the system calls; the process may have ended.
    pub fn called(
        &mut self,
        line: Source<Line>,
        library: String,
    ) -> io::Result<(Call, Vec<OwnedFd>)> {
        let pid = line.peer()?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let page = memfd_create("understudy-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&page, PAGE as u64)?;
        self.passing.passed.tell(&page)?;
        let (its, of_manager) = Line::pair()?;
        line.send_with(&ToProcess::Line, &[its.as_fd()])?;
        let call = Call {
            pid: pid.as_raw_nonzero().get() as u32,
            library,
        };
        let of_manager = [of_manager.into(), page, pidfd];
        let copies = of_manager
            .iter()
            .map(OwnedFd::try_clone)
            .collect::<io::Result<_>>()?;
        if self.callers.len() == CALLS {
            self.callers.remove(0);
        }
        self.callers.push(Caller {
            call: call.clone(),
            line: Some(line),
            of_manager,
        });
        Ok((call, copies))
    }

    /// Receives replica stores that the process has handed over or released.
    pub fn hear(&mut self) {
        for caller in &mut self.callers {
            while let Some(line) = &caller.line {
                match line.receive_with(Duration::ZERO) {
                    Ok(Some((ToManager::Keeps { worker }, files))) => {
                        self.keeps = Some((worker, files))
                    }
                    Ok(Some((ToManager::KeepsNothing, _))) => self.keeps = None,
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => caller.line = None,
                }
            }
        }
    }

    /// Gives the replica store of a dead process to this process.
    pub fn inherit(
        &mut self,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
        files: Vec<OwnedFd>,
    ) {
        // Messages that the process has sent before are older than this store.
        self.hear();
        let borrowed: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        if let Some(caller) = self.callers.last() {
            let line = caller.of_manager[0].as_fd();
            // If the process has died, the next process adopts the files.
            let _ = Line::send_on(line, &ToProcess::Inherit { from, status }, &borrowed);
        }
        (self.keeps, self.heir_of) = (Some((worker, files)), Some(from));
    }

    /// Polls for the end of the process; returns the report for the manager once.
    pub fn look(&mut self) -> Option<Ended> {
        if self.ending.is_some() {
            return None;
        }
        let status = self.child.try_wait().ok().flatten()?;
        // Processes that a killed process has started must not outlive it.
        if self.is_group && status.signal().is_some() {
            self.signal(Signal::KILL);
        }
        self.hear();
        self.ending = Some(self.obituary(status));
        // Without this, the poller would report the end at every wait.
        let _ = self.pidfd.set_interest(Interest::NONE);
        self.ending.clone()
    }

    /// Kills the program's process if it outlives the wrapper that this guardian has started.
    ///
    /// The guardian would not notice the end of that process. Returns false if there is no such
    /// process, or the job has ended.
    pub fn kill_orphan(&self) -> bool {
        let Some(Caller { of_manager, .. }) = self.callers.last() else {
            return false;
        };
        let [_, page, process] = of_manager;
        let lives = matches!(is_ready(process, Interest::READ, Duration::ZERO), Ok(false));
        if !lives || passed_signals::has_ended(page) {
            return false;
        }
        // A process that has changed its user cannot be killed.
        let _ = pidfd_send_signal(process, Signal::KILL);
        true
    }

    fn obituary(&self, status: ExitStatus) -> Ended {
        let number = self.number;
        match status.signal() {
            None => Ended::Exited {
                number,
                status: status.code().unwrap_or_default(),
                pid: self.child.id(),
            },
            Some(signal) => Ended::Killed {
                number,
                signal,
                // A terminal sends SIGINT to all processes.
                by: match self.passing.passed.contains(signal) || signal == libc::SIGINT {
                    true => Killer::Launcher,
                    false => Killer::Unknown,
                },
            },
        }
    }

    /// Records the end of the output.
    pub fn close(&mut self, closing: &Ended) {
        self.closing = Some(closing.clone());
    }

    /// Releases the replica store and marks the process as not needed any more.
    pub fn forget(&mut self) {
        (self.keeps, self.is_forgotten) = (None, true);
    }

    /// True if no state of the process is needed any more.
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten && self.ending.is_some() && self.closing.is_some()
    }

    /// Returns the exit status as a shell reports it.
    ///
    /// A living process has the status of one that was killed by SIGKILL.
    pub fn status(&self) -> i32 {
        match self.ending {
            Some(Ended::Exited { status, .. }) => status,
            Some(Ended::Killed { signal, .. }) => 128 + signal,
            _ => 128 + libc::SIGKILL,
        }
    }

    /// Returns the state that a new manager receives, with its descriptors.
    pub fn has(&mut self) -> (Has, Vec<BorrowedFd<'_>>) {
        self.hear();
        let mut descriptors: Vec<_> = self
            .callers
            .iter()
            .flat_map(|caller| &caller.of_manager)
            .collect();
        let files = self.keeps.iter().flat_map(|(_, files)| files);
        descriptors.extend(files);
        let has = Has {
            number: self.number,
            calls: self
                .callers
                .iter()
                .map(|caller| caller.call.clone())
                .collect(),
            keeps: self.keeps.as_ref().map(|(worker, _)| *worker),
            heir_of: self.heir_of,
            ends: self.ending.iter().chain(&self.closing).cloned().collect(),
        };
        (has, descriptors.into_iter().map(OwnedFd::as_fd).collect())
    }
}
