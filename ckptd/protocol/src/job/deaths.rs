//! Deaths, and what starts in the place of the dead.

use super::{Job, Phase};
use crate::member::Member;
use crate::{Action, Ending, LOST, Node};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_messages::JobOrder;
use understudy_numbers::{Generation, Guardian, ProcessNumber};

/// How many new processes may die before they have been in a generation.
const STILLBORN: u32 = 10;
/// A generation that fails this many times in a row without a death ends the job.
const FUTILE: u32 = 10;
/// How long a process whose MPI library has given up may wait for the death that has led to that:
/// longer than a node may be silent.
const BROKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a job may begin from the beginning.
const RESTARTS: u32 = 5;
/// The number of SIGKILL on every system (signal(7)).
const SIGKILL: i32 = 9;

/// Returns the limit that a process has exceeded which this signal has ended (setrlimit(2)).
fn limit_of(signal: i32) -> Option<&'static str> {
    match signal {
        24 => Some("its limit of CPU time (SIGXCPU, `ulimit -t`)"),
        25 => Some("its limit of file size (SIGXFSZ, `ulimit -f`)"),
        _ => None,
    }
}

impl Job {
    /// Its library may have found a connection closed before anybody has told of the death behind
    /// that. In the next generation it is as before MPI_Init, if the process lives still; if there
    /// is none soon, that is one more death.
    pub(super) fn broke(&mut self, number: ProcessNumber, of: Generation) {
        let is_first = !self
            .members
            .values()
            .any(|member| member.lives() && member.is_broken);
        let (is_ending, starts_again) = (self.is_ending(), !self.is_protected);
        // Since then it may have left its library.
        let in_it = |member: &&mut Member| member.lives() && member.ready == Some(of);
        let Some(member) = self.members.get_mut(&number).filter(in_it) else {
            return;
        };
        member.is_broken = true;
        let at = member.at;
        if is_ending || starts_again {
            // Nobody would take it out of there.
            self.actions.push(Action::kill(number, at));
        } else if self.phase == Phase::Running {
            self.broken_deadline
                .get_or_insert(self.now + BROKEN_TIMEOUT);
        }
        self.futile += u32::from(is_first && !is_ending);
        if self.futile == FUTILE && !is_ending {
            self.say(message::mpi_library_aborts(FUTILE).to_string());
            self.end_with(LOST, Some(at));
        }
    }

    pub(super) fn kill_broken_if_due(&mut self) {
        if self.broken_deadline.is_some_and(|until| self.now >= until) {
            self.kill_broken();
        }
    }

    pub(super) fn kill_broken(&mut self) {
        self.broken_deadline = None;
        let broken = self
            .living
            .iter()
            .filter(|number| self.members[number].is_broken);
        let kill = |&number: &ProcessNumber| Action::kill(number, self.members[&number].at);
        self.actions.extend(broken.map(kill));
    }

    /// What its processes have handed over is lost as well.
    pub(super) fn lost(&mut self, node: Node) {
        self.domains.lose(node);
        let nodes = &self.nodes;
        let is_there = |at: &Guardian| nodes.get(at) == Some(&node);
        let members = &mut self.members;
        self.legacies.retain(|_, from| !is_there(&members[from].at));
        let there = members.values_mut().filter(|member| is_there(&member.at));
        there.for_each(|member| member.keeps = None);
        let gone: Vec<Guardian> = self.guardians.iter().copied().filter(is_there).collect();
        self.gone(&gone);
    }

    pub(super) fn gone(&mut self, guardians: &[Guardian]) {
        self.guardians
            .retain(|guardian| !guardians.contains(guardian));
        if self.phase == Phase::Gathering {
            return self.gone_early(guardians);
        }
        let its = |member: &Member| guardians.contains(&member.at) && !member.is_over();
        let its: Vec<ProcessNumber> = self
            .members
            .iter()
            .filter(|(_, member)| its(member))
            .map(|(&it, _)| it)
            .collect();
        for number in its {
            if self.members[&number].lives() {
                let at = self.members[&number].at;
                self.actions.push(Action::kill(number, at));
                self.ended(number, Ending::Signal(SIGKILL));
            }
            // What it may have printed is not known.
            self.closed(number, true);
        }
    }

