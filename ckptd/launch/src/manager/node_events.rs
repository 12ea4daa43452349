//! The event loop of a node: waiting, and handling what has arrived.

use super::interrupts::{INTERRUPT_PERIOD, SCRIPTS_END};
use super::node::{NodeState, ReplicaStore};
use super::process::Process;
use crate::messages::Report;
use rustix::process::set_parent_process_death_signal;
use std::time::Duration;
use understudy_protocol::EXIT_NOT_RECOVERED;
use understudy_sockets::{RETRY, Ready, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Hello, ToGuardian, ToManager};

impl NodeState {
    /// Waits for an event, for a source of this node's registry, or for `limit`.
    pub fn wait(&mut self, limit: Option<Duration>) -> Ready {
        let is_led = self.takeover.is_led();
        let mut processes = self.processes.values_mut();
        let is_watched = processes.all(|process| process.watch(is_led).is_ok());
        let own = [
            self.takeover.limit(),
            self.bypass_limit(),
            self.children.deadline(),
            self.late().next().map(|_| INTERRUPT_PERIOD),
            self.processes
                .values()
                .find_map(Process::time_since_close)
                .map(|_| SCRIPTS_END),
            (!is_watched).then_some(RETRY),
        ];
        let limit = own.into_iter().chain([limit]).flatten().min();
        self.poller.wait(limit).unwrap_or_default()
    }

    /// Handles everything that has arrived.
    pub fn serve_node(&mut self) {
        let caller = self.listener.accept_waiting();
        let registry = self.poller.registry();
        // A connection that cannot be polled is closed; the peer connects again.
        self.callers
            .extend(caller.and_then(|it| Source::new(registry, it, Interest::READ).ok()));
        self.receive_greetings();
        self.receive_from_processes();
        self.receive_from_guardians();
        self.poll_absent_guardians();
        for mail in self.queue.take() {
            self.report_mail(mail);
        }
        self.interrupt();
        self.end_scripts();
        self.end_as_children();
    }

    pub(super) fn receive_greetings(&mut self) {
        for line in std::mem::take(&mut self.callers) {
            match line.receive::<Hello>(Duration::ZERO) {
                Ok(None) => self.callers.push(line),
                Ok(Some(Hello::Guardian { rank, .. }))
                    if self.guardians.contains_key(&rank)
                        || self.lost_guardians.contains(&rank) =>
                {
                    // Only its connection has failed, but it counts as dead.
                    let status = EXIT_NOT_RECOVERED;
                    let _ = line.send(&ToGuardian::Leave { status });
                }
                Ok(Some(Hello::Guardian {
                    rank,
                    workers,
                    spares,
                    replenishes,
                    had_manager: is_again,
                })) => {
                    if self.is_last {
                        let _ = line.send(&ToGuardian::IsLast);
                    }
                    // From now on this process ends with its last guardian, and not with its
                    // parent.
                    let _ = set_parent_process_death_signal(None);
                    self.takeover.note(is_again, workers + spares);
                    self.workers = workers;
                    self.guardians.insert(rank, line);
                    self.reports.push(Report::GuardianJoined {
                        rank,
                        workers,
                        spares,
                        replenishes,
                        had_manager: is_again,
                    });
                }
                Ok(Some(Hello::Process { .. })) | Err(_) => {}
            }
        }
    }

    pub(super) fn receive_from_processes(&mut self) {
        if !self.takeover.is_led() {
            return;
        }
        let (mut goes_on, mut looks, mut went_back) = (None, Vec::new(), Vec::new());
        for (&number, process) in &mut self.processes {
            for (said, files) in process.receive() {
                match said {
                    // The status is set when the process ends, unless its guardian dies as well.
                    ToManager::StoreReplicas { worker } => {
                        let status = libc::SIGKILL;
                        self.files.insert(
                            number,
                            ReplicaStore {
                                worker,
                                files,
                                status,
                            },
                        );
                    }
                    ToManager::ReleaseReplicas => drop(self.files.remove(&number)),
                    ToManager::Running { generation } => goes_on = Some(generation),
                    ToManager::Spawns {
                        worker,
                        number: time,
                    } => self.children.expect(number, worker, time),
                    ToManager::SpawnedCaptured {
                        worker,
                        number: time,
                    } => self.children.capture(worker, time),
                    ToManager::SpawnedPermanent {
                        worker,
                        number: time,
                    } => self.children.make_permanent(worker, time),
                    ToManager::RolledBack {
                        worker,
                        number: time,
                    } => went_back.push((worker, time)),
                    ToManager::ReadBoards {
                        id,
                        process,
                        workers,
                    } => {
                        looks.push((number, id, process, workers));
                        continue;
                    }
                    _ => {}
                }
                self.reports.push(Report::Process {
                    number,
                    message: said,
                });
            }
        }
        for (worker, time) in went_back {
            self.rolled_back(worker, time);
        }
        for (number, id, process, workers) in looks {
            self.want_boards((number, id), process, workers);
        }
        if goes_on > self.last_resumed {
            (self.last_resumed, self.is_protected) = (goes_on, true);
            let guardians = self.guardians.values();
            guardians.for_each(|line| drop(line.send(&ToGuardian::Resumed)));
        }
    }
}
