//! The protocol with simulated processes and random failures, by seed.
//!
//! A simulated process passes through its stages by itself. Its messages, and the messages to it,
//! arrive late. Guardians report deaths late, too. In each run some processes or managers are
//! killed at random moments, or whole nodes are lost. The job must end. Its last generation must
//! have all workers, and a replica of each as long as one is left on a node that is not lost.

mod copies;
mod follow;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use understudy_protocol::{
    Action, BegunGeneration, EXIT_NOT_RECOVERED, Ending, Event, Generation, Guardian, Job,
    JobOrder, Node, ProcessHistory, ProcessNumber, ToGuardian, ToManager, Worker,
};

/// SplitMix64 (Steele, Lea & Flood 2014), sufficient for random choices.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Stage of a simulated process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Starting,
    /// Before the first generation; the process is ready for any.
    Spare,
    /// The process's MPI library is in its state before `MPI_Init` for this generation.
    Ready(Generation),
    /// The process is in that generation, this number of steps before the end.
    Running(Generation, u32),
    /// The process waits in `MPI_Finalize`.
    AtEnd(Generation),
    Dead,
}

struct Process {
    node: Node,
    at: Guardian,
    stage: Stage,
    /// State that a new manager receives from the guardian and the shared page.
    history: ProcessHistory,
    ending: Option<Ending>,
    /// True if the guardian has released the state of the process.
    is_forgotten: bool,
    /// Generation in the shared page.
    page: Generation,
    /// Worker that the process runs; `None` for a spare.
    part: Option<Worker>,
    /// Workers of which the process has replicas.
    copies: BTreeSet<Worker>,
    /// True if the replicas were handed over.
    keeps: bool,
    /// Worker whose replicas the process has adopted.
    of_dead: Option<Worker>,
}

/// Steps of the simulated program.
const STEPS: u32 = 6;
/// Number of steps before the end at which all processes hand over their replicas.
///
/// The processes continue when all have done so.
const CHECKPOINT: u32 = 4;

struct World {
    random: Random,
    job: Job,
    workers: usize,
    size: u32,
    now: Duration,
    processes: BTreeMap<ProcessNumber, Process>,
    /// Events in transit to the manager, in order for each sender.
    events: BTreeMap<ProcessNumber, VecDeque<Event>>,
    kills: u32,
    /// Number of managers that may still die.
    managers: u32,
    nodes: u32,
    losses: u32,
    lost: BTreeSet<Node>,
    /// Lost nodes that were not reported to the manager yet.
    news: Vec<Node>,
    /// Process that was asked for placement hints.
    queried: Option<ProcessNumber>,
    /// Workers of which replicas have existed.
    kept: BTreeSet<Worker>,
    /// True if the last replica of a worker is lost.
    is_doomed: bool,
    statuses: BTreeMap<Guardian, i32>,
    begun: Vec<(Generation, Vec<ProcessNumber>)>,
    is_ending: bool,
    /// True if a manager has received `Running` from a process.
    is_protected: bool,
    /// True if the manager has died after guardians had begun to exit.
    is_over: bool,
    printed: Vec<String>,
}

