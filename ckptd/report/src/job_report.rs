//! All statistics of a job.

use crate::checkpoints::{CheckpointCollector, Checkpoints};
use crate::costs::{CostCollector, Costs};
use crate::journal::{JournalCollector, JournalTable};
use crate::load::{Job, RankFile};
use crate::marks::{MarkCollector, MarkSavings};
use crate::outcome::{Outcome, OutcomeCollector};
use crate::recovery::{Recovery, RecoveryCollector};
use crate::{Event, RunRecord, Timeline};
use serde::Serialize;

/// The report on a job, for `understudy events`, `report` and `advise`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Time when the first process has begun its file, in nanoseconds since 1970.
    pub began_ns: u64,
    /// Record of `understudy run`, if it has started the job.
    pub run: Option<RunRecord>,
    pub outcome: Outcome,
    pub ranks: Vec<RankFile>,
    /// Harmless damage, such as that of a killed rank's file.
    pub notes: Vec<String>,
    /// Damage because of which the report has gaps.
    pub problems: Vec<String>,
    pub recoveries: Vec<Recovery>,
    pub checkpoints: Checkpoints,
    /// Events, read from the files while the report is written.
    pub timeline: Timeline,
    /// The cost of checkpoints; `None` without a checkpoint after the first.
    #[serde(skip)]
    pub costs: Option<Costs>,
    /// Set-up logs of all workers, if any were recorded.
    #[serde(skip)]
    pub journals: Option<JournalTable>,
    /// Savings by the program's annotations, if it has any.
    #[serde(skip)]
    pub marks: Option<MarkSavings>,
}

impl Report {
    /// Collects all statistics in one pass over the events.
    pub fn new(job: Job) -> Self {
        Self::observed(job, |_| ())
    }

    /// Collects all statistics, and passes each event to `observe`.
    pub fn observed(job: Job, mut observe: impl FnMut(&Event)) -> Self {
        let Job {
            ranks,
            notes,
            problems,
            timeline,
            began_ns,
            run,
        } = job;
        let mut collectors = Collectors::default();
        for event in timeline.iter() {
            collectors.add(&event);
            observe(&event);
        }
        let checkpoints = collectors.checkpoints.finish();
        let recoveries = collectors.recoveries.finish(&checkpoints.points);
        Self {
            began_ns,
            outcome: collectors.outcome.finish(&recoveries, run.as_ref()),
            run,
            costs: collectors.costs.finish(&recoveries),
            journals: collectors.journals.finish(),
            marks: collectors.marks.finish(),
            recoveries,
            checkpoints,
            ranks,
            notes,
            problems,
            timeline,
        }
    }

    /// Records a problem if other processes have changed files during the read.
    pub fn check_unchanged(&mut self) {
        if self.timeline.has_changed() {
            let problem =
                "event files were replaced or shortened while they were read: the report has gaps";
            self.problems.push(problem.to_owned());
        }
    }
}

/// The statistics that one pass collects.
#[derive(Default)]
struct Collectors {
    checkpoints: CheckpointCollector,
    costs: CostCollector,
    journals: JournalCollector,
    marks: MarkCollector,
    outcome: OutcomeCollector,
    recoveries: RecoveryCollector,
}

impl Collectors {
    fn add(&mut self, event: &Event) {
        self.checkpoints.add(event);
        self.costs.add(event);
        self.journals.add(event);
        self.marks.add(event);
        self.outcome.add(event);
        self.recoveries.add(event);
    }
}
