//! The leader of a job: drives the state machine that decides.
//!
//! Reports of nodes become events, and actions become orders to nodes.

use super::exchange::Exchange;
use crate::messages::{Beginning, Joining, Order, Report, ServerOrder};
use crate::say::say;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_pmi::Name;
use understudy_protocol::{
    Action, Domain, Ending, Event, GATHERING, GenerationStart, Guardian, Job, JobOrder, LOST, Node,
    ProcessNumber, Worker,
};
use understudy_settings::domains::of_host;
use understudy_wire::line::{Ended, Killer, ToGuardian, ToManager};
use xxhash_rust::xxh3::xxh3_64;

/// Number of the leader's own node.
pub const OWN: u32 = 0;
/// Limit of dead processes in a request for placement hints, because a message is short.
const MOST_NAMED: usize = 1000;

pub struct JobLeader {
    /// State machine; `None` until the first guardian has reported the job's size.
    job: Option<Job>,
    began: Instant,
    /// The name of each node's host.
    hosts: BTreeMap<u32, String>,
    /// File of UNDERSTUDY_DOMAIN.
    file_of_domains: Option<PathBuf>,
    /// Names of the failure domains of nodes with guardians; a domain's number is its index.
    domains: Vec<String>,
    /// Nodes whose failure domain was looked up.
    placed: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    /// Node of each living guardian.
    guardians: BTreeMap<Guardian, u32>,
    /// Node of each process.
    processes: BTreeMap<ProcessNumber, u32>,
    /// Workers that have spawned processes, with the nodes of these processes.
    spawned: BTreeSet<(Worker, u32)>,
    /// Exit status of a spawned process that has failed; 0 if none has.
    of_spawned: i32,
    exchange: Exchange,
    orders: Vec<(u32, Order)>,
    /// True if a node is missing and no guardian has joined.
    is_hopeless: bool,
}

impl JobLeader {
    /// Returns the leader on this host.
    ///
    /// Without a file of failure domains, each host is a domain of its own.
    pub fn new(host: &str, file_of_domains: Option<PathBuf>) -> JobLeader {
        JobLeader {
            file_of_domains,
            domains: Vec::new(),
            placed: BTreeSet::new(),
            job: None,
            began: Instant::now(),
            hosts: BTreeMap::from([(OWN, host.to_owned())]),
            lost: BTreeSet::new(),
            guardians: BTreeMap::new(),
            processes: BTreeMap::new(),
            spawned: BTreeSet::new(),
            of_spawned: 0,
            exchange: Exchange::default(),
            orders: Vec::new(),
            is_hopeless: false,
        }
    }

    /// Returns the time until [`tick`](Self::tick) must be called.
    pub fn limit(&self) -> Option<Duration> {
        let Some(job) = &self.job else {
            return Some(GATHERING.saturating_sub(self.began.elapsed()));
        };
        Some(job.deadline()?.saturating_sub(self.began.elapsed()))
    }

    pub fn tick(&mut self) {
        self.happen(Event::Tick);
    }

    /// Returns the orders for the nodes, in order.
    pub fn take_orders(&mut self) -> Vec<(u32, Order)> {
        std::mem::take(&mut self.orders)
    }

    /// True if no guardian is left, or none will join.
    pub fn is_deserted(&self) -> bool {
        self.guardians.is_empty()
            && (self.job.is_some() || self.is_hopeless || self.began.elapsed() > GATHERING)
    }

