//! The protocol among simulated processes, with deaths at any moment, by seed.
//!
//! A simulated process goes through its stages by itself, and what it says, and what it is told, arrives late. Guardians report deaths late, too. In each
//! run some processes are killed; the job must come to its end, in a generation that has all workers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use understudy_protocol::{Action, Ending, Event, Generation, Guardian, Job, LOST, Number, Said};

/// SplitMix64 (Steele, Lea & Flood 2014): good enough to choose.
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

/// Where a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Before MPI_Init.
    Starting,
    /// Its library is as before MPI_Init for this generation; it waits.
    Ready(Generation),
    /// It is in that generation, so many steps from the end of the program.
    Running(Generation, u32),
    /// It waits in MPI_Finalize.
    AtEnd(Generation),
    Dead,
}

struct Process {
    stage: Stage,
    /// The generation in its page.
    page: Generation,
    /// The worker that it plays, if it does not only wait.
    part: Option<u32>,
    /// It has handed over its copies.
    keeps: bool,
}

/// Steps of the simulated program, of which the first ones are before the first checkpoint.
const STEPS: u32 = 6;
const UNPROTECTED: u32 = 2;

struct World {
    random: Random,
    job: Job,
    workers: usize,
    now: Duration,
    processes: BTreeMap<Number, Process>,
    /// On their way to the manager, in order for each sender.
    events: BTreeMap<Number, VecDeque<Event>>,
    kills: u32,
    statuses: BTreeMap<Guardian, i32>,
    begun: Vec<(Generation, Vec<Number>)>,
    is_ending: bool,
    said: Vec<String>,
}

impl World {
    fn new(seed: u64, workers: u32, spares: u32, kills: u32) -> World {
        let mut world = World {
            random: Random(seed),
            job: Job::new(workers, spares),
            workers: workers as usize,
            now: Duration::ZERO,
            processes: BTreeMap::new(),
            events: BTreeMap::new(),
            kills,
            statuses: BTreeMap::new(),
            begun: Vec::new(),
            is_ending: false,
            said: Vec::new(),
        };
        for guardian in 0..workers + spares {
            world.happen(Event::Came(Guardian(guardian)));
        }
        world
    }

    fn happen(&mut self, event: Event) {
        for action in self.job.handle(self.now, event) {
            self.act(action);
        }
    }

    fn say(&mut self, number: Number, event: Event) {
        self.events.entry(number).or_default().push_back(event);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { number, .. } => {
                let process = Process {
                    stage: Stage::Starting,
                    page: self.job.generation(),
                    part: None,
                    keeps: false,
                };
                let before = self.processes.insert(number, process);
                // Its line is a new one.
                self.events.remove(&number);
                assert!(
                    before.is_none_or(|it| it.stage == Stage::Dead),
                    "two processes of number {number}"
                );
            }
            Action::Announce(generation) => {
                for process in self.processes.values_mut() {
                    process.page = generation;
                }
            }
            Action::Inherit { heir, from } => {
                let from = &self.processes[&from];
                assert!(from.keeps && from.stage == Stage::Dead, "only the dead leave something");
                let heir = self.processes.get_mut(&heir).expect("an heir is a process");
                assert!(!heir.keeps, "an heir has nothing else");
                heir.keeps = true;
            }
            Action::Begin { generation, ranks } => self.begin(generation, ranks),
            Action::Kill { number, .. } => self.kill(number),
            Action::End { is_good } => self.is_ending |= is_good,
            Action::Admit { .. } => {}
            Action::Leave { at, status } => drop(self.statuses.insert(at, status)),
            Action::Say(text) => self.said.push(text),
        }
    }

    fn begin(&mut self, generation: Generation, ranks: Vec<Number>) {
        let last = self.begun.last().map(|(last, _)| *last);
        assert!(last.is_none_or(|last| last < generation), "generations begin in order");
        assert!(ranks.len() >= self.workers, "a generation lacks workers");
        for (index, number) in ranks.iter().enumerate() {
            let process = self.processes.get_mut(number).expect("a rank is a process");
            // It may have died, or left for the next generation, since.
            if process.stage == Stage::Ready(generation) {
                process.stage = Stage::Running(generation, STEPS);
                process.part = (index < self.workers).then_some(index as u32);
            } else {
                assert!(
                    process.stage == Stage::Dead || process.page > generation,
                    "{number} was not ready"
                );
            }
        }
        self.begun.push((generation, ranks));
    }

    fn kill(&mut self, number: Number) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        if process.stage != Stage::Dead {
            process.stage = Stage::Dead;
            self.say(number, Event::Ended(number, Ending::Signal(9)));
            self.say(number, Event::Closed(number, 0));
        }
    }

    /// One process goes a step further.
    fn step(&mut self, number: Number) {
        let is_ending = self.is_ending;
        let process = self.processes.get_mut(&number).expect("a process");
        let page = process.page;
        let said = match process.stage {
            Stage::Dead => return,
            Stage::Starting => {
                process.stage = Stage::Ready(page);
                Said::Ready(page)
            }
            Stage::Ready(_) | Stage::Running(..) | Stage::AtEnd(_) if is_ending => {
                process.stage = Stage::Dead;
                self.say(number, Event::Ended(number, Ending::Exit(0)));
                self.say(number, Event::Closed(number, 0));
                return;
            }
            Stage::Ready(of) | Stage::Running(of, _) | Stage::AtEnd(of) if of != page => {
                process.stage = Stage::Ready(page);
                Said::Ready(page)
            }
            Stage::Running(of, 0) if process.part.is_some() => {
                process.stage = Stage::AtEnd(of);
                Said::AtEnd(of)
            }
            Stage::Running(of, left) if left > 0 => {
                process.stage = Stage::Running(of, left - 1);
                if left != STEPS - UNPROTECTED {
                    return;
                }
                process.keeps |= process.part.is_some();
                let kept = process.part.map(Said::Keeps);
                kept.into_iter()
                    .for_each(|said| self.say(number, Event::Said(number, said)));
                Said::Running(of)
            }
            _ => return,
        };
        self.say(number, Event::Said(number, said));
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.below(from.len() as u64) as usize])
    }

    /// Something happens somewhere. False: nothing can any more.
    fn turn(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let late: Vec<Number> = self
            .events
            .iter()
            .filter(|(_, it)| !it.is_empty())
            .map(|(&it, _)| it)
            .collect();
        let living = |(_, process): &(&Number, &Process)| process.stage != Stage::Dead;
        let living: Vec<Number> = self.processes.iter().filter(living).map(|(&it, _)| it).collect();
        if self.kills > 0 && self.random.below(25) == 0 {
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
        !self.job.is_over()
    }
}

