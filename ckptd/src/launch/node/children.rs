//! Processes that the program has asked for (`MPI_Comm_spawn`), as its node sees them: namespaces of their own beside the generation's.
//!
//! Until the worker that has asked for them says that they are *settled*, they belong to what happens between two cuts: when a generation
//! ends they are killed, and the worker, set back, asks for them again. One that dies before is a failure of the generation.

mod start;

use super::Node;
use crate::launch::process::Process;
use crate::launch::talk::Report;
use understudy_wire::io::{Interest, is_ready};

use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use understudy_numbers::{Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{Answer, Name};
use understudy_wire::line::{ChildNews, ChildProgram, ToGuardian, ToManager};

/// One of the processes.
struct Child {
    id: u64,
    /// The guardian that was to start it, and tells how it ends.
    home: Guardian,
    /// When it has been started.
    pidfd: Option<OwnedFd>,
    is_finalised: bool,
    has_ended: bool,
    /// How, if it has.
    status: i32,
}

impl Child {
    /// Kills it, and waits for its end.
    fn end(&self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            let _ = is_ready(pidfd, Interest::READ, None);
        }
    }
}

/// Those that one call has asked for.
struct Group {
    name: Name,
    /// The worker that has asked, or whose children have, and how often it had before.
    of: (Worker, u64),
    /// The same when it asks again.
    label: String,
    /// How often its processes have asked for others.
    spawns: u64,
    /// What they are to run, until they are started.
    programs: Vec<ChildProgram>,
    children: Vec<Child>,
    answer: Option<Answer>,
    is_settled: bool,
    /// Whether it is depends on a cut of which the worker does not know yet whether it counts.
    is_captured: bool,
    /// It stands still: another generation is to be, in which it goes on or is spawned again.
    is_held: bool,
    is_killed: bool,
    /// One has ended badly or aborted, by itself, with this status.
    broke: Option<(Instant, i32)>,
}

/// How long a process may take to be found dead for which a child has given up.
const FOUND_DEAD: Duration = Duration::from_secs(1);

impl Group {
    /// It is to be started again when its worker goes back.
    fn goes_back(&self) -> bool {
        !self.is_settled && !self.is_captured
    }

    /// When it ends the job that one has ended badly; not before it is known whether it goes back.
    fn ends_job_at(&self) -> Option<Instant> {
        let is_open = (self.is_captured || self.is_held) && !self.is_settled;
        let (since, _) = self.broke.filter(|_| !is_open)?;
        Some(since + FOUND_DEAD)
    }

    fn running(&self) -> impl Iterator<Item = &OwnedFd> {
        let running = self.children.iter().filter(|child| !child.has_ended);
        running.filter_map(|child| child.pidfd.as_ref())
    }

    fn kill(&mut self) {
        (self.is_killed, self.answer, self.broke) = (true, None, None);
        self.signal(Signal::KILL);
    }

