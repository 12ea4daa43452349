//! Processes that the program has spawned (`MPI_Comm_spawn`), on the node of their guardian.
//!
//! Spawned processes are in namespaces of their own beside that of the generation.
//!
//! The processes of one spawn call are a *group*. A worker reports when a group is *permanent*: a
//! checkpoint after the spawn call was committed, so that the group is not rolled back with the
//! worker any more. A group that is not permanent is killed when a generation ends, and the worker
//! spawns the group again after its rollback. If a process of such a group is killed by a signal,
//! the generation fails. A group is *captured* after a checkpoint that follows the spawn call was
//! taken and before the checkpoint is committed: the group may become permanent or be rolled back.

use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use understudy_numbers::{Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{Answer, GenerationName};
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::{ChildProgram, ToGuardian};

/// A spawned process.
pub struct SpawnedChild {
    pub(super) id: u64,
    /// Guardian that was ordered to start the process, and that reports its end.
    pub(super) home: Guardian,
    /// Set when the process has been started.
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) is_finalised: bool,
    pub(super) has_ended: bool,
    /// Exit status as a shell reports it, if `has_ended`.
    pub(super) status: i32,
}

impl SpawnedChild {
    /// Kills the process, and waits for its end.
    pub(super) fn end(&self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
            let _ = wait_ready(pidfd, Interest::READ, None);
        }
    }
}

/// Processes of one spawn call.
pub struct SpawnedGroup {
    pub(super) name: GenerationName,
    /// Worker that has spawned the processes, and the number of its spawn call.
    ///
    /// Groups that these processes spawn have the same values.
    pub(super) spawn_call: (Worker, u64),
    /// Name of the group, equal when the worker spawns it again.
    pub(super) label: String,
    /// Number of spawn calls of the group's processes.
    pub(super) spawns: u64,
    /// Programs of the processes, until they are started.
    pub(super) programs: Vec<ChildProgram>,
    pub(super) children: Vec<SpawnedChild>,
    /// Answer to the spawn call, until all processes are started or the group is killed.
    pub(super) answer: Option<Answer>,
    pub(super) is_permanent: bool,
    /// True if the group will be permanent when the current cut is committed.
    pub(super) is_captured: bool,
    /// True if the processes are stopped because another generation was announced.
    ///
    /// The processes continue or are spawned again in that generation.
    pub(super) is_stopped: bool,
    pub(super) is_killed: bool,
    /// Time and status of the first failure that ends the job unless a rollback follows.
    pub(super) failure: Option<(Instant, i32)>,
}

/// Time after which a failure of a child ends the job.
///
/// A child may have aborted because another process has died; such a death is detected within this
/// time.
pub const DETECTION_TIMEOUT: Duration = Duration::from_secs(1);

impl SpawnedGroup {
    /// True if the group is spawned again when its worker is rolled back.
    pub(super) fn is_rolled_back(&self) -> bool {
        !self.is_permanent && !self.is_captured
    }

