//! The job: its guardians, processes and generations.

use crate::member::Member;
use crate::{Action, Ending, Event, Generation, Guardian, Number, Said};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Exit status of a job that could not be recovered (EX_TEMPFAIL of sysexits.h).
pub const LOST: i32 = 75;
/// How many new processes may die before they have been in a generation.
const STILLBORN: u32 = 10;
/// A generation that fails this many times in a row without a death ends the job.
const FUTILE: u32 = 10;
/// How often a job may begin from the beginning.
const RESTARTS: u32 = 5;
/// How long the others may take to end by themselves.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a process may take to leave its MPI library.
const DEAFNESS: Duration = Duration::from_secs(30);
/// The number of SIGKILL on every system (signal(7)).
const SIGKILL: i32 = 9;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Guardians come.
    Gathering,
    /// Processes leave the last generation.
    Meeting { since: Duration },
    /// A generation has begun.
    Running,
    /// All processes are killed, to start from the beginning.
    Restarting,
    /// The end has come; those that still run at the deadline are killed.
    Ending { deadline: Option<Duration> },
    /// Guardians have been told to leave.
    Over,
}

/// A job.
#[derive(Debug)]
pub struct Job {
    workers: u32,
    spares: u32,
    guardians: BTreeSet<Guardian>,
    members: BTreeMap<Number, Member>,
    living: BTreeSet<Number>,
    /// Living ones that are not ready for the generation.
    unready: BTreeSet<Number>,
    /// Of these something will come yet.
    open: BTreeSet<Number>,
    at_end: BTreeSet<Number>,
    /// By worker, who has died since the last generation began and has left its copies.
    legacies: BTreeMap<u32, Number>,
    /// Living processes of each guardian that has any.
    load: BTreeMap<Guardian, u32>,
    /// The number of the next process.
    next: u32,
    generation: Generation,
    phase: Phase,
    /// There is an epoch to go back to.
    is_protected: bool,
    futile: u32,
    stillborn: u32,
    restarts: u32,
    status: i32,
    /// Whose process has ended the job so.
    culprit: Option<Guardian>,
    now: Duration,
    actions: Vec<Action>,
}

impl Job {
    /// A job whose guardians, one for each worker and spare, are still to come.
    pub fn new(workers: u32, spares: u32) -> Job {
        Job {
            workers,
            spares,
            guardians: BTreeSet::new(),
            members: BTreeMap::new(),
            living: BTreeSet::new(),
            unready: BTreeSet::new(),
            open: BTreeSet::new(),
            at_end: BTreeSet::new(),
            legacies: BTreeMap::new(),
            load: BTreeMap::new(),
            next: 0,
            generation: Generation::default(),
            phase: Phase::Gathering,
            is_protected: false,
            futile: 0,
            stillborn: 0,
            restarts: 0,
            status: 0,
            culprit: None,
            now: Duration::ZERO,
            actions: Vec::new(),
        }
    }