    fn settle(&mut self) {
        self.is_settled = true;
        if std::mem::take(&mut self.is_held) {
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        for pidfd in self.running() {
            // It may have ended.
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

#[derive(Default)]
pub(super) struct Children {
    groups: Vec<Group>,
    last_id: u64,
    last_name: u32,
    /// How many programs of a script have ended.
    programs: u32,
    /// Who has said that it is about to start processes: as which worker, and for which time.
    expected: BTreeMap<ProcessNumber, (Worker, u64)>,
    /// What one has ended with that was not 0.
    status: i32,
    /// Guardians that are to leave when all have ended.
    leaves: Vec<(Guardian, ToGuardian)>,
    /// All workers are in `MPI_Finalize`.
    is_awaited: bool,
}

impl Children {
    pub fn expect(&mut self, number: ProcessNumber, worker: Worker, time: u64) {
        self.expected.insert(number, (worker, time));
    }

    /// Those that a worker has started up to this time.
    fn until(&mut self, worker: Worker, time: u64) -> impl Iterator<Item = &mut Group> {
        let is_meant = move |group: &&mut Group| group.of.0 == worker && group.of.1 <= time;
        self.groups.iter_mut().filter(is_meant)
    }

    pub fn capture(&mut self, worker: Worker, time: u64) {
        self.until(worker, time)
            .for_each(|group| group.is_captured = true);
    }

    pub fn settle(&mut self, worker: Worker, time: u64) {
        self.until(worker, time).for_each(Group::settle);
    }

    fn group(&mut self, name: &Name) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.name == *name)
    }

    /// One of this namespace has aborted, which MPICH takes for granted to be its end.
    pub fn broke(&mut self, name: &Name, status: i32) {
        if let Some(group) = self.group(name).filter(|group| !group.is_killed) {
            group.broke.get_or_insert((Instant::now(), status));
            group.signal(Signal::KILL);
        }
    }

    /// One has called MPI_Finalize: how it ends is its status. Its end may have been heard of first.
    pub fn finalised(&mut self, name: &Name, rank: Rank) {
        let Some(group) = self.group(name) else {
            return;
        };
        let Some(child) = group.children.get_mut(rank.index()) else {
            return;
        };
        child.is_finalised = true;
        if child.has_ended
            && let Some((_, status)) = group.broke.take_if(|(_, status)| child.status == *status)
        {
            self.status = status;
        }
    }

    /// The program is at its end, a good one or another.
    pub fn end(&mut self, is_good: bool) {
        match is_good {
            true => {
                self.is_awaited = true;
                // Nobody goes back from there.
                let captured = self.groups.iter_mut().filter(|group| group.is_captured);
                captured.for_each(Group::settle);
            }
            false => self.kill_all(),
        }
    }

    /// The next program of a script begins; what is left of the one before goes on by itself.
    pub fn begin_program(&mut self) {
        self.programs += 1;
        self.is_awaited = false;
        for group in &mut self.groups {
            group.settle();
            group.of.1 = 0;
        }
    }

    /// Another generation is to be. Which of those that are not settled are started again, workers tell that have not left this one; until then
    /// nothing of theirs may come there.
    pub fn hold(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.is_settled) {
            // The worker may still wait for an answer.
            match group.goes_back() && group.answer.is_some() {
                true => group.kill(),
                false => {
                    group.is_held = true;
                    group.signal(Signal::STOP);
                }
            }
        }
    }

    pub fn kill_all(&mut self) {
        self.groups.iter_mut().for_each(Group::kill);
    }

    /// How long to wait for somebody to be found dead.
    pub fn deadline(&self) -> Option<Duration> {
        let due = self.groups.iter().filter_map(Group::ends_job_at).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Some run, or have ended badly, and nothing has followed from that yet.
    fn is_any_open(&self) -> bool {
        let is_open = |group: &Group| group.broke.is_some() || group.running().next().is_some();
        self.groups.iter().any(is_open)
    }

    /// Some run that would wait for the job's processes.
    fn is_any_connected(&self) -> bool {
        let is_connected = |group: &Group| !group.is_settled && group.running().next().is_some();
        self.groups.iter().any(is_connected)
    }
}

impl Node {
    /// What has become of a child, and itself if it was started.
    pub(super) fn note_child(&mut self, id: u64, news: ChildNews, pidfd: Option<OwnedFd>) {
        let mut groups = self.children.groups.iter_mut();
        let found = groups.find_map(|group| {
            let at = group.children.iter().position(|child| child.id == id)?;
            Some((group, at))
        });
        let Some((group, at)) = found else {
            // It was to be killed before it was started.
            let _ = pidfd.map(|pidfd| pidfd_send_signal(pidfd, Signal::KILL));
            return;
        };
        match news {
            ChildNews::Started => {
                group.children[at].pidfd = pidfd;
                if group.is_killed {
                    group.kill();
                } else if group.children.iter().all(|child| child.pidfd.is_some())
                    && let Some(answer) = group.answer.take()
                {
                    answer.give(group.name.as_str().into());
                }
            }
            ChildNews::NotStarted { why } => {
                if !group.is_killed {
                    say!("understudy: MPI_Comm_spawn: {why}");
                }
                group.children[at].has_ended = true;
                group.kill();
            }
            ChildNews::Ended { status, is_killed } => {
                log::info!(
                    "child {id} ({}:{at}) has ended with status {status}",
                    group.label
                );
                let child = &mut group.children[at];
                (child.has_ended, child.status) = (true, status);
                // Its like may wait for it, if it has not called MPI_Finalize.
                if let (0, Some(servers)) = (status, &self.servers) {
                    servers.lose(&group.name, Rank(at as u32));
                }
                let is_bad = status != 0 && !group.is_killed && group.broke.is_none();
                if is_bad && child.is_finalised {
                    self.children.status = status;
                } else if is_bad && self.children.is_awaited {
                    self.end_as(status);
                } else if is_bad {
                    let goes_back =
                        is_killed && !group.is_settled && !group.is_held && !self.is_ending;
                    // One that is captured may turn out not to be spawned again.
                    if group.is_captured || !goes_back {
                        group.broke = Some((Instant::now(), status));
                    }
                    if goes_back {
                        self.fail_for_child();
                    }
                }
                self.forget_children();
            }
        }
    }

    /// With their guardian its children are killed, and nobody tells of that.
    pub(super) fn lose_children(&mut self, home: Guardian) {
        let all = self
            .children
            .groups
            .iter()
            .flat_map(|group| &group.children);
        let its = all.filter(|child| child.home == home && !child.has_ended);
        let its: Vec<_> = its
            .inspect(|child| child.end())
            .map(|child| child.id)
            .collect();
        let (status, is_killed) = (128 + libc::SIGKILL, true);
        for id in its {
            self.note_child(id, ChildNews::Ended { status, is_killed }, None);
        }
    }

    /// One has been killed.
    fn fail_for_child(&mut self) {
        say!(
            "understudy: a spawned process was killed; the workers go back to before they spawned it"
        );
        // Its worker is one of these, or has died, from which the same follows.
        let number = self.processes.keys().next().copied();
        let failed = number.zip(self.generation()).map(|(number, generation)| {
            let said = ToManager::Failed { generation };
            Report::Process { number, said }
        });
        self.reports.extend(failed);
    }

    /// Ends the job as one of the children has ended, unless that was for somebody who has died.
    pub(super) fn end_as_children(&mut self) {
        let now = Instant::now();
        let is_over = |group: &&mut Group| group.ends_job_at().is_some_and(|due| due <= now);
        let over = self.children.groups.iter_mut().filter(is_over);
        let over = over.filter_map(|group| group.broke.take());
        for (_, status) in over.collect::<Vec<_>>() {
            self.end_as(status);
            self.forget_children();
        }
    }

    /// Ends the job with the status of a child. When the workers have ended, nobody hears of an abort.
    fn end_as(&mut self, status: i32) {
        say!(
            "understudy: a process that the program has spawned has ended with status {status}; so does the job"
        );
        if self.children.is_awaited {
            self.children.status = status;
            return self.end_those_who_wait();
        }
        self.reports.push(Report::Abort(status));
    }

    /// Processes that are in `MPI_Finalize` with connected children, one of which has died, would wait there for ever.
    fn end_those_who_wait(&mut self) {
        self.children.kill_all();
        self.processes.values().for_each(Process::kill);
    }

    /// Of those that are settled and have ended nothing is needed any more.
    fn forget_children(&mut self) {
        // What follows from a bad end is still to come.
        let is_over = |group: &mut Group| {
            let has_ended =
                group.answer.is_none() && group.children.iter().all(|child| child.has_ended);
            group.is_settled && group.broke.is_none() && has_ended
        };
        let over: Vec<Group> = self.children.groups.extract_if(.., is_over).collect();
        over.iter().for_each(|group| self.forget_group(group));
        self.let_guardians_leave();
    }

    /// Nobody needs its namespace any more, here or on other nodes.
    fn forget_group(&mut self, group: &Group) {
        self.forget_namespace(&group.name);
        if self
            .servers
            .as_ref()
            .is_some_and(|it| it.asks_for_spawned())
        {
            let name = group.name.clone();
            self.reports.push(Report::Forget { name });
        }
    }

    fn let_guardians_leave(&mut self) {
        if !self.children.is_any_open() {
            for (guardian, leave) in std::mem::take(&mut self.children.leaves) {
                self.tell_guardian(guardian, &leave);
            }
        }
    }

    /// A generation ends, and with it those that are not settled: nothing of theirs may come into the next one. Those of which that is not known
    /// stay until their worker is heard of.
    pub(super) fn end_children(&mut self) {
        self.end_groups(Group::goes_back);
    }

    /// A worker goes on from where it had started processes as often as this, and starts again what came later: after a return to an older
    /// epoch on disk also what was settled.
    pub(super) fn went_back(&mut self, worker: Worker, time: u64) {
        self.children.settle(worker, time);
        self.end_groups(|group| group.of.0 == worker && group.of.1 > time);
    }

    /// Kills all processes of these, and waits for their end.
    fn end_groups(&mut self, is_meant: impl Fn(&Group) -> bool) {
        let mut ended: Vec<Group> = self
            .children
            .groups
            .extract_if(.., |group| is_meant(group))
            .collect();
        for group in &mut ended {
            group.kill();
            for pidfd in group.running() {
                let _ = is_ready(pidfd, Interest::READ, None);
            }
            self.forget_group(group);
        }
    }

    /// A process of the job has died at its end, for which its children wait.
    pub(super) fn end_connected_children(&mut self) {
        if self.children.is_awaited && self.children.is_any_connected() {
            say!(
                "understudy: a process has died in MPI_Finalize, and spawned processes wait for it; the job ends"
            );
            self.end_those_who_wait();
        }
    }

    /// What a guardian is told; it does not leave well as long as children run.
    pub(super) fn unless_children_run(
        &mut self,
        rank: Guardian,
        message: &ToGuardian,
    ) -> Option<ToGuardian> {
        match *message {
            ToGuardian::Leave { status: 0 } if self.children.is_any_open() => {
                self.children.leaves.push((rank, message.clone()));
                None
            }
            ToGuardian::Leave { status: 0 } => {
                let status = self.children.status;
                let report = (status != 0).then_some(Report::Spawned(status));
                self.reports.extend(report);
                Some(ToGuardian::Leave { status })
            }
            ToGuardian::Leave { .. } => {
                self.children.kill_all();
                Some(message.clone())
            }
            _ => Some(message.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
