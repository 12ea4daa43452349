//! Reports of guardians to a manager that follows a dead manager.

use super::generations::{SEGMENTS, SESSIONS};
use super::node::{NodeState, ReplicaStore};
use super::process::{Process, RegisteredProcess};
use super::servers::remove_generations;
use super::takeover::POLL_INTERVAL;
use crate::messages::Report;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;
use understudy_numbers::Guardian;
use understudy_protocol::ProcessHistory;
use understudy_wire::line::{FromGuardian, Line, LineSocket, ProcessRecord, Registration};

impl NodeState {
    /// Registers a process that was started for an earlier manager.
    pub(super) fn add_reported_process(
        &mut self,
        rank: Guardian,
        record: ProcessRecord,
        files: Vec<OwnedFd>,
    ) {
        let number = record.number;
        let mut files = files.into_iter();
        let mut history = ProcessHistory {
            replicas_of: record.replicas_of,
            adopted_from: record.adopted_from,
            ..ProcessHistory::default()
        };
        self.homes.insert(number, rank);
        for call in record.registrations {
            self.takeover.library = Some(PathBuf::from(&call.library));
            let descriptors = files.by_ref().take(Registration::DESCRIPTORS).collect();
            let Some(caller) = RegisteredProcess::new(call, descriptors) else {
                continue;
            };
            history.has_used_mpi = true;
            caller.notify_new_manager();
            let Ok(page) = caller.map_page() else {
                continue;
            };
            if page.was_in_generation() || page.has_ended() {
                page.copy_to(&mut history);
                self.is_protected |= history.has_resumed || history.is_protected;
                if let Ok(process) = Process::new(caller, self.poller.registry()) {
                    self.processes.insert(number, process);
                }
            } else {
                // The process was not in a generation, so that it can be handled like a new
                // registration.
                let (call, files) = caller.into_parts();
                self.takeover
                    .defer(rank, FromGuardian::Registered { number, call }, files);
            }
        }
        if let Some(worker) = record.replicas_of {
            let (files, status) = (files.collect(), libc::SIGKILL);
            self.stores.insert(
                number,
                ReplicaStore {
                    worker,
                    files,
                    status,
                },
            );
        }
        for ended in record.ends {
            self.takeover
                .defer(rank, FromGuardian::Ended(ended), Vec::new());
        }
        self.reports.push(Report::ProcessReported {
            rank,
            number,
            history,
        });
    }

    /// Reports guardians that are missing for the takeover and have died.
    pub(super) fn poll_absent_guardians(&mut self) {
        let Some(size) = self.takeover.size.filter(|_| !self.takeover.is_led) else {
            return;
        };
        if self
            .takeover
            .last_poll
            .is_some_and(|last| last.elapsed() < POLL_INTERVAL)
        {
            return;
        }
        self.takeover.last_poll = Some(Instant::now());
        for rank in (0..size)
            .map(Guardian)
            .filter(|rank| !self.guardians.contains_key(rank))
        {
            // A guardian without a socket has not started yet.
            let called = Line::connect(&self.directory, LineSocket::Guardian(rank));
            let has_died = called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if has_died && self.takeover.absent.insert(rank) {
                self.reports.push(Report::GuardianDied { rank });
            }
        }
    }

    /// Removes the leftovers of an earlier manager's generations.
    pub(super) fn forget_others(&mut self) {
        if self.takeover.size.take().is_some() {
            self.forget_generations();
        }
    }

    /// Removes the leftovers of generations whose manager has died or whose server hangs.
    pub(super) fn forget_generations(&self) {
        remove_generations(
            &self.directory.join(SESSIONS),
            &self.directory.join(SEGMENTS),
        );
    }
}