    /// What an event leads to; `now` never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Came(guardian) => self.came(guardian),
            Event::Gone(guardian) => self.gone(guardian),
            Event::Said(number, said) => self.hear(number, said),
            Event::Ended(number, ending) => self.ended(number, ending),
            Event::Closed(number, written) => self.closed(number, written > 0),
            Event::Abort(status) => self.end_with(status, None),
            Event::Tick => {}
        }
        self.go_on();
        std::mem::take(&mut self.actions)
    }

    /// The generation that has begun, or is to.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Nothing is left to be done.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Who is to be taken out of the MPI library, if in it; and whether that has lasted too long.
    pub fn late(&self) -> (Vec<Number>, bool) {
        let Phase::Meeting { since } = self.phase else {
            return (Vec::new(), false);
        };
        let late = self.unready.iter().filter(|number| self.members[number].is_heard());
        (late.copied().collect(), self.now.saturating_sub(since) > DEAFNESS)
    }

    /// When [`Event::Tick`] is wanted.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Ending { deadline } => deadline,
            _ => None,
        }
    }

    fn is_meeting(&self) -> bool {
        matches!(self.phase, Phase::Meeting { .. })
    }

    fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Over)
    }

    fn say(&mut self, text: String) {
        self.actions.push(Action::Say(text));
    }

    fn came(&mut self, guardian: Guardian) {
        self.guardians.insert(guardian);
        if self.phase == Phase::Gathering && self.guardians.len() as u32 == self.workers + self.spares {
            self.start_all();
        }
    }

    fn gone(&mut self, guardian: Guardian) {
        self.guardians.remove(&guardian);
        if self.phase == Phase::Gathering {
            self.end_with(LOST, None);
        }
        let its = |member: &Member| member.at == guardian && !member.is_over();
        let its: Vec<Number> = self
            .members
            .iter()
            .filter(|(_, member)| its(member))
            .map(|(&it, _)| it)
            .collect();
        for number in its {
            if self.members[&number].lives() {
                self.actions.push(Action::Kill { number, at: guardian });
                self.ended(number, Ending::Signal(SIGKILL));
            }
            // What it may have printed is not known.
            self.closed(number, true);
        }
    }

    /// Starts every process, each at the guardian of its number; if one has gone, at another.
    fn start_all(&mut self) {
        self.members.clear();
        self.legacies.clear();
        self.next = 0;
        self.phase = Phase::Meeting { since: self.now };
        for number in 0..self.workers + self.spares {
            self.start_next(Guardian(number));
        }
    }

    fn start_next(&mut self, home: Guardian) {
        let number = Number(self.next);
        self.next += 1;
        self.start(number, home);
    }

    /// Starts a process at this guardian or, if that has gone or has one, at the least busy one.
    fn start(&mut self, number: Number, home: Guardian) {
        let load = |guardian: &Guardian| self.load.get(guardian).copied().unwrap_or(0);
        let at = match self.guardians.contains(&home) && load(&home) == 0 {
            true => Some(home),
            false => self
                .guardians
                .iter()
                .copied()
                .min_by_key(|it| (load(it), *it != home, *it)),
        };
        let Some(at) = at else { return };
        self.members.insert(number, Member::new(at));
        self.living.insert(number);
        self.unready.insert(number);
        self.open.insert(number);
        *self.load.entry(at).or_default() += 1;
        let anew = self.generation > Generation::default() || self.restarts > 0;
        self.actions.push(Action::Start { number, at, anew });
    }

    fn hear(&mut self, number: Number, said: Said) {
        let (generation, is_begun) = (self.generation, self.phase == Phase::Running);
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        match said {
            Said::Ready(of) => {
                member.ready = Some(of);
                if of == generation {
                    self.unready.remove(&number);
                }
            }
            Said::Running(of) => {
                self.is_protected = true;
                if of == generation {
                    self.futile = 0;
                }
            }
            Said::AtEnd(of) if of == generation && member.lives() => drop(self.at_end.insert(number)),
            Said::AtEnd(_) => {}
            Said::Keeps(worker) => member.keeps = Some(worker),
            Said::KeepsNothing => member.keeps = None,
            Said::Failed(of) if of == generation && is_begun => self.failed(),
            Said::Failed(_) => {}
            Said::Abort(status) => {
                let at = member.at;
                self.end_with(status, Some(at));
            }
        }
    }

    /// The generation has failed without a death.
    fn failed(&mut self) {
        self.futile += 1;
        if self.futile < FUTILE {
            return self.renew();
        }
        self.say(format!(
            "{FUTILE} generations have failed although nobody has died; the job ends"
        ));
        self.end_with(LOST, None);
    }

    fn ended(&mut self, number: Number, ending: Ending) {
        let Some(member) = self.members.get_mut(&number).filter(|member| member.lives()) else {
            return;
        };
        member.ending = Some(ending);
        let (at, is_heard, has_played) = (member.at, member.is_heard(), member.has_played);
        if let Some(worker) = member.keeps {
            // Of one worker, the process that was started last knows the most.
            let legacy = self.legacies.entry(worker).or_insert(number);
            *legacy = number.max(*legacy);
        }
        self.no_longer_lives(number, at);
        if matches!(self.phase, Phase::Restarting | Phase::Over) {
            return;
        }
        if self.is_ending() {
            return self.note(ending.status(), Some(at));
        }
        match ending {
            // A new process has to come as far as the first one did.
            Ending::Exit(_) if !is_heard && self.is_protected => self.died(at, has_played),
            // It does not use MPI.
            Ending::Exit(0) if !is_heard => {}
            // The program, the layer or the launcher has ended it.
            Ending::Exit(_) | Ending::Asked(_) => self.end_with(ending.status(), Some(at)),
            // Nobody has killed it but itself.
            Ending::Signal(signal) if !is_heard && signal != SIGKILL => self.end_with(ending.status(), Some(at)),
            // Nobody has heard of it, and it starts again alone (`revive`).
            Ending::Signal(_) if !is_heard && !self.is_protected && self.is_meeting() => {}
            Ending::Signal(_) => self.died(at, has_played),
        }
    }

    fn no_longer_lives(&mut self, number: Number, at: Guardian) {
        for set in [&mut self.living, &mut self.unready, &mut self.at_end] {
            set.remove(&number);
        }
        if let Some(load) = self.load.get_mut(&at) {
            *load -= 1;
        }
        self.settle(number);
    }

    /// Nothing of this process will come any more, if that is so.
    fn settle(&mut self, number: Number) {
        if self.members.get(&number).is_some_and(Member::is_over) {
            self.open.remove(&number);
            self.revive(number);
        }
    }

    fn died(&mut self, at: Guardian, has_played: bool) {
        if !self.is_protected {
            return self.restart();
        }
        self.stillborn += u32::from(!has_played);
        if self.stillborn > STILLBORN {
            let count = self.stillborn;
            self.say(format!(
                "{count} new processes have died before they could take a part; the job ends"
            ));
            return self.end_with(LOST, Some(at));
        }
        if self.legacies.is_empty() && !self.living.iter().any(|number| self.members[number].has_played) {
            self.say("all processes of the job have died, and left no copies; start it again".into());
            return self.end_with(LOST, Some(at));
        }
        self.renew();
    }

    /// The next generation is to be.
    fn renew(&mut self) {
        let dead = self.members.values().rev().filter(|member| !member.lives());
        let mut homes: Vec<Guardian> = dead.map(|member| member.at).collect();
        while (self.living.len() as u32) < self.workers && !self.guardians.is_empty() {
            let home = homes.pop().unwrap_or(Guardian(0));
            self.start_next(home);
        }
        self.generation = self.generation.next();
        self.phase = Phase::Meeting { since: self.now };
        self.unready.clone_from(&self.living);
        self.at_end.clear();
        self.actions.push(Action::Announce(self.generation));
    }

    /// There is nothing to go back to: all start from the beginning.
    fn restart(&mut self) {
        self.phase = Phase::Restarting;
        self.kill_all();
    }

    fn closed(&mut self, number: Number, has_printed: bool) {
        if let Some(member) = self.members.get_mut(&number) {
            member.has_printed = Some(has_printed);
            self.settle(number);
        }
    }

    /// What has become possible.
    fn go_on(&mut self) {
        match self.phase {
            Phase::Restarting => self.restart_if_all_are_over(),
            Phase::Meeting { .. } => self.begin_if_ready(),
            Phase::Running => self.end_if_all_are_there(),
            Phase::Ending { deadline } => self.end_all(deadline),
            Phase::Gathering | Phase::Over => {}
        }
    }

    fn restart_if_all_are_over(&mut self) {
        if !self.open.is_empty() {
            return;
        }
        let has_printed = self.members.values().any(|member| member.has_printed == Some(true));
        if has_printed || self.restarts == RESTARTS {
            let why = match has_printed {
                true => "the program has printed something already, which would come twice".into(),
                false => format!("so it has been with {} starts", RESTARTS + 1),
            };
            self.say(format!(
                "a process died before the first checkpoint, and {why}; start the job again"
            ));
            return self.end_with(LOST, None);
        }
        self.restarts += 1;
        self.generation = self.generation.next();
        self.start_all();
    }

    /// Starts a process again that was killed before anybody had heard of it.
    fn revive(&mut self, number: Number) {
        let member = &self.members[&number];
        if self.is_protected || !self.is_meeting() || member.is_heard() || !member.is_killed() {
            return;
        }
        if member.has_printed == Some(true) || self.restarts == RESTARTS {
            return self.restart();
        }
        self.restarts += 1;
        self.start(number, member.at);
    }

    fn begin_if_ready(&mut self) {
        if self.open.is_empty() && !self.members.values().any(Member::is_heard) {
            // None of them has used MPI.
            return self.end_with(0, None);
        }
        // The first generation has everybody: who is who is not decided before.
        let least = self.workers + if self.is_protected { 0 } else { self.spares };
        if !self.unready.is_empty() || (self.living.len() as u32) < least {
            return;
        }
        let ranks: Vec<Number> = self.living.iter().copied().collect();
        for number in &ranks {
            if let Some(member) = self.members.get_mut(number) {
                member.has_played = true;
            }
        }
        self.bequeath(&ranks);
        // What the dead have left has been seen to.
        let open = &self.open;
        self.members.retain(|number, _| open.contains(number));
        self.stillborn = 0;
        self.phase = Phase::Running;
        let generation = self.generation;
        self.actions.push(Action::Begin { generation, ranks });
    }

    /// Who has no copies gets those of a dead process.
    fn bequeath(&mut self, ranks: &[Number]) {
        let without = |number: &&Number| self.members[number].keeps.is_none();
        let heirs: Vec<Number> = ranks.iter().filter(without).copied().collect();
        for ((worker, from), heir) in std::mem::take(&mut self.legacies).into_iter().zip(heirs) {
            if let Some(member) = self.members.get_mut(&heir) {
                member.keeps = Some(worker);
            }
            self.actions.push(Action::Inherit { heir, from });
        }
    }

    fn end_if_all_are_there(&mut self) {
        if self.at_end.len() as u32 >= self.workers {
            self.phase = Phase::Ending { deadline: None };
            self.actions.push(Action::End);
        }
    }

    /// Ends the job: what still runs after a while is killed.
    fn end_with(&mut self, status: i32, culprit: Option<Guardian>) {
        if self.is_ending() {
            return;
        }
        self.note(status, culprit);
        let deadline = Some(self.now + LAST_WORDS);
        self.phase = Phase::Ending { deadline };
    }

    fn note(&mut self, status: i32, culprit: Option<Guardian>) {
        if self.status == 0 && status != 0 {
            (self.status, self.culprit) = (status, culprit);
        }
    }

    fn end_all(&mut self, deadline: Option<Duration>) {
        if self.open.is_empty() {
            let first = self.guardians.first().copied();
            let culprit = self
                .culprit
                .filter(|culprit| self.guardians.contains(culprit))
                .or(first);
            for &at in &self.guardians {
                let status = if Some(at) == culprit { self.status } else { 0 };
                self.actions.push(Action::Leave { at, status });
            }
            self.phase = Phase::Over;
        } else if deadline.is_some_and(|deadline| self.now >= deadline) {
            self.phase = Phase::Ending { deadline: None };
            self.kill_all();
        }
    }

    fn kill_all(&mut self) {
        let kill = |&number: &Number| Action::Kill {
            number,
            at: self.members[&number].at,
        };
        self.actions.extend(self.living.iter().map(kill));
    }
}
