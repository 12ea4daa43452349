//! A running job: kills, limits, and what the job leaves behind.

use super::{Job, KillScope, MAY_END};
use crate::kill::count_killed;
use crate::namespace_hosts::Hosts;
use crate::outcome::Killed;
use crate::{hang, paths, processes};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime};

/// Poll interval.
const TICK: Duration = Duration::from_millis(4);
/// Longest time between two polls that counts towards a job's limit.
///
/// A longer time means that this process, and maybe the job, was not running.
const LONGEST_TICK: Duration = Duration::from_millis(200);
/// Poll interval of the ranks' mappings.
///
/// Longer than [`TICK`], since /proc/PID/maps is long, and reading it delays page faults.
const MAPS_EVERY: Duration = Duration::from_millis(200);
/// Interval of searches of the event files.
const COUNT_EVERY: Duration = Duration::from_millis(40);
/// Time after which the program may end although faults are awaited.
///
/// A fault may never happen, for example because its process has failed earlier.
const FAULT_LIMIT: Duration = Duration::from_secs(20);
/// Time that relays and the launcher may take to clean up after mpirun has exited.
const GRACE: Duration = Duration::from_secs(3);

/// The processes of a job, and the failures that were injected.
pub(super) struct RunningJob {
    pub(super) child: Child,
    pub(super) mark: String,
    /// Processes that are older than the job.
    pub(super) strangers: BTreeSet<u32>,
    pub(super) hosts: Option<Hosts>,
    pub(super) size: u32,
    /// True if the launcher's children are guardians, not ranks.
    pub(super) is_guarded: bool,
    pub(super) ranks: BTreeMap<u32, processes::Process>,
    /// Substring of the names of the job's files, and of its relays' command lines.
    pub(super) relay_mark: String,
    pub(super) shared_memory: BTreeSet<String>,
    /// Time of the last poll of the ranks' mappings.
    pub(super) mapped_at: Option<Instant>,
    pub(super) killed: Vec<Killed>,
    /// Number of ranks that faults in later checkpoints kill.
    pub(super) awaited_faults: usize,
    /// Time of the last search of the event files for ranks that have killed themselves.
    pub(super) faults_counted: Option<Instant>,
    /// Start of the job. Older files belong to another job whose launcher had the same PID.
    pub(super) began: SystemTime,
}

fn is_since(entry: &std::fs::DirEntry, began: SystemTime) -> bool {
    let changed = entry.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed >= began)
}

impl RunningJob {
    /// Waits for the end and executes the kills; returns `None` at the time limit.
    pub(super) fn attend(
        &mut self,
        root: &Path,
        job: &mut Job,
        started: Instant,
    ) -> Option<std::process::ExitStatus> {
        let (stdout, events) = (root.join("stdout"), root.join("events"));
        let mut kills = job.kills.iter();
        let mut kill = kills.next();
        let mut due: Option<Instant> = None;
        let mut may_end = false;
        let (mut attended, mut last) = (Duration::ZERO, Instant::now());
        loop {
            attended += last.elapsed().min(LONGEST_TICK);
            last = Instant::now();
            if let Some(status) = self.child.try_wait().expect("mpirun is our child") {
                return Some(status);
            }
            if attended > job.limit {
                println!("after {:?}:\n{}", job.limit, self.describe());
                self.end();
                return None;
            }
            self.update_processes();
            if let (Some((at, scope)), true) = (job.end, self.is_complete())
                && at.is_reached(&stdout, &events)
            {
                job.end = None;
                self.kill_all(scope, started);
            }
            if let (Some((at, disturb)), Some(hosts)) = (&job.host_failure, &self.hosts)
                && self.is_complete()
                && at.is_reached(&stdout, &events)
            {
                assert!(disturb(hosts), "the host cannot be disturbed");
                job.host_failure = None;
            }
            if let (Some(next), true) = (kill, self.is_complete()) {
                if due.is_none() && next.at.is_reached(&stdout, &events) {
                    due = Some(Instant::now() + next.delay);
                }
                if due.is_some_and(|due| Instant::now() >= due) {
                    if let Some(process) = self.ranks.get(&next.rank) {
                        let hit = processes::kill(process.pid);
                        self.killed.push(Killed {
                            rank: next.rank,
                            pid: process.pid,
                            at: started.elapsed(),
                            hit,
                        });
                    }
                    (kill, due) = (kills.next(), None);
                }
            }
            if self.is_complete() && job.watch.as_mut().is_some_and(|watch| watch(&self.ranks)) {
                job.watch = None;
            }
            if let (Some(observe), true) = (&mut job.observer, self.is_complete()) {
                observe(&self.ranks);
            }
            if !may_end
                && kill.is_none()
                && !job.will_fail_as_a_whole()
                && job.watch.is_none()
                && (attended > FAULT_LIMIT || self.is_every_fault_over(&events))
            {
                may_end = true;
                File::create(root.join(MAY_END)).expect("the directory is writable");
            }
            std::thread::sleep(TICK);
        }
    }

