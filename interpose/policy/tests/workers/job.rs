//! A simulated job in a recovery.

use crate::process::{Epochs, Memory, Process, ReplicaRecord};
use std::fmt;
use std::sync::Arc;
use understudy_numbers::{Epoch, ProcessNumber, Worker};
use understudy_policy::meeting::{Meeting, MeetingAction, MeetingContext, MeetingEvent};
use understudy_policy::recovery_attempt::{Attempt, AttemptEvent, AttemptStage};
use understudy_policy::recovery_plan::{DamagedReplica, Plan, PlanFailure, ProcessReport};
use understudy_policy::redundancy::Redundancy;

/// Failure of processes at one moment.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Indices of the processes.
    pub failed: Vec<usize>,
    /// True if the replicas outlive their processes.
    pub leaves_replicas: bool,
}

/// Living processes of a job in an attempt at a recovery, with equal plans.
#[derive(Clone)]
pub struct Job {
    pub redundancy: Arc<Redundancy>,
    pub processes: Vec<Process>,
    /// Oldest epoch to which the job may return.
    ///
    /// The epoch is the greatest one that a process had committed before the first failure, or to
    /// which files were rolled back later.
    pub newest: Epoch,
    /// Epoch to which the files of the program have been rolled back.
    pub files: Option<Epoch>,
    pub plan: Option<Arc<Plan>>,
    /// True if lost replicas may be made again after the program has resumed.
    pub can_defer: bool,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "newest {}, files {:?}", self.newest, self.files)?;
        self.processes
            .iter()
            .try_for_each(|process| writeln!(f, "{process:?}"))
    }
}

/// State on which the future of a job depends.
pub type JobState = (Vec<Process>, Epoch, Option<Epoch>);

impl Job {
    /// Returns the state, to recognise equal ones.
    pub fn state(&self) -> JobState {
        (self.processes.clone(), self.newest, self.files)
    }

    /// Returns what the next attempt depends on, and which processes can find damage.
    pub fn effects(&self) -> (JobState, Vec<bool>) {
        let loads = (0..self.processes.len()).map(|index| self.loads(index));
        let mut state = self.state();
        for process in &mut state.0 {
            process.attempt = Attempt::BEGIN;
        }
        (state, loads.collect())
    }

    fn workers(&self) -> u32 {
        let living = self.processes.iter();
        living.len() as u32
    }

    /// Lets all processes meet; returns false if the job is lost.
    ///
    /// Asserts that the plan is correct, or that the loss is inevitable.
    pub fn meet(&mut self) -> bool {
        let report = |process: &Process| ProcessReport {
            can_defer: self.can_defer,
            ..process.report(&self.redundancy)
        };
        let reports: Vec<ProcessReport> = self.processes.iter().map(report).collect();
        let context = MeetingContext {
            redundancy: &self.redundancy,
            workers: self.workers(),
            has_disk_level: false,
        };
        let (mut meeting, action) = Meeting::begin(context, &reports);
        assert!(
            matches!(action, MeetingAction::ExchangeDeaths { .. }),
            "{action:?}"
        );
        let verdict = match meeting.step(MeetingEvent::Deaths(None)) {
            MeetingAction::End(verdict) => verdict,
            action => panic!("{action:?}"),
        };
        for process in &mut self.processes {
            assert_eq!(process.attempt.step(AttemptEvent::Done), AttemptStage::Meet);
            process.attempt.step(AttemptEvent::Done);
        }
        match verdict {
            Ok(plan) => {
                self.check_plan(&plan);
                self.plan = Some(Arc::new(plan));
                true
            }
            Err(failure) => {
                self.check_loss(&failure);
                false
            }
        }
    }