    /// Returns the time when a failure in the group ends the job.
    ///
    /// `None` if no process has failed, or while a rollback may still follow.
    pub(super) fn ends_job_at(&self) -> Option<Instant> {
        let is_open = (self.is_captured || self.is_stopped) && !self.is_permanent;
        let (since, _) = self.failure.filter(|_| !is_open)?;
        Some(since + DETECTION_TIMEOUT)
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &OwnedFd> {
        let running = self.children.iter().filter(|child| !child.has_ended);
        running.filter_map(|child| child.pidfd.as_ref())
    }

    pub(super) fn kill(&mut self) {
        (self.is_killed, self.answer, self.failure) = (true, None, None);
        self.signal(Signal::KILL);
    }

    pub(super) fn make_permanent(&mut self) {
        self.is_permanent = true;
        if std::mem::take(&mut self.is_stopped) {
            self.signal(Signal::CONT);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        for pidfd in self.running() {
            // The process may have ended meanwhile.
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

#[derive(Default)]
pub struct SpawnedGroups {
    pub(super) groups: Vec<SpawnedGroup>,
    pub(super) last_id: u64,
    pub(super) last_name: u32,
    /// Number of programs of a script that have ended.
    pub(super) programs: u32,
    /// Processes that are about to spawn, with worker and number of the spawn call.
    pub(super) expected: BTreeMap<ProcessNumber, (Worker, u64)>,
    /// Exit status of a failed child; 0 if none has failed.
    pub(super) status: i32,
    /// Guardians that are to exit when all children have ended.
    pub(super) leaves: Vec<(Guardian, ToGuardian)>,
    /// True if all workers are in `MPI_Finalize`.
    pub(super) is_awaited: bool,
}

impl SpawnedGroups {
    pub fn expect(&mut self, number: ProcessNumber, worker: Worker, spawn_calls: u64) {
        self.expected.insert(number, (worker, spawn_calls));
    }

    /// Returns the groups of a worker up to this spawn call.
    pub(super) fn groups_until(
        &mut self,
        worker: Worker,
        spawn_calls: u64,
    ) -> impl Iterator<Item = &mut SpawnedGroup> {
        let is_affected = move |group: &&mut SpawnedGroup| {
            group.spawn_call.0 == worker && group.spawn_call.1 <= spawn_calls
        };
        self.groups.iter_mut().filter(is_affected)
    }

    pub fn capture(&mut self, worker: Worker, spawn_calls: u64) {
        self.groups_until(worker, spawn_calls)
            .for_each(|group| group.is_captured = true);
    }

    pub fn make_permanent(&mut self, worker: Worker, spawn_calls: u64) {
        self.groups_until(worker, spawn_calls)
            .for_each(SpawnedGroup::make_permanent);
    }

    pub(super) fn group(&mut self, name: &GenerationName) -> Option<&mut SpawnedGroup> {
        self.groups.iter_mut().find(|group| group.name == *name)
    }

    /// Handles the abort of a process of this namespace; the whole group is killed.
    ///
    /// MPICH assumes that an aborted process ends.
    pub fn broke(&mut self, name: &GenerationName, status: i32) {
        if let Some(group) = self.group(name).filter(|group| !group.is_killed) {
            group.failure.get_or_insert((Instant::now(), status));
            group.signal(Signal::KILL);
        }
    }

    /// Records that a child has called MPI_Finalize: its failure only sets the job's status.
    ///
    /// The end of the child may have been reported before the call.
    pub fn finalised(&mut self, name: &GenerationName, rank: Rank) {
        let Some(group) = self.group(name) else {
            return;
        };
        let Some(child) = group.children.get_mut(rank.index()) else {
            return;
        };
        child.is_finalised = true;
        if child.has_ended
            && let Some((_, status)) = group.failure.take_if(|(_, status)| child.status == *status)
        {
            self.status = status;
        }
    }

    /// Handles the end of the program, successful or not.
    pub fn end(&mut self, is_good: bool) {
        match is_good {
            true => {
                self.is_awaited = true;
                // No worker is rolled back after the end of the program.
                let captured = self.groups.iter_mut().filter(|group| group.is_captured);
                captured.for_each(SpawnedGroup::make_permanent);
            }
            false => self.kill_all(),
        }
    }

    /// Begins the next program of a script; remaining processes of the previous program continue.
    pub fn begin_program(&mut self) {
        self.programs += 1;
        self.is_awaited = false;
        for group in &mut self.groups {
            group.make_permanent();
            group.spawn_call.1 = 0;
        }
    }

    /// Stops the processes of groups that are not permanent, because a generation was announced.
    ///
    /// Later reports of the workers decide which groups are permanent and which are spawned again.
    /// Until then no data of these groups may reach the workers. A group that is rolled back and
    /// whose spawn call waits for an answer is killed, so that the call fails.
    pub fn stop_temporary(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.is_permanent) {
            match group.is_rolled_back() && group.answer.is_some() {
                true => group.kill(),
                false => {
                    group.is_stopped = true;
                    group.signal(Signal::STOP);
                }
            }
        }
    }

    pub fn kill_all(&mut self) {
        self.groups.iter_mut().for_each(SpawnedGroup::kill);
    }

    /// Returns the time until a failure in a group ends the job.
    pub fn deadline(&self) -> Option<Duration> {
        let due = self
            .groups
            .iter()
            .filter_map(SpawnedGroup::ends_job_at)
            .min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// True if a child runs, or a failure of a child was not handled yet.
    pub(super) fn is_any_open(&self) -> bool {
        let is_open =
            |group: &SpawnedGroup| group.failure.is_some() || group.running().next().is_some();
        self.groups.iter().any(is_open)
    }

    /// True if a child of a group that is not permanent runs.
    ///
    /// Such a child is connected to processes of the job, and would wait for them.
    pub(super) fn is_any_connected(&self) -> bool {
        let is_connected =
            |group: &SpawnedGroup| !group.is_permanent && group.running().next().is_some();
        self.groups.iter().any(is_connected)
    }
}
