//! The event loop of a node: waiting, and handling what has arrived.

use super::interrupts::{INTERRUPT_PERIOD, SCRIPTS_END};
use super::node::{NodeState, ReplicaStore};
use super::process::Process;
use super::takeover::POLL_INTERVAL;
use crate::messages::Report;
use rustix::process::{PidfdFlags, getpid, pidfd_open, set_parent_process_death_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_numbers::Guardian;
use understudy_pmi::Answer;
use understudy_sockets::{RETRY, Ready, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Hello, Line, ReplaceTarget, ToGuardian, ToManager};

impl NodeState {
    /// Waits for a source of this node's registry, at most for `limit`.
    ///
    /// The wait also ends when the node itself has something to do.
    pub fn wait(&mut self, limit: Option<Duration>) -> Ready {
        let is_led = self.takeover.is_led();
        let mut processes = self.processes.values_mut();
        let is_watched = processes.all(|process| process.watch(is_led).is_ok());
        let own = [
            self.takeover.limit(),
            (!self.returning.is_empty()).then_some(POLL_INTERVAL),
            self.bypass_limit(),
            self.children.deadline(),
            self.silences.limit(),
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
        self.reports.extend(self.silences.poll());
        for message in self.queue.take() {
            self.handle_message(message);
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
                    // The earlier connection of this guardian has failed or will fail: the guardian
                    // counts as dead, although it lives.
                    let status = exit_status::RECOVERY_FAILED;
                    let _ = line.send(&ToGuardian::Leave { status });
                }
                Ok(Some(Hello::Guardian {
                    rank,
                    workers,
                    spares,
                    replenishes,
                    had_manager,
                })) => {
                    self.accept_guardian(rank, &line);
                    // From now on this process ends with its last guardian, and not with its
                    // parent.
                    let _ = set_parent_process_death_signal(None);
                    self.takeover.note(had_manager, workers + spares);
                    (self.workers, self.size) = (workers, workers + spares);
                    self.returning.remove(&rank);
                    self.guardians.insert(rank, line);
                    self.reports.push(Report::GuardianJoined {
                        rank,
                        workers,
                        spares,
                        replenishes,
                        had_manager,
                    });
                }
                Ok(Some(Hello::Replace(target))) => self.request_replacement(target, line),
                Ok(Some(Hello::Process { .. } | Hello::ReadActivities)) | Err(_) => {}
            }
        }
    }

    /// Answers a guardian that joins, and awaits its heartbeats from now on.
    fn accept_guardian(&mut self, rank: Guardian, line: &Line) {
        let own = pidfd_open(getpid(), PidfdFlags::empty());
        let successor = self.successor.as_ref();
        let kept = successor.map_or(&[][..], |it| &it.descriptors);
        let descriptors: Vec<_> = kept.iter().chain(&own).map(OwnedFd::as_fd).collect();
        let joined = ToGuardian::Joined {
            role: self.role,
            pid: std::process::id(),
            duty: successor.map(|it| it.duty.clone()),
        };
        // The death of the guardian is detected soon.
        let _ = line.send_with(&joined, &descriptors);
        if let Err(error) = self.silences.expect(rank, line) {
            log::info!("guardian {rank} is not watched: {error}");
        }
    }

    /// Requests the replacement of processes from the leader, whose answer goes to `line`.
    fn request_replacement(&mut self, target: ReplaceTarget, line: Source<Line>) {
        // The command may have exited.
        let reply = move |answer: Option<Vec<u8>>| {
            let _ = line.send(&answer.unwrap_or_default());
        };
        let (answer, _) = Answer::new(Box::new(reply));
        let id = self.register_request(Vec::new(), answer);
        self.reports
            .push(Report::ReplacementRequested { id, target });
    }

    pub(super) fn receive_from_processes(&mut self) {
        if !self.takeover.is_led() {
            return;
        }
        let (mut resumed, mut board_requests, mut rollbacks) = (None, Vec::new(), Vec::new());
        let mut owner_file = None;
        for (&number, process) in &mut self.processes {
            for (message, files) in process.receive() {
                match message {
                    // The status is set when the process ends, unless its guardian dies as well.
                    ToManager::StoreReplicas { worker } => {
                        let status = libc::SIGKILL;
                        self.stores.insert(
                            number,
                            ReplicaStore {
                                worker,
                                files,
                                status,
                            },
                        );
                    }
                    ToManager::ReleaseReplicas => drop(self.stores.remove(&number)),
                    ToManager::Running { generation } => resumed = Some(generation),
                    ToManager::Spawns {
                        worker,
                        number: spawn_call,
                    } => self.children.expect(number, worker, spawn_call),
                    ToManager::SpawnedCaptured {
                        worker,
                        number: spawn_call,
                    } => self.children.capture(worker, spawn_call),
                    ToManager::SpawnedPermanent {
                        worker,
                        number: spawn_call,
                    } => self.children.make_permanent(worker, spawn_call),
                    ToManager::RolledBack {
                        worker,
                        number: spawn_call,
                    } => rollbacks.push((worker, spawn_call)),
                    ToManager::ReadBoards {
                        id,
                        process,
                        workers,
                    } => {
                        board_requests.push((number, id, process, workers));
                        continue;
                    }
                    ToManager::OwnsDirectory { file } => {
                        owner_file = Some(file);
                        continue;
                    }
                    _ => {}
                }
                self.reports.push(Report::Process { number, message });
            }
        }
        if let Some(file) = owner_file {
            self.rewrite_owner_file(file);
        }
        for (worker, spawn_call) in rollbacks {
            self.rolled_back(worker, spawn_call);
        }
        for (number, id, process, workers) in board_requests {
            self.request_boards((number, id), process, workers);
        }
        if resumed > self.last_resumed {
            (self.last_resumed, self.is_protected) = (resumed, true);
            let guardians = self.guardians.values();
            guardians.for_each(|line| drop(line.send(&ToGuardian::Resumed)));
        }
    }
}
