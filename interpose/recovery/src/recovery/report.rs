//! Report of a recovery, for the user and the event file.

use super::deaths;
use super::meeting;
use crate::Runtime;
use crate::{copies, events, fault, reinit, world};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::{ErrorClass, Kind, RecoveryStage, Spare};
use understudy_numbers::{ProcessNumber, Worker};
use understudy_policy::recovery_plan::{Plan, PlanFailure};

/// Report of a recovery, for the user and the event file.
pub struct RecoveryReport {
    /// Number of the recovery.
    pub recovery: u32,
    /// Number of processes with which the job was started; later processes have higher numbers.
    started: u32,
    /// Time and error through which this process noticed the failure.
    noticed: (u64, ErrorClass),
    failed: Vec<ProcessNumber>,
    /// Events about the failed processes, with worker and cause of death.
    deaths: Vec<Kind>,
    /// Replaced workers, each with the number of its new process.
    takeovers: Vec<(Worker, ProcessNumber)>,
    /// Causes of death of the replaced processes.
    causes: Vec<String>,
    /// Additional message for the user.
    pub remark: Option<String>,
    /// Text about a rollback to an epoch on disk, if there was one.
    disk: Option<String>,
    stages: Vec<(RecoveryStage, u64)>,
    stage_start: Instant,
}

impl RecoveryReport {
    /// Returns an empty report of a failure.
    ///
    /// `moment` is the time at which this process noticed the failure (`events::clock`); `by` is
    /// the error that showed the failure.
    pub fn new(recovery: u32, started: u32, moment: u64, by: ErrorClass) -> RecoveryReport {
        RecoveryReport {
            recovery,
            started,
            noticed: (moment, by),
            failed: Vec::new(),
            deaths: Vec::new(),
            takeovers: Vec::new(),
            causes: Vec::new(),
            remark: None,
            disk: None,
            stages: Vec::new(),
            stage_start: Instant::now(),
        }
    }

    /// Returns the time since the failure, or since this process noticed the failure.
    pub fn since_failure(&self, rt: &Runtime) -> Duration {
        let since_noticed = events::clock().saturating_sub(self.noticed.0);
        Duration::from_nanos(since_noticed + self.detection_ns(rt))
    }

    /// Returns the time between the failure and its detection by this process.
    ///
    /// Zero if the node manager has not sent the time of the failure.
    fn detection_ns(&self, rt: &Runtime) -> u64 {
        reinit::failed_at(rt).map_or(0, |at| self.noticed.0.saturating_sub(at))
    }

