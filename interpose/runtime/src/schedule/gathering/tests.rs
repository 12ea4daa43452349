//! Random programs of several threads: none waits for ever, and all processes enter collectives in one order.

use super::Gatherings;
use crate::schedule::dice::Dice;
use std::collections::{BTreeMap, VecDeque};

const PROGRAMS: u64 = 1_500;

/// A communicator's members, each with the thread that uses it.
#[derive(Debug)]
struct Comm {
    members: Vec<(usize, usize)>,
    /// The words on the collective that is under way, by process.
    words: BTreeMap<usize, bool>,
    /// What all have said in the last round, and who has not heard of it.
    said: Option<(bool, Vec<usize>)>,
    /// Who is inside.
    inside: Vec<usize>,
}

#[derive(Debug, Default)]
struct Thread {
    /// The communicators of its collectives, in order.
    program: VecDeque<usize>,
    is_waiting: bool,
}

#[derive(Debug)]
struct Process {
    threads: Vec<Thread>,
    gatherings: Gatherings,
    is_inside: bool,
    entered: Vec<usize>,
}

struct Job {
    dice: Dice,
    processes: Vec<Process>,
    comms: Vec<Comm>,
}

impl Job {
    fn new(seed: u64) -> Job {
        let mut job = Job {
            dice: Dice(seed),
            processes: Vec::new(),
            comms: Vec::new(),
        };
        for _ in 0..2 + job.dice.below(4) {
            let threads = (0..1 + job.dice.below(4)).map(|_| Thread::default()).collect();
            job.processes.push(Process {
                threads,
                gatherings: Gatherings::NONE,
                is_inside: false,
                entered: Vec::new(),
            });
        }
        for _ in 0..1 + job.dice.below(5) {
            let wanted = 1 + job.dice.below(job.processes.len());
            let mut members = Vec::new();
            for process in 0..job.processes.len() {
                if job.dice.below(job.processes.len()) < wanted {
                    members.push((process, job.dice.below(job.processes[process].threads.len())));
                }
            }
            job.comms.push(Comm {
                members,
                words: BTreeMap::new(),
                said: None,
                inside: Vec::new(),
            });
        }
        // One order of all, so that the program ends where threads need nobody's leave.
        for _ in 0..30 {
            let comm = job.dice.below(job.comms.len());
            for &(process, thread) in &job.comms[comm].members {
                job.processes[process].threads[thread].program.push_back(comm);
            }
        }
        job
    }

    /// One thread goes as far as it can.
    fn step(&mut self) {
        let process = self.dice.below(self.processes.len());
        let thread = self.dice.below(self.processes[process].threads.len());
        let Process {
            threads,
            gatherings,
            is_inside,
            entered,
        } = &mut self.processes[process];
        let is_alone = threads.len() == 1;
        let own = &mut threads[thread];
        let Some(&number) = own.program.front().filter(|_| !*is_inside) else {
            return;
        };
        let comm = &mut self.comms[number];
        if !own.is_waiting {
            own.is_waiting = true;
            comm.words.insert(process, gatherings.come(number as u64, is_alone));
        } else if let Some((would_enter, hear)) = &mut comm.said
            && let Some(at) = hear.iter().position(|&who| who == process)
        {
            hear.swap_remove(at);
            if *would_enter {
                gatherings.enter(number as u64);
                own.is_waiting = false;
                own.program.pop_front();
                *is_inside = true;
                entered.push(number);
                comm.inside.push(process);
            } else {
                comm.words.insert(process, gatherings.again(number as u64));
            }
        }
        self.go_on(number);
    }

    /// What the library does: a round ends when all have given their word, a collective when all are inside.
    fn go_on(&mut self, number: usize) {
        let comm = &mut self.comms[number];
        let members = comm.members.len();
        if comm.words.len() == members {
            let would_enter = comm.words.values().all(|&word| word);
            comm.words.clear();
            comm.said = Some((would_enter, comm.members.iter().map(|&(process, _)| process).collect()));
        }
        if comm.inside.len() == members {
            for process in comm.inside.drain(..) {
                self.processes[process].is_inside = false;
            }
        }
    }

    fn is_over(&self) -> bool {
        let mut threads = self.processes.iter().flat_map(|process| &process.threads);
        threads.all(|thread| thread.program.is_empty())
    }
}

#[test]
fn no_thread_waits_for_ever_and_all_enter_in_one_order() {
    for seed in 0..PROGRAMS {
        let mut job = Job::new(seed);
        let mut steps = 0u32;
        while !job.is_over() {
            job.step();
            steps += 1;
            assert!(steps < 200_000, "seed {seed} waits for ever");
        }
        for one in &job.processes {
            for other in &job.processes {
                let both = |process: &Process, with: &Process| -> Vec<usize> {
                    let shared = |comm: &&usize| with.entered.contains(comm);
                    process.entered.iter().filter(shared).copied().collect()
                };
                assert_eq!(both(one, other), both(other, one), "seed {seed}");
            }
        }
    }
}
