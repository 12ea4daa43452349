//! Random programs and networks: no deadlock, and consistent cuts.
//!
//! No worker waits forever. At a cut all workers stand still outside of collectives.

use super::{AgreementVotes, CallAction, VoteAction, VoteKind, WorkerState};
use crate::dice::Dice;
use crate::max_reduction::Numbers;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const PROGRAMS: u64 = 20_000;
/// Number of polls per resumption of a worker that stands still, on average.
const POLLS_PER_RESUMPTION: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Send(usize),
    Receive(usize),
    /// Number of a collective, which is in the programs of all its members.
    Collective(usize),
    /// Sets a flag in memory, without MPI. `Await` waits for the flag.
    Set(usize),
    Await(usize),
}

#[derive(Debug)]
struct Worker {
    program: VecDeque<Step>,
    /// True inside of a call that does not poll.
    is_blind: bool,
    is_requested: bool,
    votes: AgreementVotes,
    /// Vote under way.
    kind: VoteKind,
    /// Last attempt for which the worker has voted, by vote.
    voted: [u64; 3],
    /// Received attempts during which a worker has resumed.
    news: VecDeque<u64>,
    /// Number of received messages, by sender.
    received: Vec<u64>,
    cuts: u64,
}

impl Worker {
    fn new() -> Worker {
        Worker {
            program: VecDeque::new(),
            is_blind: false,
            is_requested: false,
            votes: AgreementVotes::NONE,
            kind: VoteKind::First,
            voted: [0; 3],
            news: VecDeque::new(),
            received: Vec::new(),
            cuts: 0,
        }
    }
}

#[derive(Debug, Default)]
struct Collective {
    members: Vec<usize>,
    entered: Vec<usize>,
    /// True if the first member waits for no other.
    is_broadcast: bool,
}

impl Collective {
    fn may_leave(&self, who: usize) -> bool {
        let first = self.members[0];
        match self.is_broadcast {
            true => who == first || self.entered.contains(&first),
            false => self.entered.len() == self.members.len(),
        }
    }
}

#[derive(Debug)]
struct AgreementTestJob {
    dice: Dice,
    workers: Vec<Worker>,
    collectives: Vec<Collective>,
    /// Numbers of the votes, by attempt.
    numbers: [BTreeMap<u64, Vec<Numbers>>; 3],
    flags: Vec<bool>,
    /// Number of cuts.
    cuts: u64,
}

impl AgreementTestJob {
    /// Creates programs from one global order of events, so that all of them terminate.
    ///
    /// Each worker's program consists of the events that concern the worker.
    fn new(seed: u64) -> AgreementTestJob {
        let mut job = AgreementTestJob {
            dice: Dice(seed),
            workers: Vec::new(),
            collectives: Vec::new(),
            numbers: Default::default(),
            flags: Vec::new(),
            cuts: 0,
        };
        let count = 2 + job.dice.below(4);
        job.workers.resize_with(count, Worker::new);
        job.workers
            .iter_mut()
            .for_each(|worker| worker.received = vec![0; count]);
        for _ in 0..job.dice.below(60) {
            let [from, to] = [job.dice.below(count), job.dice.below(count)];
            if job.dice.below(8) == 0 {
                job.workers[from]
                    .program
                    .push_back(Step::Set(job.flags.len()));
                job.workers[to]
                    .program
                    .push_back(Step::Await(job.flags.len()));
                job.flags.push(false);
            } else if job.dice.below(6) > 0 {
                job.workers[from].program.push_back(Step::Send(to));
                job.workers[to].program.push_back(Step::Receive(from));
            } else {
                let members = (0..count).filter(|_| job.dice.below(2) == 0).collect();
                let is_broadcast = job.dice.below(2) == 0;
                job.collective(members, is_broadcast);
            }
        }
        job.collective((0..count).collect(), false);
        job
    }

    fn collective(&mut self, members: Vec<usize>, is_broadcast: bool) {
        let number = self.collectives.len();
        members.iter().for_each(|&member| {
            self.workers[member]
                .program
                .push_back(Step::Collective(number))
        });
        self.collectives.push(Collective {
            members,
            entered: Vec::new(),
            is_broadcast,
        });
    }

