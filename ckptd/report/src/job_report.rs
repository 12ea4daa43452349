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

/// Everything `understudy events` has to say about a job.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When the first process began its file, in nanoseconds since 1970.
    pub began_ns: u64,
    /// What `understudy run` has written down, if it has started the job.
    pub run: Option<RunRecord>,
    pub outcome: Outcome,
    pub ranks: Vec<RankFile>,
    /// Harmless: what a killed rank leaves behind.
    pub notes: Vec<String>,
    /// Damage: what is missing from this report.
    pub problems: Vec<String>,
    pub recoveries: Vec<Recovery>,
    pub checkpoints: Checkpoints,
    /// Read from the files while it is written.
    pub timeline: Timeline,
    /// The cost of checkpoints; `None` without a checkpoint after the first.
    #[serde(skip)]
    pub costs: Option<Costs>,
    /// The journals of the initialisation phase, if there are any.
    #[serde(skip)]
    pub journals: Option<JournalTable>,
    /// The savings of the program's marks, if it has any.
    #[serde(skip)]
    pub marks: Option<MarkSavings>,
}

impl Report {
    /// Collects all statistics in one pass over the events.
    pub fn new(job: Job) -> Self {
        Self::observed(job, |_| ())
    }

    /// As [`Report::new`]; `observe` sees each event, too.
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

    /// Notes as a problem that files were changed by others while they were read.
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
