//! The leader of a job: drives the state machine that decides.
//!
//! Reports of nodes become events, and actions become orders to nodes.

mod drain_request;
mod drains;
mod hangs;
#[cfg(test)]
mod job_leader_tests;
mod nodes;

use self::drain_request::DrainRequest;
use super::exchange::Exchange;
use super::process_events::{event_of_end, is_for_job};
use crate::messages::{Beginning, Order, Report, ServerOrder, SpawnedNamespace};
use crate::print_message::print_message;
use crate::request_signals::{RequestSignals, SignalMeaning};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_catalogue::exit_status;
use understudy_formats::events::realtime_ns;
use understudy_pmi::GenerationName;
use understudy_protocol::{
    Action, BegunGeneration, Event, GenerationStart, Guardian, GuardianWatch, HangLimits,
    JOIN_TIMEOUT, Job, JobOrder, JobWatch, Node, ProcessNumber, Worker,
};
use understudy_settings::{CheckpointCause, Config, Interval, Scheme};
use understudy_wire::line::{ToGuardian, ToManager};
use xxhash_rust::xxh3::xxh3_64;

/// Number of the leader's own node.
pub const OWN_NODE: u32 = 0;
/// Limit of dead processes in a request for placement hints, which must fit a message.
const MAX_NAMED_FAILURES: usize = 1000;

pub struct JobLeader {
    /// State machine; `None` until the first guardian has reported the job's size.
    job: Option<Job>,
    began: Instant,
    /// Silence after which a guardian is killed.
    node_timeout: Duration,
    /// Kind of protection, if the user has set one.
    copies: Option<Scheme>,
    /// The name of each node's host.
    hosts: BTreeMap<u32, String>,
    /// File of UNDERSTUDY_DOMAIN.
    file_of_domains: Option<PathBuf>,
    /// Names of the failure domains of nodes with guardians; a domain's number is its index.
    domains: Vec<String>,
    /// Nodes whose failure domain was looked up.
    looked_up: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    /// Node of each living guardian.
    guardians: BTreeMap<Guardian, u32>,
    /// Node of each guardian that reports again because a manager was replaced.
    awaited: BTreeMap<Guardian, u32>,
    /// Node of each process.
    processes: BTreeMap<ProcessNumber, u32>,
    /// Workers that have spawned processes, with the nodes of these processes.
    spawned: BTreeSet<(Worker, u32)>,
    /// Exit status of a failed spawned process; 0 if no spawned process has failed.
    spawned_status: i32,
    exchange: Exchange,
    /// Signals that have requested checkpoints.
    requests: RequestSignals,
    /// Request for a checkpoint that was not sent yet.
    late_request: Option<JobOrder<BegunGeneration>>,
    /// Watch for hangs; `None` if hangs are not reported.
    hangs: Option<JobWatch>,
    /// Guardians that do not answer their managers.
    silent_guardians: GuardianWatch,
    /// Request to drain a host, until the host has no process of the job.
    drain: Option<DrainRequest>,
    /// True if no checkpoints are taken.
    takes_no_checkpoints: bool,
    orders: Vec<(u32, Order)>,
    /// True if the job has failed before any guardian has joined.
    ///
    /// A node was lost, or the job was given up.
    is_hopeless: bool,
}

impl JobLeader {
    /// Returns the leader on this host.
    ///
    /// Without a file of failure domains, each host is a domain of its own.
    /// `survives_guardians` is true if the launcher tolerates the death of a guardian.
    pub fn new(host: &str, config: &Config, survives_guardians: bool) -> JobLeader {
        let watch = |time| JobWatch::new(HangLimits::new(time), config.replaces_hanging);
        JobLeader {
            file_of_domains: config.domains.clone(),
            domains: Vec::new(),
            looked_up: BTreeSet::new(),
            job: None,
            began: Instant::now(),
            node_timeout: config.node_timeout,
            copies: config.scheme,
            hosts: BTreeMap::from([(OWN_NODE, host.to_owned())]),
            lost: BTreeSet::new(),
            guardians: BTreeMap::new(),
            awaited: BTreeMap::new(),
            processes: BTreeMap::new(),
            spawned: BTreeSet::new(),
            spawned_status: 0,
            exchange: Exchange::default(),
            requests: RequestSignals::default(),
            late_request: None,
            hangs: config.hang_after.map(watch),
            silent_guardians: GuardianWatch::new(survives_guardians),
            drain: None,
            takes_no_checkpoints: config.interval == Interval::Off,
            orders: Vec::new(),
            is_hopeless: false,
        }
    }