    /// True if the guardians were ordered to exit.
    pub fn is_over(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_over)
    }

    /// The job's exit status.
    pub fn status(&self) -> i32 {
        match self
            .job
            .as_ref()
            .filter(|job| job.is_over())
            .map(Job::status)
        {
            None => LOST,
            Some(0) => self.of_spawned,
            Some(status) => status,
        }
    }

    /// Adds a node that has connected.
    pub fn join(&mut self, node: u32, host: String) {
        if self.hosts.values().any(|other| *other == host) {
            self.give_up(&message::host_names_equal(&host).to_string());
        }
        log::info!("node {node} is {host}");
        self.hosts.insert(node, host);
    }

    /// Handles the loss of a node after this silence, or a node that never connects.
    ///
    /// Returns true if the node had guardians.
    pub fn lose(&mut self, node: u32, silence: Duration) -> bool {
        self.lost.insert(node);
        let host = self.hosts.remove(&node);
        let had_guardians = self.guardians.values().any(|of| *of == node);
        self.guardians.retain(|_, of| *of != node);
        self.is_hopeless |= self.job.is_none();
        if had_guardians && !self.is_over() {
            say(message::host_lost(host.unwrap_or_default()));
        }
        let (names, answers) = self.exchange.lose(node);
        self.send_to_servers(answers);
        for name in names {
            self.send_to_all(&Order::Servers(ServerOrder::Forget { name }));
        }
        self.happen(Event::Lost(Node(node), silence));
        had_guardians
    }

    /// True if a node has not connected yet and is not lost.
    pub fn awaits(&self, node: u32) -> bool {
        !self.hosts.contains_key(&node) && !self.lost.contains(&node)
    }

    /// Handles the report of a node.
    pub fn hear(&mut self, node: u32, report: Report) {
        match report {
            Report::Came {
                rank,
                workers,
                spares,
                replenishes,
                is_again,
            } => {
                let new = || Job::new(workers, spares).replenishing(replenishes);
                let job = self.job.get_or_insert_with(new);
                if is_again {
                    job.note_other_manager();
                }
                self.guardians.insert(rank, node);
            }
            Report::Knows {
                rank,
                number,
                known,
            } => {
                self.processes.insert(number, node);
                self.happen(Event::Known(number, rank, known));
            }
            Report::Told { rank } => {
                if self.placed.insert(node)
                    && let Some(domain) = self.domain_of(node)
                {
                    self.happen(Event::Belongs(Node(node), domain));
                }
                self.happen(Event::Came(rank, Node(node)));
            }
            Report::Gone { rank } => {
                self.guardians.remove(&rank);
                self.happen(Event::Gone(rank));
            }
            Report::Called { number } => self.happen(Event::Called(number)),
            Report::Process { number, said } => {
                self.note_spawns(node, &said);
                if is_for_job(&said) {
                    self.happen(Event::Message(number, said));
                }
            }
            Report::Ended(ended) => self.happen(said_by_guardian(&ended)),
            Report::Broke { number, generation } => self.happen(Event::Broke(number, generation)),
            Report::Spawned(status) => self.of_spawned = status,
            Report::Abort(status) => self.happen(Event::Abort(status)),
            Report::GivesUp(why) => self.give_up(&why),
            Report::Fence { id, fence, bytes } => {
                let answers = self.exchange.fence(node, id, fence, bytes);
                self.send_to_servers(answers);
            }
            Report::Modex { id, of, rank } => {
                let question = self.exchange.ask(node, id, of, rank);
                self.send_to_servers([question]);
            }
            Report::Join { id, name, size } => self.join_spawned((node, id), name, size),
            Report::Look {
                id,
                process,
                workers,
            } => {
                let there = self.processes.get(&process).copied();
                if let Some(there) = there
                    && let Some(id) = self.exchange.ask_node(node, id, there)
                {
                    self.send_to_servers([(there, ServerOrder::Look { id, workers })]);
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

    /// Records the nodes on which a worker spawns, and informs them of its rollback.
    fn note_spawns(&mut self, node: u32, said: &ToManager) {
        match *said {
            ToManager::Spawns { worker, .. } => drop(self.spawned.insert((worker, node))),
            ToManager::WentBack { worker, number } => {
                let there = self.spawned.range((worker, 0)..=(worker, u32::MAX));
                let others = there.filter(|&&(_, other)| other != node);
                let order = Order::Servers(ServerOrder::WentBack { worker, number });
                self.orders
                    .extend(others.map(|&(_, other)| (other, order.clone())));
            }
            _ => {}
        }
    }

    /// Registers processes that were spawned on one node with all other nodes.
    fn join_spawned(&mut self, (node, id): (u32, u64), name: Name, size: u32) {
        let others: BTreeSet<u32> = self
            .hosts
            .keys()
            .copied()
            .filter(|&other| other != node)
            .collect();
        let joining = Joining {
            name,
            size,
            host: self.hosts.get(&node).cloned().unwrap_or_default(),
        };
        let orders = self.exchange.join(node, id, &joining, others);
        self.send_to_servers(orders);
    }

    /// Returns the failure domain of a node; `None` if its host is not listed.
    ///
    /// The ranks report that the file cannot be read.
    fn domain_of(&mut self, node: u32) -> Option<Domain> {
        let name = of_host(self.file_of_domains.as_ref()?, self.hosts.get(&node)?).ok()??;
        let known = self.domains.iter().position(|other| *other == name);
        let number = known.unwrap_or_else(|| {
            self.domains.push(name);
            self.domains.len() - 1
        });
        Some(Domain(number as u32))
    }

    /// Ends the job because it cannot continue.
    pub fn give_up(&mut self, why: &str) {
        say(why);
        self.is_hopeless |= self.job.is_none();
        self.happen(Event::Abort(LOST));
    }

    fn happen(&mut self, event: Event) {
        let Some(job) = &mut self.job else { return };
        let actions = job.handle(self.began.elapsed(), event);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Order(order) => self.send(order),
            Action::Say(text) => say(text),
        }
    }

    /// Sends an order to the nodes that execute it.
    fn send(&mut self, order: JobOrder<understudy_protocol::Beginning>) {
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
            JobOrder::Inherit { heir, from } => {
                self.send_to_node_of(heir, JobOrder::Inherit { heir, from });
            }
            JobOrder::Announce { generation } => {
                log::info!("generation {generation} is to be");
                self.send_to_all(&Order::Job(JobOrder::Announce { generation }));
            }
            JobOrder::CountSpare => self.send_to_all(&Order::Job(JobOrder::CountSpare)),
            JobOrder::Ask { number, fallen } => {
                let fallen = fallen.into_iter().take(MOST_NAMED).collect();
                self.send_to_node_of(number, JobOrder::Ask { number, fallen });
            }
            JobOrder::Begin(beginning) => self.begin(&beginning.ranks, beginning.start),
            JobOrder::End { is_good } => self.send_to_all(&Order::Job(JobOrder::End { is_good })),
        }
    }

    fn begin(&mut self, ranks: &[ProcessNumber], start: GenerationStart) {
        let generation = start.generation;
        let count = ranks.len();
        log::info!("generation {generation} begins with {count} processes");
        let node_of = |number: &ProcessNumber| self.processes.get(number).copied().unwrap_or(OWN);
        let of_rank: Vec<u32> = ranks.iter().map(node_of).collect();
        // Ranks of a host that is lost at this moment are detected as dead afterwards.
        let place = |node: u32| self.hosts.range(..node).count() as u32;
        let places = of_rank.iter().map(|&node| place(node));
        let beginning = Beginning {
            job: job_name(&self.hosts[&OWN]),
            ranks: ranks.iter().copied().zip(places).collect(),
            hosts: self.hosts.values().cloned().collect(),
            start,
        };
        match Name::new(&beginning.job, generation.0) {
            Ok(name) => self.exchange.begin(name, of_rank),
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
        let node = self.processes.get(&number).copied().unwrap_or(OWN);
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

fn said_by_guardian(message: &Ended) -> Event {
    match *message {
        Ended::Exited { number, status, .. } => Event::Ended(number, Ending::Exit(status)),
        Ended::Killed { number, signal, by } => {
            let ending = match by {
                Killer::Unknown => Ending::Signal(signal),
                Killer::Launcher => Ending::Asked(signal),
                Killer::Memory => Ending::Memory,
            };
            Event::Ended(number, ending)
        }
        Ended::Closed { number, written } => Event::Closed(number, written),
    }
}

/// True if the job, and not the node of the process, handles a message.
fn is_for_job(message: &ToManager) -> bool {
    !matches!(
        message,
        ToManager::Spawns { .. }
            | ToManager::Captured { .. }
            | ToManager::Settled { .. }
            | ToManager::WentBack { .. }
            | ToManager::Look { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_worker_has_spawned_processes_is_known_that_it_has_gone_back() {
        let mut leader = JobLeader::new("n0", None);
        let number = ProcessNumber(7);
        let mut hear = |node, said| leader.hear(node, Report::Process { number, said });
        let (worker, number) = (Worker(1), 2);
        hear(2, ToManager::Spawns { worker, number });
        hear(0, ToManager::Spawns { worker, number });
        let other = Worker(2);
        hear(
            3,
            ToManager::Spawns {
                worker: other,
                number,
            },
        );
        hear(0, ToManager::WentBack { worker, number });
        assert_eq!(
            leader.take_orders(),
            [(2, Order::Servers(ServerOrder::WentBack { worker, number }))]
        );
    }

    /// Returns a leader with a guardian on another node that has started its process.
    fn with_another_node() -> JobLeader {
        let mut leader = JobLeader::new("n0", None);
        leader.join(2, "n2".into());
        let rank = Guardian(0);
        let came = Report::Came {
            rank,
            workers: 1,
            spares: 0,
            replenishes: false,
            is_again: false,
        };
        leader.hear(2, came);
        leader.hear(2, Report::Told { rank });
        leader.take_orders();
        leader
    }

    /// A script may have started the process, and may continue.
    #[test]
    fn the_process_of_a_guardian_that_has_gone_is_killed_on_its_node() {
        let mut leader = with_another_node();
        leader.hear(2, Report::Gone { rank: Guardian(0) });
        let number = ProcessNumber(0);
        let kill = Order::Job(JobOrder::Guardian {
            rank: Guardian(0),
            message: ToGuardian::Kill { number },
        });
        assert_eq!(leader.take_orders().first(), Some(&(2, kill)));
    }

    #[test]
    fn how_a_spawned_process_has_ended_on_another_node_is_how_the_job_does() {
        let mut leader = with_another_node();
        let (number, status) = (ProcessNumber(0), 0);
        leader.hear(
            2,
            Report::Ended(Ended::Exited {
                number,
                status,
                pid: 1,
            }),
        );
        leader.hear(2, Report::Ended(Ended::Closed { number, written: 0 }));
        leader.tick();
        assert!(leader.is_over() && leader.status() == 0);
        leader.hear(2, Report::Spawned(3));
        assert_eq!(leader.status(), 3);
    }
}
