//! Processes that are taken out of their MPI library, and scripts that have lost theirs.

use super::node::Node;
use super::process::Process;
use crate::say::say;
use std::time::{Duration, Instant};
use understudy_catalogue::message;

/// How often processes are interrupted that are still in their MPI library.
pub const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);

/// How long a process may be elsewhere before its main thread is called in, and how often that is
/// tried.
const ABSENCE: Duration = Duration::from_millis(200);

const CALL_PERIOD: Duration = Duration::from_millis(50);

/// How long a process may take to leave it.
const DEAFNESS: Duration = Duration::from_secs(30);

/// How long a script may take to end when the process has died that it has started.
pub const SCRIPTS_END: Duration = Duration::from_millis(500);

impl Node {
    /// Who is to be taken out of the MPI library, if in it.
    pub(super) fn late(&self) -> impl Iterator<Item = &Process> {
        let announced = self.announced.filter(|_| !self.is_ending);
        let is_late = move |process: &&Process| {
            announced.is_some_and(|(generation, _)| process.is_late_for(generation))
        };
        self.processes.values().filter(is_late)
    }

    /// Processes leave their MPI library, and after a while also what else they are about.
    pub(super) fn interrupt(&mut self) {
        let Some((_, since)) = self.announced else {
            return;
        };
        let waited = since.elapsed();
        let is_call_due =
            waited > ABSENCE && self.called.is_none_or(|last| last.elapsed() > CALL_PERIOD);
        for process in self.late() {
            match process.is_inside() {
                true if waited > DEAFNESS => {
                    say(message::process_stuck_in_mpi(process.pid()));
                    process.kill();
                }
                true => process.interrupt(),
                false if is_call_due && process.is_interruptible() => process.interrupt(),
                false => {}
            }
        }
        if is_call_due {
            self.called = Some(Instant::now());
        }
    }

    /// A script may go on although the process that it has started has died; that is the death of
    /// both.
    pub(super) fn end_scripts(&mut self) {
        if self.is_ending {
            return;
        }
        let is_over = |process: &Process| {
            process
                .is_silent_for()
                .is_some_and(|time| time > SCRIPTS_END)
        };
        for (&number, process) in self
            .processes
            .iter()
            .filter(|(_, process)| is_over(process))
        {
            log::info!(
                "process {number} (pid {}) has died, and what has started it is ended",
                process.pid()
            );
            self.kill(number);
        }
        self.processes.retain(|_, process| !is_over(process));
    }
}
