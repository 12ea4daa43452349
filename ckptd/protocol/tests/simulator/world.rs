//! World of the simulated processes, their manager and their nodes.

use crate::random::Random;
use crate::simulated_process::{Process, Stage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use understudy_catalogue::exit_status;
use understudy_protocol::{
    Action, BegunGeneration, Ending, Event, Generation, Guardian, Job, JobOrder, Node,
    ProcessHistory, ProcessNumber, ToGuardian, ToManager, Worker,
};

/// Steps of the simulated program.
const STEPS: u32 = 6;
/// Number of steps before the end at which all processes hand over their replicas.
///
/// The processes continue when all have done so.
pub const CHECKPOINT: u32 = 4;

pub struct World {
    pub random: Random,
    pub job: Job,
    pub workers: usize,
    pub size: u32,
    pub now: Duration,
    pub processes: BTreeMap<ProcessNumber, Process>,
    /// Events in transit to the manager, in order for each sender.
    pub events: BTreeMap<ProcessNumber, VecDeque<Event>>,
    /// Number of processes that may still be killed.
    pub kills: u32,
    /// Number of managers that may still die.
    pub managers: u32,
    pub nodes: u32,
    /// Number of nodes that may still be lost.
    pub losses: u32,
    pub lost: BTreeSet<Node>,
    /// Lost nodes that were not reported to the manager yet.
    pub news: Vec<Node>,
    /// Guardians of lost nodes that should report again.
    pub awaited: Vec<Guardian>,
    /// Process that was requested to give placement hints.
    pub queried: Option<ProcessNumber>,
    /// Workers of which replicas have existed.
    pub kept: BTreeSet<Worker>,
    /// True if the last replica of a worker is lost.
    ///
    /// Reset when a process reports the loss.
    pub is_doomed: bool,
    pub statuses: BTreeMap<Guardian, i32>,
    pub begun: Vec<(Generation, Vec<ProcessNumber>)>,
    pub is_ending: bool,
    /// True if a manager has received `Running` from a process.
    pub is_protected: bool,
    /// True if the manager has died after guardians had begun to exit.
    pub is_over: bool,
    pub printed: Vec<String>,
    /// Node whose workers must leave at the next checkpoint.
    pub leaving: Option<(Node, u32)>,
    /// Generation in which workers of that node stand still.
    pub standing: Option<Generation>,
    /// Number of nodes that may still be drained.
    pub drains: u32,
    /// Node that was drained.
    pub drained: Option<Node>,
}

impl World {
    pub fn new(
        seed: u64,
        [workers, spares]: [u32; 2],
        [kills, managers]: [u32; 2],
        [nodes, losses]: [u32; 2],
    ) -> World {
        let mut world = World {
            random: Random(seed),
            job: Job::new(workers, spares),
            workers: workers as usize,
            size: workers + spares,
            now: Duration::ZERO,
            processes: BTreeMap::new(),
            events: BTreeMap::new(),
            kills,
            managers,
            nodes,
            losses,
            lost: BTreeSet::new(),
            news: Vec::new(),
            awaited: Vec::new(),
            queried: None,
            kept: BTreeSet::new(),
            is_doomed: false,
            statuses: BTreeMap::new(),
            begun: Vec::new(),
            is_ending: false,
            is_protected: false,
            is_over: false,
            printed: Vec::new(),
            leaving: None,
            standing: None,
            drains: 0,
            drained: None,
        };
        for guardian in 0..workers + spares {
            let guardian = Guardian(guardian);
            world.happen(Event::GuardianJoined(guardian, world.node(guardian)));
        }
        world
    }

    pub fn node(&self, guardian: Guardian) -> Node {
        Node(guardian.0 % self.nodes)
    }

    pub fn happen(&mut self, event: Event) {
        self.is_protected |= matches!(event, Event::Message(_, ToManager::Running { .. }));
        let mut actions = self.job.handle(self.now, event);
        let dies = self.managers > 0 && !actions.is_empty() && self.random.below(20) == 0;
        if !dies {
            return actions.into_iter().for_each(|action| self.act(action));
        }
        let done = self.random.below(actions.len() as u64 + 1) as usize;
        let undone = actions.split_off(done);
        actions.into_iter().for_each(|action| self.act(action));
        if self.nodes == 1 {
            return self.follow();
        }
        // Orders to guardians of other nodes arrive.
        let node = self.random_node();
        for action in undone {
            let arrives = match &action {
                Action::Order(JobOrder::Guardian { rank, .. }) => self.node(*rank) != node,
                Action::Order(_) => false,
                Action::Print(_) | Action::RefuseDrain(_) => true,
                Action::EndNode(end, _) => *end != node,
            };
            if arrives || self.lost.contains(&node) {
                self.act(action);
            }
        }
        self.replace_remote_manager(node);
    }

    fn random_node(&mut self) -> Node {
        Node(self.random.below(u64::from(self.nodes)) as u32)
    }

    pub fn send(&mut self, number: ProcessNumber, event: Event) {
        self.events.entry(number).or_default().push_back(event);
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Order(order) => self.obey(order),
            Action::Print(text) => self.printed.push(text),
            Action::EndNode(node, end) => self.note_order(node, end),
            Action::RefuseDrain(_) => self.leaving = None,
        }
    }

    fn obey(&mut self, order: JobOrder<BegunGeneration>) {
        match order {
            JobOrder::Guardian { rank, message } => self.send_to_guardian(rank, message),
            JobOrder::Announce { generation } => {
                for process in self.processes.values_mut() {
                    process.page = generation;
                }
            }
            JobOrder::AdoptStore { adopter, from } => {
                let (number, worker) = (from, self.processes[&from].history.replicas_of);
                let from = self
                    .processes
                    .get_mut(&from)
                    .expect("the store is that of a process");
                assert!(
                    from.stage == Stage::Dead,
                    "the store is that of a dead process"
                );
                let (files, part, node) = (
                    std::mem::take(&mut from.copies),
                    from.part.or(from.of_dead),
                    from.node,
                );
                assert!(
                    std::mem::take(&mut from.keeps),
                    "the dead process has left a store"
                );
                let adopter = self
                    .processes
                    .get_mut(&adopter)
                    .expect("the adopter is a process");
                assert!(!adopter.keeps, "the adopter has no store of its own");
                assert_eq!(adopter.node, node, "files stay on their node");
                adopter.copies.extend(files);
                (adopter.keeps, adopter.of_dead) = (true, part);
                (adopter.history.replicas_of, adopter.history.adopted_from) =
                    (worker, Some(number));
                adopter.history.was_in_generation = true;
            }
            JobOrder::Begin(BegunGeneration { start, ranks }) => {
                let waiting = self.processes.values();
                let waiting = waiting
                    .filter(|it| matches!(it.stage, Stage::Starting | Stage::Spare))
                    .count();
                assert!(
                    waiting <= start.spares as usize + self.workers,
                    "the number of spares contains all waiting processes"
                );
                assert!(
                    !start.is_first || self.kept.is_empty(),
                    "no generation is the first one after a checkpoint"
                );
                self.begin(start.generation, ranks);
            }
            JobOrder::RequestPlacementHints { number, failed } => {
                assert!(!failed.is_empty(), "hints are for failed processes");
                self.queried = Some(number);
            }
            JobOrder::End { is_good } => self.is_ending |= is_good,
            JobOrder::Admit { .. }
            | JobOrder::CountSpareDeath
            | JobOrder::RequestCheckpoint { .. }
            | JobOrder::KillGuardian { .. }
            | JobOrder::EndNode(_) => {}
        }
    }

    fn send_to_guardian(&mut self, at: Guardian, message: ToGuardian) {
        match message {
            ToGuardian::Start {
                number,
                is_restart: anew,
            } => self.start(number, at, anew),
            ToGuardian::Kill { number } => self.kill(number),
            ToGuardian::Leave { status } => self.note_leave(at, status),
            other => panic!("the job does not send {other:?}"),
        }
    }

    fn start(&mut self, number: ProcessNumber, at: Guardian, anew: bool) {
        if anew && number == ProcessNumber(0) {
            // After a restart from the beginning, the replicas of dead processes are useless.
            let dead = self
                .processes
                .values_mut()
                .filter(|it| it.stage == Stage::Dead);
            dead.for_each(|it| (it.keeps, it.copies) = (false, BTreeSet::new()));
        }
        let node = self.node(at);
        assert_ne!(self.drained, Some(node), "a drained node gets no process");
        let process = Process {
            node,
            at,
            history: ProcessHistory::default(),
            ending: None,
            is_forgotten: false,
            stage: match self.lost.contains(&node) {
                true => Stage::Dead,
                false => Stage::Starting,
            },
            page: self.job.generation(),
            part: None,
            copies: BTreeSet::new(),
            keeps: false,
            of_dead: None,
        };
        let before = self.processes.insert(number, process);
        // The connection of the process is a new one.
        self.events.remove(&number);
        assert!(
            before.is_none_or(|it| it.stage == Stage::Dead),
            "two processes of number {number}"
        );
    }

    fn begin(&mut self, generation: Generation, ranks: Vec<ProcessNumber>) {
        let last = self.begun.last().map(|(last, _)| *last);
        assert!(
            last.is_none_or(|last| last < generation),
            "generations begin in order"
        );
        assert_eq!(
            ranks.len(),
            self.workers,
            "a generation has the workers only"
        );
        self.check_copies(&ranks);
        self.give_parts(&ranks);
        let is_end = |it: &Event| matches!(it, Event::Ended(..));
        for (number, process) in self
            .processes
            .iter_mut()
            .filter(|(it, _)| !ranks.contains(it))
        {
            let has_unreported_end = self
                .events
                .get(number)
                .is_some_and(|events| events.iter().any(is_end));
            process.is_forgotten |= process.ending.is_some() && !has_unreported_end;
        }
        for number in &ranks {
            let process = self.processes.get_mut(number).expect("a rank is a process");
            (
                process.history.was_in_generation,
                process.history.is_protected,
            ) = (true, self.is_protected);
            // The process may have died meanwhile, or be interrupted for the next generation.
            match process.stage {
                Stage::Spare if process.page > generation => {
                    process.stage = Stage::Ready(generation)
                }
                Stage::Spare => process.stage = Stage::Running(generation, STEPS),
                Stage::Ready(of) if of == generation => {
                    process.stage = Stage::Running(generation, STEPS)
                }
                _ => assert!(
                    process.stage == Stage::Dead || process.page > generation,
                    "{number} was not ready"
                ),
            }
        }
        self.begun.push((generation, ranks));
    }

    /// Loses a node with its processes, whose messages in transit are lost, too.
    pub fn lose(&mut self, node: Node) {
        self.lost.insert(node);
        self.news.push(node);
        for (number, process) in self
            .processes
            .iter_mut()
            .filter(|(_, process)| process.node == node)
        {
            process.stage = Stage::Dead;
            self.events.remove(number);
        }
    }

    fn kill(&mut self, number: ProcessNumber) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        if process.stage != Stage::Dead {
            process.stage = Stage::Dead;
            process.ending = Some(Ending::Signal(9));
            self.send(number, Event::Ended(number, Ending::Signal(9)));
            self.send(number, Event::OutputClosed(number, 0));
        }
    }

    /// Moves a process forward by one step.
    fn step(&mut self, number: ProcessNumber) {
        let is_ending = self.is_ending;
        let process = self.processes.get_mut(&number).expect("a process");
        let page = process.page;
        if self.stops_at_checkpoint(number) {
            return self.report_can_leave(number, page);
        }
        let process = self.processes.get_mut(&number).expect("a process");
        let message = match process.stage {
            Stage::Dead => return,
            Stage::Starting => {
                process.stage = Stage::Spare;
                process.history.has_used_mpi = true;
                ToManager::Ready { generation: page }
            }
            Stage::Spare | Stage::Ready(_) | Stage::Running(..) | Stage::AtEnd(_) if is_ending => {
                process.stage = Stage::Dead;
                process.ending = Some(Ending::Exit(0));
                self.send(number, Event::Ended(number, Ending::Exit(0)));
                self.send(number, Event::OutputClosed(number, 0));
                return;
            }
            Stage::Ready(of) if of == page && self.queried == Some(number) => {
                self.queried = None;
                let spare = ProcessNumber(self.random.below(self.processes.len() as u64) as u32);
                self.send(
                    number,
                    Event::Message(number, ToManager::PlacementHint { spare }),
                );
                ToManager::PlacementHintsEnd { generation: of }
            }
            Stage::Ready(of) | Stage::Running(of, _) | Stage::AtEnd(of) if of != page => {
                process.stage = Stage::Ready(page);
                ToManager::Ready { generation: page }
            }
            Stage::Running(of, 0) if process.part.is_some() => {
                process.stage = Stage::AtEnd(of);
                ToManager::AtEnd { generation: of }
            }
            Stage::Running(of, CHECKPOINT) => {
                let Some(part) = process.part else { return };
                if process.copies.insert(part) || process.history.replicas_of != Some(part) {
                    process.keeps = true;
                    process.history.replicas_of = Some(part);
                    ToManager::StoreReplicas { worker: part }
                } else if self.commit() {
                    self.processes
                        .get_mut(&number)
                        .expect("a process")
                        .history
                        .has_resumed = true;
                    self.advance(number, of, CHECKPOINT);
                    ToManager::Running { generation: of }
                } else {
                    return;
                }
            }
            Stage::Running(of, left) if left > 0 => return self.advance(number, of, left),
            _ => return,
        };
        self.send(number, Event::Message(number, message));
    }

    fn advance(&mut self, number: ProcessNumber, of: Generation, left: u32) {
        let process = self.processes.get_mut(&number).expect("a process");
        process.stage = Stage::Running(of, left - 1);
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.below(from.len() as u64) as usize])
    }

    /// Simulates one random occurrence; returns false when the job is over.
    pub fn turn(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let late: Vec<ProcessNumber> = self
            .events
            .iter()
            // Nodes defer messages until all guardians have reported again.
            .filter(|(_, it)| !it.is_empty() && self.awaited.is_empty())
            .map(|(&it, _)| it)
            .collect();
        let living = |(_, process): &(&ProcessNumber, &Process)| process.stage != Stage::Dead;
        let living: Vec<ProcessNumber> = self
            .processes
            .iter()
            .filter(living)
            .map(|(&it, _)| it)
            .collect();
        if self.is_doomed && !living.is_empty() {
            self.is_doomed = false;
            self.kills = 0;
            self.printed
                .push("the last replica of a worker is lost".into());
            self.happen(Event::Abort(exit_status::RECOVERY_FAILED));
        } else if self.losses > 0 && self.random.below(60) == 0 {
            self.losses -= 1;
            let node = self.random_node();
            self.lose(node);
        } else if !self.news.is_empty() && self.random.below(8) == 0 {
            let node = self.news.remove(0);
            self.happen(Event::NodeLost(node, Duration::ZERO));
            let is_there = |it: &mut Guardian| Node(it.0 % self.nodes) == node;
            let awaited: Vec<Guardian> = self.awaited.extract_if(.., is_there).collect();
            for guardian in awaited {
                self.happen(Event::GuardianDied(guardian));
            }
        } else if self.managers > 0 && self.random.below(50) == 0 {
            match self.nodes {
                1 => self.follow(),
                _ => {
                    let node = self.random_node();
                    self.replace_remote_manager(node);
                }
            }
        } else if self.drains > 0
            && self.random.below(20) == 0
            && self.job.has_resumed()
            && !self.job.is_ending()
        {
            self.drains -= 1;
            self.happen(Event::Drain(Node(1)));
        } else if self.kills > 0 && self.random.below(25) == 0 {
            self.kills -= 1;
            let victim = self.choose(&living);
            victim.into_iter().for_each(|victim| self.kill(victim));
        } else if self.random.below(2) == 0 {
            let number = self.choose(&late);
            let event = number.and_then(|number| self.events.get_mut(&number)?.pop_front());
            event.into_iter().for_each(|event| self.happen(event));
        } else if let Some(number) = self.choose(&living) {
            self.step(number);
        }
        self.happen(Event::Tick);
        !self.job.is_over() && !self.is_over
    }
}
