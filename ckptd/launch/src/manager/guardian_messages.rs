//! Messages between a node and its guardians.

use super::memory_report::report_memory_kill;
use super::node::{NodeState, ReplicaStore};
use super::process::{Process, RegisteredProcess};
use crate::messages::Report;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use understudy_numbers::{Guardian, ProcessNumber, Rank};
use understudy_wire::line::{FromGuardian, Killer, ProcessEnd, ToGuardian};

impl NodeState {
    pub(super) fn receive_from_guardians(&mut self) {
        let (mut received, mut disconnected) = (self.takeover.take_deferred(), Vec::new());
        for (&rank, line) in &self.guardians {
            loop {
                match line.receive_with::<FromGuardian>(Duration::ZERO) {
                    Ok(Some((message, files))) => received.push((rank, message, files)),
                    Ok(None) => break,
                    Err(_) => {
                        disconnected.push(rank);
                        break;
                    }
                }
            }
        }
        for (rank, message, files) in received {
            self.silences.note_message(rank);
            match message {
                FromGuardian::Beat => self.return_beat(rank),
                FromGuardian::Leaves => self.silences.forget(rank),
                FromGuardian::Process(record) => self.add_reported_process(rank, record, files),
                FromGuardian::AllReported => self.reports.push(Report::AllReported { rank }),
                message if !self.takeover.is_led() => self.takeover.defer(rank, message, files),
                FromGuardian::Registered { number, call } => {
                    if let Some(caller) = RegisteredProcess::new(call, files) {
                        self.add_registered_process(number, caller);
                    }
                }
                FromGuardian::Ended(ended) => self.note_end(ended),
                FromGuardian::RequestCheckpoint { signal } => {
                    self.reports.push(Report::CheckpointRequested { signal })
                }
                FromGuardian::Activity { number, activity } => {
                    self.reports.push(Report::Activity { number, activity })
                }
                FromGuardian::Child { id, news } => {
                    self.note_child(id, news, files.into_iter().next())
                }
            }
        }
        for rank in disconnected {
            self.lose_guardian(rank);
        }
        self.end_if_partly_bypassed();
    }

    fn return_beat(&self, rank: Guardian) {
        if let Some(line) = self.guardians.get(&rank) {
            // The death of the guardian is detected soon.
            let _ = line.send(&ToGuardian::Beat);
        }
    }

    pub(super) fn lose_guardian(&mut self, rank: Guardian) {
        self.guardians.remove(&rank);
        self.silences.forget(rank);
        self.lost_guardians.insert(rank);
        self.reports.push(Report::GuardianDied { rank });
        self.lose_children(rank);
    }

    pub(super) fn note_end(&mut self, ended: ProcessEnd) {
        let (message, ended) = self.interpret_end(ended);
        if let Some((number, status)) = ended {
            log::info!("process {number} has ended: {message:?}");
            // Messages that this or another process sent before the end are handled before the end
            // is reported.
            self.receive_from_processes();
            self.processes.remove(&number);
            self.waiting.remove(&number);
            self.early_programs.remove(&number);
            self.ended.insert(number);
            if let Some(left) = self.stores.get_mut(&number) {
                left.status = status;
            }
            if status != 0 {
                self.end_connected_children();
            } else if self.is_ending {
                self.lose(number);
            }
        }
        self.reports.push(Report::Ended(message));
    }

    /// Notifies spawned processes, so that they do not wait for this process any more.
    pub(super) fn lose(&self, number: ProcessNumber) {
        if let (Some(servers), Some(begun)) = (&self.servers, &self.last_generation)
            && let Some(at) = begun.ranks.iter().position(|&process| process == number)
        {
            servers.lose(&begun.name, Rank(at as u32));
        }
    }