    /// True if as many ranks have killed themselves as faults in later checkpoints demand.
    fn is_every_fault_over(&mut self, events: &Path) -> bool {
        let is_due = self
            .faults_counted
            .is_none_or(|at| at.elapsed() >= COUNT_EVERY);
        self.awaited_faults == 0
            || is_due && {
                self.faults_counted = Some(Instant::now());
                count_killed(events) >= self.awaited_faults
            }
    }

    /// Living processes of the job.
    fn marked(&self) -> Vec<processes::Process> {
        processes::marked(&self.mark, &self.strangers)
    }

    fn is_complete(&self) -> bool {
        self.ranks.len() == self.size as usize
    }

    /// Updates the list of the ranks' processes and of their files in /dev/shm.
    fn update_processes(&mut self) {
        if !self.is_complete() {
            self.ranks = processes::ranks(&self.marked(), self.is_guarded);
            self.relay_mark = self.relay_mark();
        } else if self.hosts.is_none()
            && self
                .shared_memory
                .iter()
                .filter(|path| path.contains("sm_segment"))
                .count()
                < self.size as usize
            && self.mapped_at.is_none_or(|at| at.elapsed() >= MAPS_EVERY)
        {
            self.mapped_at = Some(Instant::now());
            self.shared_memory.extend(
                self.ranks
                    .values()
                    .flat_map(|process| processes::mapped_shared_memory(process.pid)),
            );
        }
    }

    fn kill_all(&mut self, scope: KillScope, started: Instant) {
        for (&rank, process) in &self.ranks {
            let pid = process.pid;
            let hit = match scope {
                KillScope::Job => processes::state(pid).is_some(),
                KillScope::Ranks | KillScope::Everything => processes::kill(pid),
            };
            let at = started.elapsed();
            self.killed.push(Killed { rank, pid, at, hit });
        }
        if scope == KillScope::Job {
            let all = self.marked();
            for guardian in all.iter().filter(|process| process.is_guardian()) {
                processes::terminate(guardian.pid);
            }
        }
        if scope == KillScope::Everything {
            for process in self.marked() {
                processes::kill(process.pid);
            }
        }
    }

    fn describe(&self) -> String {
        let marked = self.marked().into_iter().map(|process| process.pid);
        hang::describe(marked.chain(processes::with_command(&self.relay_mark)))
    }

    /// Kills all remaining processes of the job.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in self.marked() {
            processes::kill(process.pid);
        }
    }

    /// Returns the substring by which relays of this job are found.
    ///
    /// Relays have no environment. Their command line contains the name of the job, which contains
    /// the PID of the launcher or a batch system's numbers.
    fn relay_mark(&self) -> String {
        match (&self.hosts, self.ranks.values().next()) {
            (Some(hosts), _) => hosts.job_mark(),
            (_, Some(rank)) if self.is_guarded => crate::living_processes::job_mark(rank.parent),
            (_, Some(rank)) => format!("-{}@", rank.parent),
            (_, None) => format!("-{}@", self.child.id()),
        }
    }

    fn survivors(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .marked()
            .into_iter()
            .map(|process| format!("process {} ({})", process.pid, process.command))
            .collect();
        let relay_mark = &self.relay_mark;
        found.extend(
            processes::with_command(relay_mark)
                .into_iter()
                .map(|pid| format!("relay {pid}")),
        );
        if let Some(hosts) = &self.hosts {
            found.extend(hosts.shared_memory());
            return found;
        }
        let files = paths::shared_memory()
            .into_iter()
            .filter(|entry| is_since(entry, self.began))
            .map(|entry| entry.path().to_string_lossy().into_owned());
        found.extend(
            files.filter(|path| path.contains(relay_mark) || self.shared_memory.contains(path)),
        );
        found
    }

    /// Returns what still exists after [`GRACE`], and removes it.
    pub(super) fn left_behind(&mut self) -> Vec<String> {
        let ended = Instant::now();
        let mut found = self.survivors();
        while !found.is_empty() && ended.elapsed() < GRACE {
            std::thread::sleep(5 * TICK);
            found = self.survivors();
        }
        let relays = processes::with_command(&self.relay_mark);
        for pid in self
            .marked()
            .into_iter()
            .map(|process| process.pid)
            .chain(relays)
        {
            processes::kill(pid);
        }
        for path in found.iter().filter(|path| path.starts_with("/dev/shm/")) {
            let _ = std::fs::remove_file(path);
        }
        found
    }
}