    fn check_plan(&self, plan: &Plan) {
        assert!(plan.epoch >= self.newest, "a commit is undone: {self:?}");
        assert!(
            self.files.is_none_or(|epoch| epoch == plan.epoch),
            "files are of another checkpoint: {plan:?} {self:?}"
        );
        for worker in Worker::all(self.workers()) {
            let process = self.process(plan.process_of[worker.index()]);
            let has_own = match (process.worker, plan.takeover(worker)) {
                (Some(_), _) => plan.source(worker).is_none(),
                (None, Some(takeover)) => takeover.has_own,
                (None, None) => panic!("no process is worker {worker}: {plan:?}"),
            };
            if has_own {
                let memory = &process.memory;
                assert_eq!(memory.worker, Some(worker), "{plan:?} {self:?}");
                assert!(memory.own.contains(plan.epoch), "{plan:?} {self:?}");
            } else {
                let sources = plan.sources(worker).count();
                let needed = if self.redundancy.is_parity() {
                    self.redundancy.layers(worker)
                } else {
                    1
                };
                assert_eq!(sources, needed, "{plan:?} {self:?}");
            }
        }
    }

    /// Asserts that no epoch is left to which all workers could return.
    fn check_loss(&self, failure: &PlanFailure) {
        let is_damaged = |worker: Worker, at: ProcessNumber| {
            let replica = DamagedReplica { worker, at };
            self.processes
                .iter()
                .any(|process| process.inventory.damaged().contains(&replica))
        };
        let has_own = |worker: Worker, epoch: Epoch| {
            self.processes.iter().any(|process| {
                process.memory.worker == Some(worker)
                    && process.memory.own.contains(epoch)
                    && !is_damaged(worker, process.number)
            })
        };
        let stores = |buddy: Worker, layer: usize, worker: Worker, epoch: Epoch| {
            self.processes.iter().any(|process| {
                let memory = &process.memory;
                memory.worker == Some(buddy)
                    && memory
                        .stored
                        .get(layer)
                        .is_some_and(|it| it.contains(epoch))
                    && !is_damaged(worker, process.number)
            })
        };
        // A living worker can roll back only to an epoch of which its own process has replicas.
        let can_reach = |epoch: Epoch| {
            self.processes.iter().all(|process| {
                process.worker.is_none()
                    || process.committed == epoch
                    || process.complete == Some(epoch)
            })
        };
        let is_left = |worker: Worker, epoch: Epoch| {
            let mut buddies = self.redundancy.buddies_of(worker).enumerate();
            has_own(worker, epoch)
                || match self.redundancy.is_parity() {
                    true => buddies.all(|(layer, buddy)| {
                        stores(buddy, layer, worker, epoch) && has_own(buddy, epoch)
                    }),
                    false => buddies.any(|(layer, buddy)| stores(buddy, layer, worker, epoch)),
                }
        };
        let oldest = self.files.unwrap_or(self.newest);
        for checkpoint in [oldest, oldest.next()] {
            let all_left = Worker::all(self.workers()).all(|worker| is_left(worker, checkpoint));
            assert!(
                !(all_left && can_reach(checkpoint)),
                "checkpoint {checkpoint} can be restored, but {failure:?}: {self:?}"
            );
        }
    }

    fn process(&self, number: ProcessNumber) -> &Process {
        let mut processes = self.processes.iter();
        processes
            .find(|process| process.number == number)
            .expect("a living process")
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(self.plan.as_ref().expect("a plan"))
    }

    fn worker_of(&self, index: usize) -> Worker {
        let number = self.processes[index].number;
        self.plan().worker_of(number).expect("each process has one")
    }

    fn stage(&self, index: usize) -> AttemptStage {
        self.processes[index].attempt.stage()
    }

    fn stage_of_worker(&self, worker: Worker) -> AttemptStage {
        let number = self.plan().process_of[worker.index()];
        self.process(number).attempt.stage()
    }

    /// True if this process can end its present stage.
    pub fn can_proceed(&self, index: usize) -> bool {
        let stage = self.stage(index);
        let has_reached = |worker: &Worker| self.stage_of_worker(*worker) >= stage;
        let me = self.worker_of(index);
        let plan = self.plan();
        match stage {
            AttemptStage::Resume | AttemptStage::EndJob => false,
            AttemptStage::Fetch => plan.sources(me).all(|source| has_reached(&source)),
            AttemptStage::Reprotect => {
                let rebuilds = plan.rebuilds.iter().filter(|rebuild| rebuild.at == me);
                rebuilds
                    .map(|rebuild| rebuild.worker)
                    .all(|it| has_reached(&it))
            }
            _ if is_wait(stage) => {
                (0..self.processes.len()).all(|other| self.stage(other) >= stage)
            }
            _ => true,
        }
    }

