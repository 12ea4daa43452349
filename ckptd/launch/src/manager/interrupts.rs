//! Interruption of processes for a new generation, and end of scripts whose rank has died.

use super::node::NodeState;
use super::process::Process;
use crate::print_message::print_message;
use std::time::{Duration, Instant};
use understudy_catalogue::message;

/// Interval of interrupts for processes that are inside their MPI library.
pub const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);

/// Time after which the main thread of a process outside MPI is interrupted.
const OUTSIDE_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval of interrupts for main threads outside MPI.
const OUTSIDE_PERIOD: Duration = Duration::from_millis(50);

/// Time after which a process that does not leave its MPI library is killed.
const STUCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for a script to end after the process that it has started has died.
pub const SCRIPTS_END: Duration = Duration::from_millis(500);

impl NodeState {
    /// Returns the processes that are not ready for the announced generation.
    pub(super) fn late(&self) -> impl Iterator<Item = &Process> {
        let announced = self.announced.filter(|_| !self.is_ending);
        let is_late = move |process: &&Process| {
            announced.is_some_and(|(generation, _)| process.is_late_for(generation))
        };
        self.processes.values().filter(is_late)
    }

    /// Interrupts late processes inside their MPI library, and after a while outside of it.
    ///
    /// A process that does not leave its MPI library for [`STUCK_TIMEOUT`] is killed.
    pub(super) fn interrupt(&mut self) {
        let Some((_, since)) = self.announced else {
            return;
        };
        let waited = since.elapsed();
        let is_outside_due = waited > OUTSIDE_TIMEOUT
            && self
                .main_threads_interrupted
                .is_none_or(|last| last.elapsed() > OUTSIDE_PERIOD);
        for process in self.late() {
            match process.is_inside() {
                true if waited > STUCK_TIMEOUT => {
                    print_message(message::process_stuck_in_mpi(process.pid()));
                    process.kill();
                }
                true => process.interrupt(),
                false if is_outside_due && process.is_interruptible() => process.interrupt(),
                false => {}
            }
        }
        if is_outside_due {
            self.main_threads_interrupted = Some(Instant::now());
        }
    }

    /// Kills scripts that continue although the process that they have started has died.
    ///
    /// The deaths of script and process count as one death.
    pub(super) fn end_scripts(&mut self) {
        if self.is_ending {
            return;
        }
        let is_over = |process: &Process| {
            process
                .time_since_close()
                .is_some_and(|time| time > SCRIPTS_END)
        };
        for (&number, process) in self
            .processes
            .iter()
            .filter(|(_, process)| is_over(process))
        {
            log::info!(
                "process {number} (pid {}) failed, and the process that has started it is ended",
                process.pid()
            );
            self.kill(number);
        }
        self.processes.retain(|_, process| !is_over(process));
    }
}