    /// Returns the time until [`tick`](Self::tick) must be called.
    pub fn limit(&self) -> Option<Duration> {
        let Some(job) = &self.job else {
            return Some(JOIN_TIMEOUT.saturating_sub(self.began.elapsed()));
        };
        let hangs = self.hangs.as_ref().and_then(JobWatch::deadline);
        let guardians = self.silent_guardians.deadline();
        let all = [job.deadline(), hangs, guardians];
        let deadline = all.into_iter().flatten().min()?;
        Some(deadline.saturating_sub(self.began.elapsed()))
    }

    pub fn tick(&mut self) {
        self.handle_event(Event::Tick);
        self.judge_hangs();
        self.judge_guardians();
    }

    /// Returns the orders for the nodes, in order.
    pub fn take_orders(&mut self) -> Vec<(u32, Order)> {
        std::mem::take(&mut self.orders)
    }

    /// True if no guardian is left, or none will join.
    pub fn is_deserted(&self) -> bool {
        self.guardians.is_empty()
            && self.awaited.is_empty()
            && (self.job.is_some() || self.is_hopeless || self.began.elapsed() > JOIN_TIMEOUT)
    }

    /// True if the guardians were ordered to exit.
    pub fn is_over(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_over)
    }

    /// Returns the job's exit status; [`exit_status::RECOVERY_FAILED`] before its end.
    pub fn status(&self) -> i32 {
        match self
            .job
            .as_ref()
            .filter(|job| job.is_over())
            .map(Job::status)
        {
            None => exit_status::RECOVERY_FAILED,
            Some(0) => self.spawned_status,
            Some(status) => status,
        }
    }

    /// Handles the report of a node.
    pub fn handle_report(&mut self, node: u32, report: Report) {
        match report {
            Report::GuardianJoined {
                rank,
                workers,
                spares,
                replenishes,
                had_manager,
            } => {
                let new = || Job::new(workers, spares).with_replenishing(replenishes);
                let job = self.job.get_or_insert_with(new);
                if had_manager {
                    job.note_other_manager();
                }
                self.awaited.remove(&rank);
                self.guardians.insert(rank, node);
            }
            Report::ProcessReported {
                rank,
                number,
                history,
            } => {
                self.processes.insert(number, node);
                self.handle_event(Event::ProcessReported(number, rank, history));
            }
            Report::AllReported { rank } => {
                if self.looked_up.insert(node)
                    && let Some(domain) = self.domain_of(node)
                {
                    self.handle_event(Event::NodeInDomain(Node(node), domain));
                }
                self.handle_event(Event::GuardianJoined(rank, Node(node)));
                self.send_late_request();
            }
            Report::GuardianDied { rank } => {
                self.awaited.remove(&rank);
                self.guardians.remove(&rank);
                self.handle_event(Event::GuardianDied(rank));
            }
            Report::Registered { number } => self.handle_event(Event::Registered(number)),
            Report::Process {
                message: ToManager::RequestCheckpoint { signal },
                ..
            }
            | Report::CheckpointRequested { signal } => self.request_checkpoint(signal),
            Report::Process { number, message } => {
                self.note_spawns(node, &message);
                if is_for_job(&message) {
                    self.handle_event(Event::Message(number, message));
                }
            }
            Report::Ended(ended) => {
                self.forget_inactivity(&ended);
                self.handle_event(event_of_end(&ended))
            }
            Report::Activity { number, activity } => self.record_activity(number, activity),
            Report::LibraryAborted { number, generation } => {
                self.handle_event(Event::LibraryAborted(number, generation))
            }
            Report::GuardianSilence { rank, pid, silence } => {
                self.record_guardian_silence(node, (rank, pid), silence)
            }
            Report::ReplacementRequested { id, target } => {
                if let Some(answer) = self.replace_on_request((node, id), target) {
                    self.answer_request((node, id), &answer);
                }
            }
            Report::Spawned(status) => self.spawned_status = status,
            Report::Abort(status) => self.handle_event(Event::Abort(status)),
            Report::CannotContinue(why) => self.give_up(&why),
            Report::Fence { id, fence, bytes } => {
                let answers = self.exchange.fence(node, id, fence, bytes);
                self.send_to_servers(answers);
            }
            Report::Modex {
                id,
                namespace,
                rank,
            } => {
                let question = self.exchange.request_data(node, id, namespace, rank);
                self.send_to_servers([question]);
            }
            Report::Join { id, name, size } => self.join_spawned((node, id), name, size),
            Report::ReadBoards {
                id,
                process,
                workers,
            } => {
                let there = self.processes.get(&process).copied();
                if let Some(there) = there
                    && let Some(id) = self.exchange.request_of_node(node, id, there)
                {
                    self.send_to_servers([(there, ServerOrder::ReadBoards { id, workers })]);
                }
            }
            Report::Forget { name } => {
                let answers = self.exchange.forget(&name);
                self.send_to_servers(answers);
                let forget = ServerOrder::Forget { name };
                let others = self.hosts.keys().filter(|&&other| other != node);
                let orders: Vec<_> = others.map(|&other| (other, forget.clone())).collect();
                self.send_to_servers(orders);
            }
            Report::Answer { id, bytes } => {
                let answers = self.exchange.answer(node, id, bytes);
                self.send_to_servers(answers);
            }
        }
    }

    /// Requests a checkpoint on disk from all processes.
    ///
    /// Before the program runs there is nothing to save: a signal that stops the job ends it.
    fn request_checkpoint(&mut self, signal: i32) {
        let cause = CheckpointCause::Signal(signal);
        let has_resumed = self.job.as_ref().is_some_and(Job::has_resumed);
        match self.requests.meaning_of(signal) {
            SignalMeaning::Request if has_resumed => {
                log::info!("{cause} requests a checkpoint");
                let time_us = realtime_ns() / 1000;
                self.late_request = Some(JobOrder::RequestCheckpoint { signal, time_us });
                self.send_late_request();
            }
            SignalMeaning::Request if cause.stops() => {
                self.handle_event(Event::Abort(cause.status_without_checkpoint()));
            }
            _ => {}
        }
    }

    /// Sends a request for a checkpoint, unless guardians are awaited to report again.
    fn send_late_request(&mut self) {
        if self.job.as_ref().is_some_and(|job| !job.is_gathering())
            && let Some(request) = self.late_request.take()
        {
            self.send(request);
        }
    }

    /// Records the nodes on which a worker spawns, and informs them of its rollback.
    fn note_spawns(&mut self, node: u32, message: &ToManager) {
        match *message {
            ToManager::Spawns { worker, .. } => drop(self.spawned.insert((worker, node))),
            ToManager::RolledBack { worker, number } => {
                let there = self.spawned.range((worker, 0)..=(worker, u32::MAX));
                let others = there.filter(|&&(_, other)| other != node);
                let order = Order::Servers(ServerOrder::RolledBack { worker, number });
                self.orders
                    .extend(others.map(|&(_, other)| (other, order.clone())));
            }
            _ => {}
        }
    }

    /// Registers processes that were spawned on one node with all other nodes.
    fn join_spawned(&mut self, (node, id): (u32, u64), name: GenerationName, size: u32) {
        let others: BTreeSet<u32> = self
            .hosts
            .keys()
            .copied()
            .filter(|&other| other != node)
            .collect();
        let joining = SpawnedNamespace {
            name,
            size,
            host: self.hosts.get(&node).cloned().unwrap_or_default(),
        };
        let orders = self.exchange.join(node, id, &joining, others);
        self.send_to_servers(orders);
    }

    /// Ends the job because it cannot continue.
    pub fn give_up(&mut self, why: &str) {
        print_message(why);
        self.is_hopeless |= self.job.is_none();
        self.handle_event(Event::Abort(exit_status::RECOVERY_FAILED));
    }

    fn handle_event(&mut self, event: Event) {
        let Some(job) = &mut self.job else { return };
        let actions = job.handle(self.began.elapsed(), event);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Order(order) => self.send(order),
            Action::Print(text) => print_message(text),
            Action::EndNode(node, end) => self
                .orders
                .push((node.0, Order::Job(JobOrder::EndNode(end)))),
            Action::RefuseDrain(why) => self.end_drain(Err(why)),
        }
    }

    /// Sends an order to the nodes that execute it.
    fn send(&mut self, order: JobOrder<BegunGeneration>) {
        match order {
            JobOrder::Guardian { rank, message } => {
                if let ToGuardian::Start { number, .. } = message {
                    let node = self.guardians.get(&rank);
                    self.processes.extend(node.map(|&node| (number, node)));
                }
                let order = JobOrder::Guardian {
                    rank,
                    message: message.clone(),
                };
                match message {
                    // The node can kill the process if the guardian has died.
                    ToGuardian::Kill { number } => self.send_to_node_of(number, order),
                    _ => self.send_to_node_of_guardian(rank, order),
                }
            }
            JobOrder::Admit { number, generation } => {
                self.send_to_node_of(number, JobOrder::Admit { number, generation });
            }
            JobOrder::AdoptStore { adopter, from } => {
                self.send_to_node_of(adopter, JobOrder::AdoptStore { adopter, from });
            }
            JobOrder::Announce { generation } => {
                log::info!("generation {generation} is announced");
                self.send_to_all(&Order::Job(JobOrder::Announce { generation }));
            }
            JobOrder::RequestCheckpoint { signal, time_us } => {
                let order = JobOrder::RequestCheckpoint { signal, time_us };
                self.send_to_all(&Order::Job(order));
            }
            JobOrder::CountSpareDeath => self.send_to_all(&Order::Job(JobOrder::CountSpareDeath)),
            JobOrder::RequestPlacementHints { number, failed } => {
                let failed = failed.into_iter().take(MAX_NAMED_FAILURES).collect();
                self.send_to_node_of(number, JobOrder::RequestPlacementHints { number, failed });
            }
            JobOrder::Begin(beginning) => self.begin(&beginning.ranks, beginning.start),
            JobOrder::KillGuardian { rank } => {
                self.send_to_node_of_guardian(rank, JobOrder::KillGuardian { rank });
            }
            // Sent to one node (`replace_host`, [`Action::EndNode`]).
            JobOrder::EndNode(_) => {}
            JobOrder::End { is_good } => self.send_to_all(&Order::Job(JobOrder::End { is_good })),
        }
    }

    fn begin(&mut self, ranks: &[ProcessNumber], start: GenerationStart) {
        let generation = start.generation;
        let count = ranks.len();
        log::info!("generation {generation} begins with {count} processes");
        if let Some(hangs) = &mut self.hangs {
            hangs.note_generation(self.began.elapsed());
        }
        let node_of =
            |number: &ProcessNumber| self.processes.get(number).copied().unwrap_or(OWN_NODE);
        let node_of_rank: Vec<u32> = ranks.iter().map(node_of).collect();
        // A rank of a node that was lost meanwhile gets the index of another host. The death of
        // the rank is detected afterwards.
        let nodes: Vec<u32> = self.hosts.keys().copied().collect();
        let host_index = |node: u32| nodes.partition_point(|&other| other < node) as u32;
        let beginning = Beginning {
            job: job_name(&self.hosts[&OWN_NODE]),
            ranks: ranks.to_vec().into(),
            host_of_rank: node_of_rank.iter().copied().map(host_index).collect(),
            hosts: self.hosts.values().cloned().collect(),
            start,
        };
        match GenerationName::new(&beginning.job, generation.0) {
            Ok(name) => self.exchange.begin(name, node_of_rank),
            Err(error) => return self.give_up(&error.to_string()),
        }
        self.send_to_all(&Order::Job(JobOrder::Begin(beginning)));
    }

    fn send_to_servers(&mut self, orders: impl IntoIterator<Item = (u32, ServerOrder)>) {
        let orders = orders.into_iter();
        self.orders
            .extend(orders.map(|(node, order)| (node, Order::Servers(order))));
    }

    fn send_to_all(&mut self, order: &Order) {
        let all = self.hosts.keys().map(|&node| (node, order.clone()));
        self.orders.extend(all);
    }

    fn send_to_node_of(&mut self, number: ProcessNumber, order: JobOrder<Beginning>) {
        let node = self.processes.get(&number).copied().unwrap_or(OWN_NODE);
        self.orders.push((node, Order::Job(order)));
    }

    fn send_to_node_of_guardian(&mut self, rank: Guardian, order: JobOrder<Beginning>) {
        let node = self.guardians.get(&rank);
        self.orders
            .extend(node.map(|&node| (node, Order::Job(order))));
    }
}

/// Returns the job's name for MPI libraries; another leader on these nodes has another name.
fn job_name(host: &str) -> String {
    format!(
        "understudy-{:08x}-{}",
        xxh3_64(host.as_bytes()) as u32,
        std::process::id()
    )
}
