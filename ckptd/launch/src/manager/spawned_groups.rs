//! Processes that the program has spawned (`MPI_Comm_spawn`), on the node of their guardian.
//!
//! They are in namespaces of their own beside that of the generation.
//!
//! Until the worker that has asked for them says that they are *settled*, they belong to what
//! happens between two cuts: when a generation ends they are killed, and the worker, set back, asks
//! for them again. One that dies before is a failure of the generation.

use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use understudy_numbers::{Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{Answer, Name};
use understudy_wire::io::{Interest, is_ready};
use understudy_wire::line::{ChildProgram, ToGuardian};

/// One of the processes.
pub struct SpawnedChild {
    pub(super) id: u64,
    /// The guardian that was to start it, and tells how it ends.
    pub(super) home: Guardian,
    /// When it has been started.
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) is_finalised: bool,
    pub(super) has_ended: bool,
    /// How, if it has.
    pub(super) status: i32,
}

impl SpawnedChild {
    /// Kills it, and waits for its end.
    pub(super) fn end(&self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            let _ = is_ready(pidfd, Interest::READ, None);
        }
    }
}

/// Those that one call has asked for.
pub struct SpawnedGroup {
    pub(super) name: Name,
    /// The worker that has asked, or whose children have, and how often it had before.
    pub(super) of: (Worker, u64),
    /// The same when it asks again.
    pub(super) label: String,
    /// How often its processes have asked for others.
    pub(super) spawns: u64,
    /// What they are to run, until they are started.
    pub(super) programs: Vec<ChildProgram>,
    pub(super) children: Vec<SpawnedChild>,
    pub(super) answer: Option<Answer>,
    pub(super) is_settled: bool,
    /// Whether it is depends on a cut of which the worker does not know yet whether it counts.
    pub(super) is_captured: bool,
    /// It stands still: another generation is to be, in which it goes on or is spawned again.
    pub(super) is_held: bool,
    pub(super) is_killed: bool,
    /// One has ended badly or aborted, by itself, with this status.
    pub(super) broke: Option<(Instant, i32)>,
}

/// How long a process may take to be found dead for which a child has given up.
pub const FOUND_DEAD: Duration = Duration::from_secs(1);

impl SpawnedGroup {
    /// It is to be started again when its worker goes back.
    pub(super) fn goes_back(&self) -> bool {
        !self.is_settled && !self.is_captured
    }

    /// When it ends the job that one has ended badly; not before it is known whether it goes back.
    pub(super) fn ends_job_at(&self) -> Option<Instant> {
        let is_open = (self.is_captured || self.is_held) && !self.is_settled;
        let (since, _) = self.broke.filter(|_| !is_open)?;
        Some(since + FOUND_DEAD)
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &OwnedFd> {
        let running = self.children.iter().filter(|child| !child.has_ended);
        running.filter_map(|child| child.pidfd.as_ref())
    }

    pub(super) fn kill(&mut self) {
        (self.is_killed, self.answer, self.broke) = (true, None, None);
        self.signal(Signal::KILL);
    }

    pub(super) fn settle(&mut self) {
        self.is_settled = true;
        if std::mem::take(&mut self.is_held) {
            self.signal(Signal::CONT);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        for pidfd in self.running() {
            // It may have ended.
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

#[derive(Default)]
pub struct SpawnedGroups {
    pub(super) groups: Vec<SpawnedGroup>,
    pub(super) last_id: u64,
    pub(super) last_name: u32,
    /// How many programs of a script have ended.
    pub(super) programs: u32,
    /// Who has said that it is about to start processes: as which worker, and for which time.
    pub(super) expected: BTreeMap<ProcessNumber, (Worker, u64)>,
    /// What one has ended with that was not 0.
    pub(super) status: i32,
    /// Guardians that are to leave when all have ended.
    pub(super) leaves: Vec<(Guardian, ToGuardian)>,
    /// All workers are in `MPI_Finalize`.
    pub(super) is_awaited: bool,
}

impl SpawnedGroups {
    pub fn expect(&mut self, number: ProcessNumber, worker: Worker, time: u64) {
        self.expected.insert(number, (worker, time));
    }

    /// Those that a worker has started up to this time.
    pub(super) fn until(
        &mut self,
        worker: Worker,
        time: u64,
    ) -> impl Iterator<Item = &mut SpawnedGroup> {
        let is_meant = move |group: &&mut SpawnedGroup| group.of.0 == worker && group.of.1 <= time;
        self.groups.iter_mut().filter(is_meant)
    }

    pub fn capture(&mut self, worker: Worker, time: u64) {
        self.until(worker, time)
            .for_each(|group| group.is_captured = true);
    }

    pub fn settle(&mut self, worker: Worker, time: u64) {
        self.until(worker, time).for_each(SpawnedGroup::settle);
    }

    pub(super) fn group(&mut self, name: &Name) -> Option<&mut SpawnedGroup> {
        self.groups.iter_mut().find(|group| group.name == *name)
    }

    /// One of this namespace has aborted, which MPICH takes for granted to be its end.
    pub fn broke(&mut self, name: &Name, status: i32) {
        if let Some(group) = self.group(name).filter(|group| !group.is_killed) {
            group.broke.get_or_insert((Instant::now(), status));
            group.signal(Signal::KILL);
        }
    }

    /// One has called MPI_Finalize: how it ends is its status. Its end may have been heard of
    /// first.
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
                captured.for_each(SpawnedGroup::settle);
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

    /// Another generation is to be. Which of those that are not settled are started again, workers
    /// tell that have not left this one; until then nothing of theirs may come there.
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
        self.groups.iter_mut().for_each(SpawnedGroup::kill);
    }

    /// How long to wait for somebody to be found dead.
    pub fn deadline(&self) -> Option<Duration> {
        let due = self
            .groups
            .iter()
            .filter_map(SpawnedGroup::ends_job_at)
            .min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Some run, or have ended badly, and nothing has followed from that yet.
    pub(super) fn is_any_open(&self) -> bool {
        let is_open =
            |group: &SpawnedGroup| group.broke.is_some() || group.running().next().is_some();
        self.groups.iter().any(is_open)
    }

    /// Some run that would wait for the job's processes.
    pub(super) fn is_any_connected(&self) -> bool {
        let is_connected =
            |group: &SpawnedGroup| !group.is_settled && group.running().next().is_some();
        self.groups.iter().any(is_connected)
    }
}