/// Plays a job to its end; whether it has been lost.
fn play(seed: u64, workers: u32, spares: u32, kills: u32) -> bool {
    let mut world = World::new(seed, workers, spares, kills);
    let mut turns = 0;
    while world.turn() {
        turns += 1;
        assert!(turns < 100_000, "seed {seed}: the job hangs: {:?}", world.job);
    }
    assert_eq!(world.statuses.len() as u32, workers + spares, "every guardian leaves");
    let status = world.statuses.values().copied().max().unwrap_or_default();
    // A death after the end is only a status.
    assert!([0, LOST, 137].contains(&status), "seed {seed}: status {status}");
    assert!(
        status != LOST || !world.said.is_empty(),
        "seed {seed}: it is lost in silence"
    );
    status == LOST
}

#[test]
fn a_job_without_deaths_has_one_generation() {
    for seed in 0..100 {
        let mut world = World::new(seed, 4, 1, 0);
        while world.turn() {}
        assert_eq!(world.begun.len(), 1, "seed {seed}");
    }
}

#[test]
fn whoever_dies_and_whenever_the_job_comes_to_its_end() {
    for seed in 0..5_000 {
        let (spares, kills) = ((seed % 3) as u32, (seed % 6) as u32);
        assert!(!play(seed, 4, spares, kills), "seed {seed}: the job is lost");
    }
}

#[test]
fn a_hundred_thousand_processes_cost_little() {
    const WORKERS: u32 = 100_000;
    let (mut job, now) = (Job::new(WORKERS, 1), Duration::ZERO);
    let mut do_with_all = |event: &dyn Fn(u32) -> Event| {
        let events = (0..=WORKERS).map(event);
        events.flat_map(|event| job.handle(now, event)).collect::<Vec<Action>>()
    };
    assert_eq!(do_with_all(&|it| Event::Came(Guardian(it))).len() as u32, WORKERS + 1);
    let first = Generation(0);
    let begun = do_with_all(&|it| Event::Said(Number(it), Said::Ready(first)));
    assert!(matches!(&begun[..], [Action::Begin { ranks, .. }] if ranks.len() as u32 == WORKERS + 1));
    do_with_all(&|it| Event::Said(Number(it), Said::Running(first)));
    let announced = job.handle(now, Event::Ended(Number(7), Ending::Signal(9)));
    assert_eq!(announced, [Action::Announce(Generation(1))]);
    let ready = |it| Event::Said(Number(it), Said::Ready(Generation(1)));
    let begun: Vec<Action> = (0..=WORKERS).flat_map(|it| job.handle(now, ready(it))).collect();
    assert!(matches!(&begun[..], [Action::Begin { ranks, .. }] if ranks.len() as u32 == WORKERS));
}

#[test]
fn the_next_program_of_a_script_is_a_job_like_the_first() {
    let (mut job, now) = (Job::new(2, 0), Duration::ZERO);
    let mut all = |event: &dyn Fn(u32) -> Event| {
        (0..2)
            .flat_map(|it| job.handle(now, event(it)))
            .collect::<Vec<Action>>()
    };
    all(&|it| Event::Came(Guardian(it)));
    for program in 0..2 {
        let generation = Generation(program);
        let said = |said: Said| move |it| Event::Said(Number(it), said);
        all(&|it| Event::Called(Number(it)));
        let begun = all(&said(Said::Ready(generation)));
        assert!(matches!(&begun[..], [Action::Begin { generation: of, .. }] if *of == generation));
        all(&said(Said::Running(generation)));
        assert_eq!(all(&said(Said::AtEnd(generation))), [Action::End { is_good: true }]);
    }
}

#[test]
fn a_process_that_dies_in_every_generation_ends_the_job() {
    let (mut job, now) = (Job::new(1, 0), Duration::ZERO);
    let mut number = Number(0);
    let mut actions = job.handle(now, Event::Came(Guardian(0)));
    for generation in (0..100).map(Generation) {
        actions.extend(job.handle(now, Event::Said(number, Said::Ready(generation))));
        if generation == Generation(0) {
            job.handle(now, Event::Said(number, Said::Running(generation)));
            job.handle(now, Event::Said(number, Said::Keeps(0)));
        }
        actions.extend(job.handle(now, Event::Ended(number, Ending::Signal(9))));
        actions.extend(job.handle(now, Event::Closed(number, 0)));
        number = Number(number.0 + 1);
    }
    let left = actions.iter().find_map(|action| match action {
        Action::Leave { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(left, Some(LOST), "it goes on for ever");
    assert!(
        actions.iter().any(|action| matches!(action, Action::Say(_))),
        "in silence"
    );
}
