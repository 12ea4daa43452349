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
        let ranks: Vec<Guardian> = match self.takeover.size.filter(|_| !self.takeover.is_led) {
            Some(size) => (0..size).map(Guardian).collect(),
            None => self.returning.iter().copied().collect(),
        };
        if self
            .takeover
            .last_poll
            .is_some_and(|last| last.elapsed() < POLL_INTERVAL)
        {
            return;
        }
        self.takeover.last_poll = Some(Instant::now());
        for rank in ranks {
            if self.guardians.contains_key(&rank) {
                continue;
            }
            let has_died = match self.silences.has_died(rank) {
                Some(has_died) => has_died,
                None => self.seems_dead(rank),
            };
            if has_died && self.takeover.absent.insert(rank) {
                self.returning.remove(&rank);
                // A later report of its silence would make the leader wait for its end.
                self.silences.forget(rank);
                self.reports.push(Report::GuardianDied { rank });
            }
        }
    }

    /// True if the socket of a guardian refuses connections.
    ///
    /// The heartbeats of other guardians are awaited from now on, as a guardian may be stopped.
    fn seems_dead(&mut self, rank: Guardian) -> bool {
        match Line::connect(&self.directory, LineSocket::Guardian(rank)) {
            // A guardian without a socket has not started yet.
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
            Ok(line) => {
                if let Err(error) = self.silences.expect(rank, &line) {
                    log::info!("guardian {rank} is not watched: {error}");
                }
                false
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use understudy_formats::private_directories::{PrivateDirectory, SHARED_MEMORY_DIRECTORY};
    use understudy_pmi::GenerationName;
    use understudy_protocol::GuardianLimits;
    use understudy_wire::line::LineListener;

    /// Returns the file that MPICH chooses for the shared memory of a node's ranks.
    fn mpich_segment(generation: &GenerationName, node: usize) -> PathBuf {
        let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = generation.as_str().bytes().fold(0x811c_9dc5, add);
        PathBuf::from(SHARED_MEMORY_DIRECTORY).join(format!("mpich_shm_{hash:x}_{node}"))
    }

    /// MPICH's memory on the second host of a generation is removed when the server hangs.
    #[test]
    fn memory_on_any_host_of_the_generation_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = PrivateDirectory::open_any(directory.path()).unwrap();
        let listener = LineListener::new(&path, LineSocket::Manager).unwrap();
        let limits = GuardianLimits::new(Duration::from_secs(60));
        let node = NodeState::new(listener, directory.path(), limits).unwrap();
        let job = format!("forgotten-{}", std::process::id());
        let name = GenerationName::new(&job, 3).unwrap();
        let (segment, own) = (
            mpich_segment(&name, 1),
            directory.path().join(SEGMENTS).join(name.as_str()),
        );
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(&segment, "memory").unwrap();
        node.forget_generations();
        let is_left = segment.exists();
        let _ = std::fs::remove_file(segment);
        assert!(!is_left && !own.exists());
    }
}
