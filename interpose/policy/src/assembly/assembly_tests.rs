//! Random programs of several threads: no deadlock, and one order of common calls.
//!
//! No thread waits forever, and all processes enter their common calls in one order.

use super::{Assemblies, AssemblyMessage, OtherSide, Side};
use crate::dice::Dice;
use crate::gathering::EntryVotes;
use std::collections::{BTreeMap, VecDeque};
use understudy_numbers::Worker;

const PROGRAMS: u64 = 2_000;

/// Number of a process, and of its thread that calls.
type Member = (usize, usize);

/// Call that all members make together.
#[derive(Debug)]
enum Call {
    /// Collective of one communicator.
    Collective(Comm),
    /// Constructor with one or two sides.
    Constructor(Vec<Vec<Member>>),
}

#[derive(Debug, Default)]
struct Comm {
    members: Vec<Member>,
    /// Votes on the current collective, by process.
    votes: BTreeMap<usize, bool>,
    /// Result of the last round, and the processes that have not read it.
    last_result: Option<(bool, Vec<usize>)>,
}

impl Call {
    fn members(&self) -> Vec<Member> {
        match self {
            Call::Collective(comm) => comm.members.clone(),
            Call::Constructor(sides) => sides.concat(),
        }
    }
}

#[derive(Debug, Default)]
struct Thread {
    /// Calls in order.
    program: VecDeque<usize>,
    is_waiting: bool,
}

#[derive(Debug)]
struct Process {
    threads: Vec<Thread>,
    gatherings: EntryVotes,
    assemblies: Assemblies,
    is_inside: bool,
    entered: Vec<usize>,
}

struct AssemblyTestJob {
    dice: Dice,
    processes: Vec<Process>,
    calls: Vec<Call>,
    /// Processes inside of each call.
    inside: Vec<Vec<usize>>,
    /// Messages in transit, by sender and receiver.
    on_their_way: BTreeMap<(usize, usize), VecDeque<AssemblyMessage>>,
}

fn worker(process: usize) -> Worker {
    Worker(process as u32)
}

/// Returns a member's description of its side in a constructor.
fn side_of(number: usize, sides: &[Vec<Member>], process: usize) -> Side {
    let is_mine = |side: &Vec<Member>| side.iter().any(|member| member.0 == process);
    let mine = sides.iter().position(is_mine).unwrap();
    let leader = |side: usize| worker(sides[side].last().unwrap().0);
    let name = |part: usize| 1_000 + (3 * number + part) as u64;
    let other = (sides.len() == 2 && leader(mine) == worker(process)).then(|| OtherSide {
        name: name(2),
        leader: leader(1 - mine),
    });
    Side {
        name: name(mine),
        members: sides[mine].iter().map(|member| worker(member.0)).collect(),
        leader: leader(mine),
        other,
    }
}

impl AssemblyTestJob {
    fn new(seed: u64) -> AssemblyTestJob {
        let mut dice = Dice(seed);
        let process = |dice: &mut Dice| Process {
            threads: (0..1 + dice.below(4)).map(|_| Thread::default()).collect(),
            gatherings: EntryVotes::NONE,
            assemblies: Assemblies::NONE,
            is_inside: false,
            entered: Vec::new(),
        };
        let processes: Vec<Process> = (0..2 + dice.below(4)).map(|_| process(&mut dice)).collect();
        let mut job = AssemblyTestJob {
            calls: Vec::new(),
            inside: Vec::new(),
            on_their_way: BTreeMap::new(),
            dice,
            processes,
        };
        for _ in 0..1 + job.dice.below(6) {
            let members = job.some_members();
            let call = if members.is_empty() || job.dice.below(2) == 0 {
                let members = members.into_iter().collect();
                Call::Collective(Comm {
                    members,
                    ..Comm::default()
                })
            } else {
                let mut sides = vec![Vec::new(), Vec::new()];
                for member in members {
                    sides[job.dice.below(2)].push(member);
                }
                sides.retain(|side| !side.is_empty());
                Call::Constructor(sides)
            };
            job.calls.push(call);
            job.inside.push(Vec::new());
        }
        // One global order of the calls, so that the program ends if threads are never blocked.
        for _ in 0..30 {
            let call = job.dice.below(job.calls.len());
            for (process, thread) in job.calls[call].members() {
                job.processes[process].threads[thread]
                    .program
                    .push_back(call);
            }
        }
        job
    }

    fn some_members(&mut self) -> Vec<Member> {
        let count = self.processes.len();
        let wanted = 1 + self.dice.below(count);
        let mut members = Vec::new();
        for process in 0..count {
            if self.dice.below(count) < wanted {
                members.push((
                    process,
                    self.dice.below(self.processes[process].threads.len()),
                ));
            }
        }
        members
    }