    fn is_over(&self, vote: usize, attempt: u64) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.voted[vote] >= attempt)
    }

    fn notify_all(&mut self, attempt: u64) {
        self.workers
            .iter_mut()
            .for_each(|worker| worker.news.push_back(attempt));
    }

    /// Polls at a call of a worker; returns true if the worker may resume.
    fn poll(&mut self, who: usize) -> bool {
        // Notifications and ends of votes arrive late.
        while self.dice.below(3) > 0
            && let Some(attempt) = self.workers[who].news.pop_front()
        {
            if self.workers[who].votes.agreement.record_resumption(attempt) {
                self.notify_all(attempt);
            }
        }
        let mut votes = self.workers[who].votes;
        if !votes.agreement.is_under_way() {
            if !std::mem::take(&mut self.workers[who].is_requested) {
                return true;
            }
            let action = votes.begin(WorkerState::default(), [0; 2]);
            self.start_vote(who, votes.agreement.number(), action);
        }
        let attempt = votes.agreement.number();
        let kind = self.workers[who].kind as usize;
        if self.is_over(kind, attempt) && self.dice.below(3) > 0 {
            let all = self.numbers[kind][&attempt].iter().copied();
            let maxima = all.reduce(|all, own| std::array::from_fn(|at| all[at].max(own[at])));
            let maxima = maxima.expect("all have voted");
            let action = votes.end_vote(maxima, WorkerState::default(), Duration::ZERO);
            self.start_vote(who, attempt, action);
        } else if votes.agreement.permitted_action() == CallAction::Stop
            && votes.agreement.may_resume()
            && self.dice.below(POLLS_PER_RESUMPTION) == 0
        {
            assert!(votes.give_up_after(Duration::MAX, Duration::ZERO));
            assert!(votes.agreement.resume(), "{votes:?}");
            self.notify_all(attempt);
        }
        self.workers[who].votes = votes;
        match votes.agreement.permitted_action() {
            CallAction::Resume => true,
            CallAction::Stop => false,
            CallAction::Cut => {
                self.cut(who);
                true
            }
        }
    }

    /// Records the numbers of a vote that starts; another action ends the attempt.
    fn start_vote(&mut self, who: usize, attempt: u64, action: VoteAction) {
        if let VoteAction::Start(kind, numbers) = action {
            let all = self.numbers[kind as usize].entry(attempt).or_default();
            all.push(numbers);
            self.workers[who].kind = kind;
            self.workers[who].voted[kind as usize] = attempt;
        }
    }

    /// Takes the cut; asserts that each other worker has taken it or stands still.
    fn cut(&mut self, who: usize) {
        let number = self.workers[who].votes.agreement.number();
        for other in &self.workers {
            let has_taken = other.cuts > self.workers[who].cuts;
            assert!(!other.is_blind || has_taken, "{other:?} does not poll");
            assert!(
                has_taken || other.votes.agreement.permitted_action() != CallAction::Resume,
                "{other:?} resumes"
            );
            assert!(has_taken || other.votes.agreement.number() == number);
        }
        self.workers[who].cuts += 1;
        self.cuts = self.cuts.max(self.workers[who].cuts);
        self.workers[who].votes.end();
    }

    /// Executes one step of a worker; returns false if the worker cannot proceed.
    fn step(&mut self, who: usize) -> bool {
        if self.dice.below(30) == 0 {
            self.workers[who].is_requested = true;
        }
        let Some(&next) = self.workers[who].program.front() else {
            return false;
        };
        // The cut itself waits for all workers.
        if self
            .workers
            .iter()
            .any(|worker| worker.cuts < self.workers[who].cuts)
        {
            return false;
        }
        let polls =
            self.workers[who].votes.agreement.is_under_way() || self.workers[who].is_requested;
        match next {
            // A worker in a wait without polling receives no request before the wait is over.
            Step::Receive(_) | Step::Send(_)
                if !self.workers[who].is_blind && polls && !self.poll(who) =>
            {
                return true;
            }
            Step::Receive(from) if self.workers[who].received[from] == 0 => {
                self.workers[who].is_blind = !self.workers[who].votes.agreement.is_under_way();
                return false;
            }
            Step::Receive(from) => self.workers[who].received[from] -= 1,
            Step::Send(to) => self.workers[to].received[who] += 1,
            Step::Set(flag) => self.flags[flag] = true,
            Step::Await(flag) if !self.flags[flag] => return false,
            Step::Await(_) => {}
            Step::Collective(number) => {
                if !self.collectives[number].entered.contains(&who) {
                    // A worker may poll at the entry; one that stands still there does not enter.
                    if polls && self.dice.below(2) == 0 {
                        self.poll(who);
                    }
                    if self.workers[who].votes.agreement.permitted_action() == CallAction::Stop {
                        self.poll(who);
                        return true;
                    }
                    if self.workers[who].votes.agreement.resume() {
                        let attempt = self.workers[who].votes.agreement.last_resumed();
                        self.notify_all(attempt);
                    }
                    self.collectives[number].entered.push(who);
                    self.workers[who].is_blind = true;
                }
                if !self.collectives[number].may_leave(who) {
                    return false;
                }
            }
        }
        self.workers[who].is_blind = false;
        self.workers[who].program.pop_front();
        true
    }

    /// Runs until all programs have ended.
    fn run(&mut self) {
        let mut idle = 0;
        while self.workers.iter().any(|worker| !worker.program.is_empty()) {
            let who = self.dice.below(self.workers.len());
            idle = if self.step(who)
                && self.workers[who].votes.agreement.permitted_action() != CallAction::Stop
            {
                0
            } else {
                idle + 1
            };
            assert!(idle < 10_000, "no worker proceeds: {self:#?}");
        }
    }
}

#[test]
fn no_worker_waits_forever_and_all_are_stopped_at_a_cut() {
    let mut cuts = 0;
    for seed in 0..PROGRAMS {
        let mut job = AgreementTestJob::new(seed);
        job.run();
        cuts += job.cuts;
    }
    assert!(cuts > PROGRAMS / 10, "{cuts}");
}