    /// Records the end of a stage, which began at the end of the previous one.
    ///
    /// Adds the times of stages that are repeated, and passes the fault points between two stages.
    pub fn stage(&mut self, rt: &Runtime, stage: RecoveryStage) {
        let ns = events::nanoseconds(self.stage_start);
        match self.stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, total)) => *total += ns,
            None => self.stages.push((stage, ns)),
        }
        self.stage_start = Instant::now();
        fault::stage_ended(stage, copies::committed_epoch(rt));
    }

    /// Records a successful attempt: dead processes and replacements.
    ///
    /// `processes` has the process of each worker before the attempt, in the order of workers.
    pub fn record_success(
        &mut self,
        rt: &Runtime,
        dead: &[ProcessNumber],
        plan: &Plan,
        processes: &[ProcessNumber],
    ) {
        self.record_deaths(rt, dead, processes);
        let causes = plan
            .takeovers
            .iter()
            .map(|it| deaths::cause_of(rt, it.worker));
        self.causes.extend(causes);
        self.remark = deaths::record_success(rt, plan.epoch).or(self.remark.take());
        self.takeovers
            .extend(plan.takeovers.iter().map(|it| (it.worker, it.process)));
        if let Some(
            lost @ (PlanFailure::Copies { epoch, .. } | PlanFailure::Behind { epoch, .. }),
        ) = &plan.lost
        {
            let older = match epoch.0.saturating_sub(plan.epoch.0) {
                0 => "the same checkpoint".into(),
                older => format!("{older} older"),
            };
            let (cause, epoch) = (meeting::cause(rt, lost), plan.epoch);
            self.disk = Some(message::back_to_disk(cause, epoch, older).to_string());
        }
    }

    /// Records that these processes have died.
    ///
    /// `processes` has the process of each worker before the attempt, in the order of workers.
    pub fn record_deaths(
        &mut self,
        rt: &Runtime,
        dead: &[ProcessNumber],
        processes: &[ProcessNumber],
    ) {
        self.failed.extend(dead);
        let failed_workers = (0..)
            .map(Worker)
            .zip(processes)
            .filter(|(_, process)| dead.contains(process));
        self.deaths
            .extend(failed_workers.map(|(worker, &rank)| Kind::Death {
                recovery: self.recovery,
                rank,
                worker,
                cause: deaths::label(rt, worker),
            }));
    }

    /// Writes the recovery to the event file.
    pub fn emit(&self, rt: &Runtime) {
        let (moment, by) = self.noticed;
        let failed = self.failed.clone();
        let recovery = self.recovery;
        events::emit_at(
            moment,
            Kind::FailureDetected {
                recovery,
                failed,
                by,
            },
        );
        self.deaths
            .iter()
            .for_each(|death| events::emit_at(moment, death.clone()));
        let world = world::get(rt);
        let own_takeovers: Vec<_> = self
            .takeovers
            .iter()
            .filter(|it| it.1 == world.process)
            .collect();
        let detection_ns = match own_takeovers.is_empty() {
            true => self.detection_ns(rt),
            // A replacement was not in the job when the failure happened.
            false => 0,
        };
        for &(stage, ns) in &self.stages {
            // The stage `Detect` began with the failure, before this process noticed it.
            let unnoticed_ns = u64::from(stage == RecoveryStage::Detect) * detection_ns;
            events::emit(Kind::Stage {
                recovery: self.recovery,
                stage,
                ns: ns + unnoticed_ns,
            });
        }
        for &&(worker, process) in &own_takeovers {
            let from = Spare(process.0.saturating_sub(world.worker_count));
            events::emit(Kind::Takeover {
                recovery: self.recovery,
                from,
                as_worker: worker,
            });
        }
    }

    /// Returns one line for the user.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> = self
            .takeovers
            .iter()
            .zip(&self.causes)
            .map(|((worker, number), cause)| {
                let process = match number.0 < self.started {
                    true => "rank",
                    false => "new process",
                };
                format!("worker {worker} failed{cause}; replaced by {process} {number}")
            })
            .collect();
        if parts.is_empty() {
            parts.push("communication failed, but no process failed".into());
        }
        parts.extend(self.disk.clone());
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_numbers::Epoch;
    use understudy_policy::recovery_plan::Takeover;

    fn plan(takeovers: &[(u32, u32)]) -> Plan {
        let takeover = |&(worker, process): &(u32, u32)| Takeover {
            worker: Worker(worker),
            process: ProcessNumber(process),
            has_own: false,
            layers: 0,
        };
        Plan {
            epoch: Epoch(1),
            takeovers: takeovers.iter().map(takeover).collect(),
            process_of: vec![],
            fetches: vec![],
            rebuilds: vec![],
            deferred: vec![],
            lost: None,
        }
    }

    #[test]
    fn the_summary_names_dead_workers_only() {
        let rt = &Runtime::new();
        let mut report = RecoveryReport::new(1, 6, 0, ErrorClass::Abandoned);
        assert_eq!(
            report.summary(),
            "communication failed, but no process failed"
        );
        report.record_success(
            rt,
            &[ProcessNumber(1)],
            &plan(&[(1, 4)]),
            &[0, 1, 2, 3].map(ProcessNumber),
        );
        assert_eq!(report.summary(), "worker 1 failed; replaced by rank 4");
        // Rank 4 has taken over worker 1, and also dies.
        report.record_success(
            rt,
            &[ProcessNumber(4)],
            &plan(&[(1, 7)]),
            &[0, 4, 2, 3].map(ProcessNumber),
        );
        assert_eq!(
            report.summary(),
            "worker 1 failed; replaced by rank 4; worker 1 failed; replaced by new process 7"
        );
    }
}