    /// Ends the present stage of a process, and all later ones without an effect.
    pub fn proceed(&mut self, index: usize) {
        let (plan, me) = (self.plan(), self.worker_of(index));
        let mut stage = self.stage(index);
        loop {
            self.end_stage(index, stage, &plan, me);
            stage = self.processes[index].attempt.step(AttemptEvent::Done);
            if stage == AttemptStage::Fetch && plan.source(me).is_some() {
                self.processes[index].begin_fetch(me, plan.epoch);
            }
            if is_wait(stage) || has_effect(stage) || stage == AttemptStage::Resume {
                return;
            }
        }
    }

    fn end_stage(&mut self, index: usize, stage: AttemptStage, plan: &Plan, me: Worker) {
        match stage {
            AttemptStage::SelectEpoch => self.select_epoch(index, plan.epoch),
            AttemptStage::UndoFiles => {
                self.files = Some(plan.epoch);
                self.newest = self.newest.max(plan.epoch);
            }
            AttemptStage::Fetch if plan.source(me).is_some() => self.fetch(index, plan, me),
            AttemptStage::Load => self.check_others(index, AttemptStage::AwaitFiles),
            AttemptStage::RebuildObjects => self.check_others(index, AttemptStage::AwaitLoads),
            AttemptStage::Reprotect => self.reprotect(index, plan, me),
            AttemptStage::Apply => self.apply(index, plan, me),
            _ => {}
        }
    }

    /// Asserts that all other processes have reached a wait.
    fn check_others(&self, index: usize, wait: AttemptStage) {
        let has_reached = |other: usize| other == index || self.stage(other) >= wait;
        assert!(
            (0..self.processes.len()).all(has_reached),
            "process {index} has not waited in {wait:?}: {self:?}"
        );
    }

    fn select_epoch(&mut self, index: usize, epoch: Epoch) {
        let process = &mut self.processes[index];
        if process.complete == Some(epoch) {
            process.committed = epoch;
        }
        process.complete = None;
        process.inventory.resolve(epoch);
        if let Some(record) = &mut process.record {
            record.resolve(epoch);
        }
        // A joining process keeps replicas of another epoch, which are of no use.
        let kept = process.inventory.kept().map(|kept| kept.epoch);
        process.memory.retain(kept.unwrap_or(epoch));
    }

    fn fetch(&mut self, index: usize, plan: &Plan, me: Worker) {
        for (layer, buddy) in self.redundancy.buddies_of(me).enumerate() {
            if plan.sources(me).any(|source| source == buddy) {
                let source = self.process(plan.process_of[buddy.index()]);
                let stored = source.memory.stored[layer];
                assert!(stored.contains(plan.epoch), "{plan:?} {self:?}");
            }
        }
        let process = &mut self.processes[index];
        process.inventory.end_fetch(me, plan.epoch, process.number);
        process.memory.own = Epochs::of([plan.epoch]);
    }

    fn reprotect(&mut self, index: usize, plan: &Plan, me: Worker) {
        let process = &mut self.processes[index];
        for rebuild in plan.deferred.iter().filter(|rebuild| rebuild.at == me) {
            process
                .memory
                .empty_layers(1 << rebuild.layer, Epochs::default());
        }
        for rebuild in plan.rebuilds.iter().filter(|rebuild| rebuild.at == me) {
            process.memory.stored[rebuild.layer] = Epochs::of([plan.epoch]);
            if process.worker.is_none() {
                process.inventory.add_layers(1 << rebuild.layer);
            }
        }
    }