    /// Advances one thread as far as possible, or delivers a message.
    fn step(&mut self) {
        if self.dice.below(3) == 0 {
            return self.deliver();
        }
        let process = self.dice.below(self.processes.len());
        let thread = self.dice.below(self.processes[process].threads.len());
        let first = self.processes[process].threads[thread].program.front();
        let Some(&number) = first.filter(|_| !self.processes[process].is_inside) else {
            return;
        };
        let enters = match &mut self.calls[number] {
            Call::Collective(comm) => gather(
                &mut self.processes[process],
                (process, thread),
                number,
                comm,
            ),
            Call::Constructor(sides) => {
                let side = side_of(number, sides, process);
                let (enters, messages) =
                    assemble(&mut self.processes[process], (process, thread), side);
                for (to, message) in messages {
                    let way = self.on_their_way.entry((process, to.index()));
                    way.or_default().push_back(message);
                }
                enters
            }
        };
        if enters {
            let own = &mut self.processes[process];
            own.threads[thread].is_waiting = false;
            own.threads[thread].program.pop_front();
            own.is_inside = true;
            own.entered.push(number);
            self.inside[number].push(process);
        }
        self.simulate_library(number);
    }

    /// Delivers a message; messages between two processes keep their order.
    fn deliver(&mut self) {
        let ways = self.on_their_way.len();
        if ways == 0 {
            return;
        }
        let at = self.dice.below(ways);
        if let Some((&(from, to), queue)) = self.on_their_way.iter_mut().nth(at) {
            if let Some(message) = queue.pop_front() {
                self.processes[to].assemblies.receive(worker(from), message);
            }
            self.on_their_way.retain(|_, queue| !queue.is_empty());
        }
    }

    /// Simulates the library.
    ///
    /// A round ends after all votes, and a call ends when all members are inside.
    fn simulate_library(&mut self, number: usize) {
        let members = self.calls[number].members().len();
        if let Call::Collective(comm) = &mut self.calls[number]
            && comm.votes.len() == members
        {
            let would_enter = comm.votes.values().all(|&vote| vote);
            comm.votes.clear();
            comm.last_result = Some((
                would_enter,
                comm.members.iter().map(|&(process, _)| process).collect(),
            ));
        }
        if self.inside[number].len() == members {
            for process in self.inside[number].drain(..) {
                self.processes[process].is_inside = false;
            }
        }
    }

    fn is_over(&self) -> bool {
        let mut threads = self.processes.iter().flat_map(|process| &process.threads);
        threads.all(|thread| thread.program.is_empty())
    }
}

/// Polls the collective at whose entry a thread is; returns true if the thread enters.
fn gather(own: &mut Process, (process, thread): Member, number: usize, comm: &mut Comm) -> bool {
    let is_alone = own.threads.len() == 1;
    if !std::mem::replace(&mut own.threads[thread].is_waiting, true) {
        comm.votes
            .insert(process, own.gatherings.arrive(number as u64, is_alone));
        return false;
    }
    let Some((would_enter, must_receive)) = &mut comm.last_result else {
        return false;
    };
    let Some(at) = must_receive.iter().position(|&who| who == process) else {
        return false;
    };
    must_receive.swap_remove(at);
    if *would_enter {
        own.gatherings.enter(number as u64);
        return true;
    }
    comm.votes
        .insert(process, own.gatherings.next_vote(number as u64));
    false
}

/// Advances a constructor; returns true if the thread enters, and the messages to send.
fn assemble(
    own: &mut Process,
    (process, thread): Member,
    side: Side,
) -> (bool, Vec<(Worker, AssemblyMessage)>) {
    let me = worker(process);
    if !own.assemblies.is_pending(thread) {
        own.assemblies.arrive(me, thread, side);
    }
    let enters = own.assemblies.advance(me, thread, &mut own.gatherings);
    (enters, own.assemblies.take_outgoing())
}

#[test]
fn no_thread_waits_for_ever_and_all_enter_in_one_order() {
    for seed in 0..PROGRAMS {
        let mut job = AssemblyTestJob::new(seed);
        let mut steps = 0u32;
        while !job.is_over() {
            job.step();
            steps += 1;
            assert!(steps < 400_000, "seed {seed} waits forever");
        }
        for one in &job.processes {
            for other in &job.processes {
                let both = |process: &Process, with: &Process| -> Vec<usize> {
                    let shared = |call: &&usize| with.entered.contains(call);
                    process.entered.iter().filter(shared).copied().collect()
                };
                assert_eq!(both(one, other), both(other, one), "seed {seed}");
            }
        }
    }
}
