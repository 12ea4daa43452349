//! Orders of the leader, and admission of processes.

use super::node::NodeState;
use super::process::{Process, RegisteredProcess};
use crate::messages::{Beginning, Order, Report, ServerOrder};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_messages::{JobOrder, NodeEnd};
use understudy_numbers::{Generation, ProcessNumber};
use understudy_wire::line::{CheckpointRequest, ToProcess};

impl NodeState {
    /// Handles a process that has registered because it uses MPI.
    pub(super) fn add_registered_process(
        &mut self,
        number: ProcessNumber,
        caller: RegisteredProcess,
    ) {
        if self.is_ending {
            self.forget_program();
        } else if self.processes.contains_key(&number) || self.waiting.contains_key(&number) {
            // The earlier process of this number has died, and its script has continued with the
            // next program. The deaths of the process and of the script, which is killed, count as
            // one.
            self.early_programs.insert(number, caller);
            return self.kill(number);
        }
        self.waiting.insert(number, caller);
        self.reports.push(Report::Registered { number });
    }

    /// Releases all state of the previous program of a script.
    pub(super) fn forget_program(&mut self) {
        self.children.begin_program();
        self.processes.clear();
        self.stores.clear();
        self.is_protected = false;
    }

    pub(super) fn admit(&mut self, number: ProcessNumber, generation: Option<Generation>) {
        let (Some(caller), Some(generation)) = (self.waiting.remove(&number), generation) else {
            return;
        };
        self.is_ending = false;
        let library = PathBuf::from(&caller.call.library);
        let workers = self.workers_here();
        let process = Process::new(caller, self.poller.registry());
        match process.and_then(|process| process.introduce(workers, generation).map(|()| process)) {
            Ok(process) => drop(self.processes.insert(number, process)),
            // The process has died meanwhile, and its guardian reports that.
            Err(error) if is_disconnected(&error) => return,
            Err(error) => return self.give_up(message::process_not_connected(error).to_string()),
        }
        self.serve(&library);
    }

    /// Starts the servers of this MPI library, unless servers are running.
    pub(super) fn serve(&mut self, library: &Path) {
        if self.servers.is_none() {
            match self.start_servers(library) {
                Ok(servers) => self.servers = Some(servers),
                Err(error) => self.give_up(error.to_string()),
            }
        }
    }

    /// Executes an order of the leader.
    ///
    /// A new manager does not serve the processes of an earlier one before the leader has decided;
    /// a guardian that does not report to it may be killed before.
    pub fn execute(&mut self, order: Order) {
        match order {
            Order::Job(order) => {
                if !matches!(order, JobOrder::KillGuardian { .. }) {
                    self.takeover.lead();
                }
                self.execute_job_order(order);
            }
            // Servers of an earlier generation may still get answers.
            Order::Servers(order) => self.execute_server_order(order),
        }
    }

    fn execute_job_order(&mut self, order: JobOrder<Beginning>) {
        match order {
            JobOrder::Guardian { rank, message } => self.send_to_guardian(rank, &message),
            JobOrder::Admit { number, generation } => self.admit(number, generation),
            JobOrder::Announce { generation } => {
                if std::mem::take(&mut self.is_ending) {
                    self.forget_program();
                }
                self.announced = Some((generation, Instant::now()));
                self.children.stop_temporary();
                self.processes
                    .values()
                    .for_each(|process| process.announce_generation(generation));
                // The servers of the dead manager have died with it.
                if let Some(library) = self.takeover.take_library() {
                    self.serve(&library);
                }
            }
            JobOrder::CountSpareDeath => {
                self.processes.values().for_each(Process::count_spare_death)
            }
            JobOrder::RequestCheckpoint { signal, time_us } => {
                let request = CheckpointRequest { signal, time_us };
                let processes = self.processes.values();
                processes.for_each(|process| process.request_checkpoint(request));
            }
            JobOrder::RequestPlacementHints { number, failed } => {
                if let Some(process) = self.processes.get(&number) {
                    process.send(&ToProcess::RequestPlacementHints { failed }, &[]);
                }
            }
            JobOrder::AdoptStore { adopter, from } => self.assign_store(adopter, from),
            JobOrder::Begin(beginning) => {
                if let Err(error) = self.begin(beginning) {
                    self.give_up(error.to_string());
                }
            }
            JobOrder::KillGuardian { rank } => self.silences.kill(rank),
            JobOrder::EndNode(NodeEnd::Now) => self.must_end = true,
            JobOrder::EndNode(NodeEnd::AtCheckpoint { order }) => {
                let processes = self.processes.values();
                processes.for_each(|process| process.order_to_leave(order));
            }
            JobOrder::End { is_good } => {
                self.is_ending = true;
                self.children.end(is_good);
                if is_good {
                    // A new manager must find the mark as soon as one process has received `End`.
                    self.processes.values().for_each(Process::note_end);
                    let processes = self.processes.values();
                    processes.for_each(|process| process.send(&ToProcess::End, &[]));
                }
            }
        }
    }

    fn execute_server_order(&mut self, order: ServerOrder) {
        match order {
            ServerOrder::Modex {
                id,
                namespace,
                rank,
            } => self.read_put_data(id, &namespace, rank),
            ServerOrder::Join { id, joining } => {
                if let Err(error) = self.join(id, joining) {
                    self.give_up(error.to_string());
                }
            }
            ServerOrder::RolledBack { worker, number } => self.rolled_back(worker, number),
            ServerOrder::ReadBoards { id, workers } => self.read_boards(id, &workers),
            ServerOrder::Forget { name } => self.forget_namespace(&name),
            ServerOrder::Answer { id, bytes } => {
                // Without bytes the answer is dropped, so that the request fails. After the end of
                // its generation a request is not open any more.
                if let (Some((_, answer)), Some(bytes)) = (self.open_requests.remove(&id), bytes) {
                    answer.give(bytes);
                }
            }
        }
    }
}

/// True if a system call failed because the process or connection is gone.
fn is_disconnected(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ESRCH | libc::EPIPE | libc::ECONNRESET)
    )
}
