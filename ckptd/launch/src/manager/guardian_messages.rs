//! What a node hears of its guardians, and has them do.

use super::memory_report::report_memory_kill;
use super::node::{Left, Node};
use super::process::{Caller, Process};
use crate::messages::Report;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use understudy_numbers::{Guardian, ProcessNumber, Rank};
use understudy_wire::line::{Ended, FromGuardian, Killer, ToGuardian};

impl Node {
    pub(super) fn hear_guardians(&mut self) {
        let (mut heard, mut gone) = (self.takeover.take_held(), Vec::new());
        for (&rank, line) in &self.guardians {
            loop {
                match line.receive_with::<FromGuardian>(Duration::ZERO) {
                    Ok(Some((message, files))) => heard.push((rank, message, files)),
                    Ok(None) => break,
                    Err(_) => {
                        gone.push(rank);
                        break;
                    }
                }
            }
        }
        for (rank, message, files) in heard {
            match message {
                FromGuardian::Has(has) => self.learn(rank, has, files),
                FromGuardian::Told => self.reports.push(Report::Told { rank }),
                later if !self.takeover.is_led() => self.takeover.hold(rank, later, files),
                FromGuardian::Called { number, call } => {
                    if let Some(caller) = Caller::new(call, files) {
                        self.take_caller(number, caller);
                    }
                }
                FromGuardian::Ended(ended) => self.note_end(ended),
                FromGuardian::Child { id, news } => {
                    self.note_child(id, news, files.into_iter().next())
                }
            }
        }
        for rank in gone {
            self.lose_guardian(rank);
        }
        self.end_if_partly_bypassed();
    }

    pub(super) fn lose_guardian(&mut self, rank: Guardian) {
        self.guardians.remove(&rank);
        self.reports.push(Report::Gone { rank });
        self.lose_children(rank);
    }

    pub(super) fn note_end(&mut self, ended: Ended) {
        let (message, ended) = self.understood(ended);
        if let Some((number, status)) = ended {
            log::info!("process {number} has ended: {message:?}");
            // What has been said before, by it or others, is older than its end.
            self.hear_processes();
            self.processes.remove(&number);
            self.waiting.remove(&number);
            self.belated.remove(&number);
            self.ended.insert(number);
            if let Some(left) = self.files.get_mut(&number) {
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

    /// What it has spawned does not wait for it any more.
    pub(super) fn lose(&self, number: ProcessNumber) {
        if let (Some(servers), Some(begun)) = (&self.servers, &self.begun)
            && let Some(at) = begun.ranks.iter().position(|&of| of == number)
        {
            servers.lose(&begun.name, Rank(at as u32));
        }
    }

    /// What a guardian means; and which process has ended, with its status as wait(2) tells it.
    pub(super) fn understood(&self, message: Ended) -> (Ended, Option<(ProcessNumber, i32)>) {
        let (number, signal, by) = match message {
            Ended::Closed { .. } => return (message, None),
            Ended::Exited {
                number,
                status,
                pid,
            } => {
                let rank = self.processes.get(&number).map(Process::pid);
                match status {
                    // A shell has started the rank, and tells how that has ended (POSIX, 2.8.2).
                    129..192 if rank.is_some_and(|rank| rank != pid) => {
                        (number, status - 128, Killer::Unknown)
                    }
                    _ => return (message, Some((number, status << 8))),
                }
            }
            Ended::Killed { number, signal, by } => (number, signal, by),
        };
        if by == Killer::Memory {
            report_memory_kill(number);
        }
        // Without the layer a process cannot be replaced.
        let by = if self.is_bypassed() {
            Killer::Launcher
        } else {
            by
        };
        let killed = Ended::Killed { number, signal, by };
        (killed, Some((number, signal)))
    }

    /// Has a process killed by its guardian, whichever that is.
    pub(super) fn kill(&self, number: ProcessNumber) {
        let kill = ToGuardian::Kill { number };
        self.guardians
            .values()
            .for_each(|line| drop(line.send(&kill)));
    }

    pub(super) fn tell_guardian(&mut self, rank: Guardian, message: &ToGuardian) {
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
                // It need not be the process that the guardian has started, but one that a script
                // has.
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
            // One that has gone is found soon.
            let _ = line.send(&message);
        }
    }

    /// Gives a process the files of a dead one, by its guardian, who keeps them from now on.
    pub(super) fn hand_out(&mut self, heir: ProcessNumber, from: ProcessNumber) {
        let Some(left) = self.files.remove(&from) else {
            return;
        };
        log::info!("process {heir} inherits from process {from}");
        if let Some(process) = self.processes.get(&heir) {
            // From now on it knows the job: another manager has it take part in the next
            // generation.
            process.note_played(self.is_protected);
        }
        let (worker, status) = (left.worker, left.status);
        let inherit = ToGuardian::Inherit {
            heir,
            from,
            worker,
            status,
        };
        let files: Vec<_> = left.files.iter().map(OwnedFd::as_fd).collect();
        if let Some(guardian) = self
            .homes
            .get(&heir)
            .and_then(|rank| self.guardians.get(rank))
        {
            // One that has died meanwhile is found soon.
            let _ = guardian.send_with(&inherit, &files);
        }
        self.heirs.insert(heir, from);
        let status = libc::SIGKILL;
        self.files.insert(heir, Left { status, ..left });
    }

    /// What these have left is not needed any more; they have ended.
    pub(super) fn forget(&mut self, is_forgotten: impl Fn(&ProcessNumber) -> bool) {
        for number in self.ended.extract_if(.., |number| is_forgotten(number)) {
            let home = self.homes.remove(&number);
            let guardian = home.and_then(|rank| self.guardians.get(&rank));
            // If it has gone, nothing is left.
            let _ = guardian.map(|line| line.send(&ToGuardian::Forget { number }));
        }
    }
}