    /// Makes a process run its worker; all replicas must exist but the deferred ones.
    fn apply(&mut self, index: usize, plan: &Plan, me: Worker) {
        for (worker, &number) in Worker::all(self.workers()).zip(&plan.process_of) {
            let layers = self.redundancy.layers(worker);
            let mut expected = Memory::full(worker, Epochs::of([plan.epoch]), layers);
            expected.empty_layers(deferred_at(plan, worker), Epochs::default());
            assert_eq!(self.process(number).memory, expected, "{plan:?} {self:?}");
        }
        let process = &mut self.processes[index];
        process.worker = Some(me);
        process.committed = plan.epoch;
        process.inventory.clear();
        process.record = Some(ReplicaRecord {
            lacking: deferred_at(plan, me),
            ..ReplicaRecord::committed(me, plan.epoch)
        });
    }

    /// True if all processes have resumed the program.
    pub fn has_succeeded(&self) -> bool {
        (0..self.processes.len()).all(|index| self.stage(index) == AttemptStage::Resume)
    }

    /// True if a process can find its replica damaged now.
    pub fn loads(&self, index: usize) -> bool {
        self.stage(index) == AttemptStage::AwaitLoads
    }

    /// Makes a process find its replica damaged; all processes then begin another attempt.
    ///
    /// With `stored`, the process also finds damaged the whole replicas that it stores for others.
    pub fn find_damage(&mut self, index: usize, stored: bool) {
        let (plan, worker) = (self.plan(), self.worker_of(index));
        let is_parity = self.redundancy.is_parity();
        let process = &mut self.processes[index];
        let at = process.number;
        let from = plan
            .source(worker)
            .map_or(at, |source| plan.process_of[source.index()]);
        let own = [at, from].map(|at| DamagedReplica { worker, at });
        process.inventory.refuse(own);
        process.memory.own = Epochs::default();
        if stored && !is_parity {
            let owners = self.redundancy.owners_at(worker);
            let owners = owners.map(|worker| DamagedReplica { worker, at });
            process.inventory.refuse(owners);
            process.memory.stored = Default::default();
        }
        match is_parity {
            true => process.inventory.drop_kept(),
            false => process.inventory.drop_own(),
        }
        self.begin_next_attempt();
    }

    /// Makes processes fail; others replace them, and all begin another attempt.
    pub fn fail(&mut self, failure: &Failure) {
        for &index in &failure.failed {
            let record = self.processes[index].record;
            let left = record.filter(|_| failure.leaves_replicas);
            self.processes[index] =
                Process::joining(ProcessNumber(u32::MAX), left, &self.redundancy);
        }
        self.begin_next_attempt();
    }

    /// Ends the attempt of all processes, wherever they are, and numbers them anew.
    fn begin_next_attempt(&mut self) {
        let mut joining = self.workers();
        for process in &mut self.processes {
            process.attempt.step(AttemptEvent::Failed);
        }
        // Numbers are equal in equal states; refused replicas keep the number of their process.
        let mut renumbered = Vec::new();
        for process in &mut self.processes {
            let number = process.worker.map_or(joining, |worker| worker.0);
            joining += u32::from(process.worker.is_none());
            renumbered.push((process.number, ProcessNumber(number)));
            process.number = ProcessNumber(number);
        }
        for process in &mut self.processes {
            process.renumber_damaged(&renumbered);
        }
        self.processes.sort_by_key(|process| process.number);
        self.plan = None;
    }
}

/// Returns the layers (`1 << layer`) whose replica a worker receives after the program's resume.
fn deferred_at(plan: &Plan, worker: Worker) -> u64 {
    let deferred = plan.deferred.iter().filter(|rebuild| rebuild.at == worker);
    deferred.map(|rebuild| 1 << rebuild.layer).sum()
}

/// True if a process waits for all others in this stage.
fn is_wait(stage: AttemptStage) -> bool {
    matches!(
        stage,
        AttemptStage::Enter
            | AttemptStage::Meet
            | AttemptStage::AwaitAgreement
            | AttemptStage::AwaitFiles
            | AttemptStage::AwaitLoads
            | AttemptStage::AwaitSuccess
    )
}

/// True if the end of this stage changes what a process has.
fn has_effect(stage: AttemptStage) -> bool {
    matches!(
        stage,
        AttemptStage::SelectEpoch | AttemptStage::Fetch | AttemptStage::Reprotect
    )
}