impl World {
    fn new(
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
            queried: None,
            kept: BTreeSet::new(),
            is_doomed: false,
            statuses: BTreeMap::new(),
            begun: Vec::new(),
            is_ending: false,
            is_protected: false,
            is_over: false,
            printed: Vec::new(),
        };
        for guardian in 0..workers + spares {
            let guardian = Guardian(guardian);
            world.happen(Event::GuardianJoined(guardian, world.node(guardian)));
        }
        world
    }

    fn node(&self, guardian: Guardian) -> Node {
        Node(guardian.0 % self.nodes)
    }

    fn happen(&mut self, event: Event) {
        self.is_protected |= matches!(event, Event::Message(_, ToManager::Running { .. }));
        let mut actions = self.job.handle(self.now, event);
        let dies = self.managers > 0 && !actions.is_empty() && self.random.below(20) == 0;
        if dies {
            let done = self.random.below(actions.len() as u64 + 1);
            actions.truncate(done as usize);
        }
        actions.into_iter().for_each(|action| self.act(action));
        if dies {
            self.follow();
        }
    }

    fn send(&mut self, number: ProcessNumber, event: Event) {
        self.events.entry(number).or_default().push_back(event);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Order(order) => self.obey(order),
            Action::Print(text) => self.printed.push(text),
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
                    .expect("only processes leave something");
                assert!(from.stage == Stage::Dead, "only the dead leave something");
                let (files, part, node) = (
                    std::mem::take(&mut from.copies),
                    from.part.or(from.of_dead),
                    from.node,
                );
                assert!(
                    std::mem::take(&mut from.keeps),
                    "without replicas, no process takes them over"
                );
                let adopter = self
                    .processes
                    .get_mut(&adopter)
                    .expect("the receiver of replicas is a process");
                assert!(!adopter.keeps, "the receiver of replicas has no others");
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
                    "spares are forgotten"
                );
                assert!(
                    !start.is_first || self.kept.is_empty(),
                    "what there is would be forgotten"
                );
                self.begin(start.generation, ranks);
            }
            JobOrder::RequestPlacementHints {
                number,
                failed: fallen,
            } => {
                assert!(!fallen.is_empty(), "a question without a process");
                self.queried = Some(number);
            }
            JobOrder::End { is_good } => self.is_ending |= is_good,
            JobOrder::Admit { .. } | JobOrder::CountSpareDeath => {}
        }
    }

    fn send_to_guardian(&mut self, at: Guardian, message: ToGuardian) {
        match message {
            ToGuardian::Start {
                number,
                is_restart: anew,
            } => self.start(number, at, anew),
            ToGuardian::Kill { number } => self.kill(number),
            ToGuardian::Leave { status } => drop(self.statuses.insert(at, status)),
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
            let is_news = self
                .events
                .get(number)
                .is_some_and(|events| events.iter().any(is_end));
            process.is_forgotten |= process.ending.is_some() && !is_news;
        }
        for number in &ranks {
            let process = self.processes.get_mut(number).expect("a rank is a process");
            (
                process.history.was_in_generation,
                process.history.is_protected,
            ) = (true, self.is_protected);
            // The process may have died or left for the next generation since.
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

    /// Loses a node: no message of its processes arrives any more.
    fn lose(&mut self, node: Node) {
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
        let said = match process.stage {
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
        self.send(number, Event::Message(number, said));
    }

    fn advance(&mut self, number: ProcessNumber, of: Generation, left: u32) {
        let process = self.processes.get_mut(&number).expect("a process");
        process.stage = Stage::Running(of, left - 1);
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.below(from.len() as u64) as usize])
    }

    /// Simulates one random occurrence; returns false when the job is over.
    fn turn(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let late: Vec<ProcessNumber> = self
            .events
            .iter()
            .filter(|(_, it)| !it.is_empty())
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
            self.printed.push("a copy is lost".into());
            self.happen(Event::Abort(EXIT_NOT_RECOVERED));
        } else if self.losses > 0 && self.random.below(60) == 0 {
            self.losses -= 1;
            let node = Node(self.random.below(u64::from(self.nodes)) as u32);
            self.lose(node);
        } else if !self.news.is_empty() && self.random.below(8) == 0 {
            let node = self.news.remove(0);
            self.happen(Event::NodeLost(node, Duration::ZERO));
        } else if self.managers > 0 && self.random.below(50) == 0 {
            self.follow();
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

/// A job that was not completed.
#[derive(PartialEq, Eq, Debug)]
struct Lost {
    printed: Vec<String>,
    /// True if there was a checkpoint.
    had_copies: bool,
}

/// Simulates a job to its end.
fn play(seed: u64, [workers, spares]: [u32; 2], deaths: [u32; 2], nodes: [u32; 2]) -> Option<Lost> {
    let mut world = World::new(seed, [workers, spares], deaths, nodes);
    let mut turns = 0;
    while world.turn() {
        turns += 1;
        assert!(
            turns < 100_000,
            "seed {seed}: the job hangs: {:?}",
            world.job
        );
    }
    let left = (0..workers + spares).filter(|&it| !world.lost.contains(&world.node(Guardian(it))));
    let have_left = |it: u32| world.statuses.contains_key(&Guardian(it));
    assert!(
        left.into_iter().all(have_left),
        "seed {seed}: every guardian leaves"
    );
    let status = world.statuses.values().copied().max().unwrap_or_default();
    // A death after the end only sets the status.
    assert!(
        [0, EXIT_NOT_RECOVERED, 137].contains(&status),
        "seed {seed}: status {status}"
    );
    assert!(
        status != EXIT_NOT_RECOVERED || !world.printed.is_empty(),
        "seed {seed}: it is lost in silence"
    );
    (status == EXIT_NOT_RECOVERED).then_some(Lost {
        printed: world.printed,
        had_copies: !world.kept.is_empty(),
    })
}

#[test]
fn a_job_without_deaths_has_one_generation() {
    for seed in 0..100 {
        let mut world = World::new(seed, [4, 1], [0, 0], [1, 0]);
        while world.turn() {}
        assert_eq!(world.begun.len(), 1, "seed {seed}");
    }
}

#[test]
fn the_job_completes_after_any_failure() {
    for seed in 0..20_000 {
        let (spares, kills) = ((seed % 3) as u32, (seed % 6) as u32);
        let lost = play(seed, [4, spares], [kills, 0], [1, 0]);
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

#[test]
fn managers_may_die_at_any_moment_and_processes_with_them() {
    for seed in 0..40_000 {
        let (spares, kills, managers) =
            ((seed % 3) as u32, (seed % 5) as u32, 1 + (seed % 4) as u32);
        let lost = play(
            seed,
            [1 + (seed / 8 % 4) as u32, spares],
            [kills, managers],
            [1, 0],
        );
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

#[test]
fn the_job_completes_after_any_failure_on_several_nodes() {
    for seed in 0..20_000 {
        let (spares, kills, nodes) = ((seed % 3) as u32, (seed % 6) as u32, 2 + (seed % 2) as u32);
        let lost = play(seed, [4, spares], [kills, 0], [nodes, 0]);
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

/// The output of a lost node's processes before the first checkpoint is unknown.
#[test]
fn the_loss_of_a_node_is_survived_once_there_are_copies() {
    let mut survived = 0;
    for seed in 0..20_000 {
        let (spares, kills) = ((seed % 3) as u32, (seed % 4) as u32);
        let (nodes, losses) = (2 + (seed / 4 % 3) as u32, 1 + (seed / 16 % 2) as u32);
        match play(seed, [4, spares], [kills, 0], [nodes, losses]) {
            None => survived += 1,
            Some(lost) => assert!(losses > 1 || !lost.had_copies, "seed {seed}: {lost:?}"),
        }
    }
    assert!(survived > 10_000, "only {survived} jobs have survived");
}