    /// Whether somebody may have an epoch to go back to, whatever the manager has heard: processes
    /// say so in the next generation.
    pub(super) fn has_begun(&self) -> bool {
        self.living
            .iter()
            .any(|number| self.members[number].has_played)
    }

    /// No generation has begun, and the first is awaited.
    fn is_at_start(&self) -> bool {
        !self.is_protected && !self.has_begun() && self.is_meeting()
    }

    /// The generation has failed without a death.
    pub(super) fn failed(&mut self) {
        if !self.is_protected {
            return self.restart();
        }
        self.futile += 1;
        if self.futile < FUTILE {
            return self.renew();
        }
        self.say(message::generations_failed(FUTILE).to_string());
        self.end_with(LOST, None);
    }

    pub(super) fn ended(&mut self, number: ProcessNumber, ending: Ending) {
        if let (Phase::Gathering, Ending::Asked(_)) = (self.phase, ending) {
            // It is told of a guardian that has nothing to pass the signal on to.
            return self.end_with(ending.status(), None);
        }
        let Some(member) = self
            .members
            .get_mut(&number)
            .filter(|member| member.lives())
        else {
            return;
        };
        member.ending = Some(ending);
        let (at, is_heard, has_played) = (member.at, member.is_heard(), member.has_played);
        let is_spare = !has_played && (self.is_protected || self.phase == Phase::Running);
        if let Some(worker) = member.keeps {
            // Of one worker, the process that was started last knows the most.
            let legacy = self.legacies.entry(worker).or_insert(number);
            *legacy = number.max(*legacy);
        }
        if has_played {
            self.fallen.insert(number);
        }
        let is_at_end = self.at_end.contains(&number);
        self.no_longer_lives(number, at);
        if matches!(self.phase, Phase::Restarting | Phase::Over) {
            return;
        }
        if self.is_ending() {
            return self.ended_at_the_end(number, ending, is_at_end);
        }
        match ending {
            _ if self.members[&number].is_broken => self.died(at, has_played),
            // Nobody misses a spare now, but the launcher means all.
            Ending::Exit(_) | Ending::Signal(_) | Ending::Memory if is_spare && is_heard => {
                self.lost_spare(number)
            }
            Ending::Exit(_) | Ending::Signal(_) | Ending::Memory
                if is_spare && self.phase == Phase::Running =>
            {
                self.do_without()
            }
            // A spare is there already; only a new process would need as much memory again.
            Ending::Memory if self.is_protected && self.living.len() as u32 >= self.workers => {
                self.died(at, has_played)
            }
            Ending::Memory => {
                self.say(message::REPLACEMENT_NEEDS_MEMORY.into());
                self.end_with(LOST, Some(at))
            }
            // A new process has to come as far as the first one did.
            Ending::Exit(_) if !is_heard && self.is_protected => self.died(at, has_played),
            // It does not use MPI.
            Ending::Exit(0) if !is_heard => {}
            // The program, the layer or the launcher has ended it.
            Ending::Exit(_) | Ending::Asked(_) => {
                self.end_with(ending.status(), Some(at));
                self.leaver = matches!(ending, Ending::Exit(_)).then_some((number, has_played));
            }
            // It would exceed the limit again.
            Ending::Signal(signal) if !self.is_protected && limit_of(signal).is_some() => {
                let limit = limit_of(signal).unwrap_or_default();
                self.say(message::resource_limit_exceeded(number, limit).to_string());
                self.end_with(ending.status(), Some(at))
            }
            // Nobody has killed it but itself.
            Ending::Signal(signal) if !is_heard && signal != SIGKILL => {
                self.end_with(ending.status(), Some(at))
            }
            // Nobody has heard of it, and it starts again alone (`revive`).
            Ending::Signal(_) if !is_heard && self.is_at_start() => {}
            Ending::Signal(_) => self.died(at, has_played),
        }
    }