    /// Interprets a guardian's report of an end.
    ///
    /// Returns the report for the leader, and the process that has ended with its status as wait(2)
    /// returns it.
    pub(super) fn interpret_end(
        &self,
        message: ProcessEnd,
    ) -> (ProcessEnd, Option<(ProcessNumber, i32)>) {
        let (number, signal, by) = match message {
            ProcessEnd::OutputClosed { .. } => return (message, None),
            ProcessEnd::Exited {
                number,
                status,
                pid,
            } => {
                let rank_pid = self.processes.get(&number).map(Process::pid);
                match status {
                    // A shell has started the rank and exits with the rank's status (POSIX, 2.8.2).
                    129..192 if rank_pid.is_some_and(|rank_pid| rank_pid != pid) => {
                        (number, status - 128, Killer::Unknown)
                    }
                    _ => return (message, Some((number, status << 8))),
                }
            }
            ProcessEnd::Killed { number, signal, by } => (number, signal, by),
        };
        if by == Killer::OutOfMemory {
            report_memory_kill(number);
        }
        // Without understudy a process cannot be replaced: the job ends, as after a signal of the
        // launcher.
        let by = if self.is_bypassed() {
            Killer::Launcher
        } else {
            by
        };
        let killed = ProcessEnd::Killed { number, signal, by };
        (killed, Some((number, signal)))
    }

    /// Orders the guardians of this node to kill a process.
    ///
    /// The order has an effect only at the guardian that has started the process.
    pub(super) fn kill(&self, number: ProcessNumber) {
        let kill = ToGuardian::Kill { number };
        self.guardians
            .values()
            .for_each(|line| drop(line.send(&kill)));
    }

    pub(super) fn send_to_guardian(&mut self, rank: Guardian, message: &ToGuardian) {
        let Some(message) = self.unless_children_run(rank, message) else {
            return;
        };
        match &message {
            ToGuardian::Start { number, .. } => {
                self.processes.remove(number);
                self.ended.remove(number);
                self.homes.insert(*number, rank);
            }
            ToGuardian::Kill { number } => {
                // A script may have started the process; it is then not the child of the guardian.
                if let Some(process) = self.processes.get(number) {
                    process.kill();
                }
            }
            ToGuardian::Leave { .. } => {
                self.is_over = true;
                self.clean_up();
            }
            _ => {}
        }
        if let Some(line) = self.guardians.get(&rank) {
            // The death of the guardian is detected soon.
            let _ = line.send(&message);
        }
    }

    /// Gives a process the replica store of a dead process.
    ///
    /// The process's guardian receives the files, and keeps them from now on.
    pub(super) fn assign_store(&mut self, adopter: ProcessNumber, from: ProcessNumber) {
        let Some(left) = self.stores.remove(&from) else {
            return;
        };
        log::info!(
            "process {} receives the replicas of process {from}",
            adopter
        );
        if let Some(process) = self.processes.get(&adopter) {
            // From now on the process may have a checkpoint: a new manager includes it in the next
            // generation.
            process.mark_as_rank(self.is_protected);
        }
        let (worker, status) = (left.worker, left.status);
        let adopt = ToGuardian::AdoptStore {
            adopter,
            from,
            worker,
            status,
        };
        let files: Vec<_> = left.files.iter().map(OwnedFd::as_fd).collect();
        if let Some(guardian) = self
            .homes
            .get(&adopter)
            .and_then(|rank| self.guardians.get(rank))
        {
            // The death of the guardian is detected soon.
            let _ = guardian.send_with(&adopt, &files);
        }
        self.adoptions.insert(adopter, from);
        let status = libc::SIGKILL;
        self.stores.insert(adopter, ReplicaStore { status, ..left });
    }

    /// Releases the state of ended processes at their guardians.
    pub(super) fn release_state(&mut self, is_unneeded: impl Fn(&ProcessNumber) -> bool) {
        for number in self.ended.extract_if(.., |number| is_unneeded(number)) {
            let home = self.homes.remove(&number);
            let guardian = home.and_then(|rank| self.guardians.get(&rank));
            // A guardian that has died has no state left.
            let _ = guardian.map(|line| line.send(&ToGuardian::ReleaseState { number }));
        }
    }
}