    /// Starts so many spares, as far as they are missing.
    pub(super) fn replenish(&mut self, spares: u32) {
        if self.is_ending() || self.has_failed_to_replenish {
            return;
        }
        let missing = (self.workers + self.spares).saturating_sub(self.living.len() as u32);
        for _ in 0..spares.min(missing) {
            let (number, first) = (ProcessNumber(self.next), Guardian(self.workers));
            let load = |it: &Guardian| self.load.get(it).copied().unwrap_or(0);
            let home = self
                .guardians
                .iter()
                .copied()
                .min_by_key(|it| (load(it), *it != first, *it));
            self.start_next(home.unwrap_or(first));
            if let Some(member) = self.members.get_mut(&number) {
                member.is_replacement = true;
            }
        }
    }

    /// A spare has died that waited.
    fn lost_spare(&mut self, number: ProcessNumber) {
        let spares = self.spares_left();
        self.say(message::spare_died(number, spares).to_string());
        self.actions.push(Action::Order(JobOrder::CountSpare));
        self.start_missing();
        if self.replenishes {
            self.replenish(1);
        }
    }

    fn spares_left(&self) -> u32 {
        (self.living.len() as u32).saturating_sub(self.workers)
    }

    /// A spare has died before it was ready; the next one would die so, too.
    pub(super) fn do_without(&mut self) {
        self.has_failed_to_replenish = true;
        let spares = self.spares_left();
        self.say(message::no_new_spare(spares).to_string());
    }

    pub(super) fn no_longer_lives(&mut self, number: ProcessNumber, at: Guardian) {
        for set in [&mut self.living, &mut self.unready, &mut self.at_end] {
            set.remove(&number);
        }
        if let Some(load) = self.load.get_mut(&at) {
            *load -= 1;
        }
        self.settle(number);
    }

    /// Nothing of this process will come any more, if that is so.
    pub(super) fn settle(&mut self, number: ProcessNumber) {
        if self.members.get(&number).is_some_and(Member::is_over) {
            self.open.remove(&number);
            self.revive(number);
        }
    }

    pub(super) fn died(&mut self, at: Guardian, has_played: bool) {
        if !self.is_protected && !self.has_begun() {
            return self.restart();
        }
        self.stillborn += u32::from(!has_played);
        if self.stillborn > STILLBORN {
            let count = self.stillborn;
            self.say(message::replacements_died(count).to_string());
            return self.end_with(LOST, Some(at));
        }
        if self.legacies.is_empty()
            && !self
                .living
                .iter()
                .any(|number| self.members[number].has_played)
        {
            self.say(message::ALL_WORKERS_DIED.into());
            return self.end_with(LOST, Some(at));
        }
        self.renew();
    }

    /// There is nothing to go back to: all start from the beginning.
    pub(super) fn restart(&mut self) {
        self.phase = Phase::Restarting;
        self.kill_all();
    }

    pub(super) fn closed(&mut self, number: ProcessNumber, has_printed: bool) {
        if let Some(member) = self.members.get_mut(&number) {
            member.has_printed = Some(has_printed);
            self.settle(number);
        }
    }

    pub(super) fn restart_if_all_are_over(&mut self) {
        if !self.open.is_empty() {
            return;
        }
        let has_printed = self
            .members
            .values()
            .any(|member| member.has_printed == Some(true));
        if has_printed || self.restarts == RESTARTS {
            let why = match has_printed {
                true => "the program has printed something already, which would come twice".into(),
                false => format!("so it has been with {} starts", RESTARTS + 1),
            };
            self.say(message::no_restart_from_start(why).to_string());
            return self.end_with(LOST, None);
        }
        self.say(message::RESTART_FROM_START.into());
        self.restarts += 1;
        self.generation = self.generation.next();
        self.start_all();
    }

    /// Starts a process again that was killed before anybody had heard of it.
    pub(super) fn revive(&mut self, number: ProcessNumber) {
        let member = &self.members[&number];
        if !self.is_at_start() || member.is_heard() || !member.is_killed() {
            return;
        }
        if member.has_printed == Some(true) || member.revivals == RESTARTS {
            return self.restart();
        }
        self.start(number, member.at);
    }
}
