//! The merged view of a job's event files: timeline, recoveries, checkpoint statistics.

mod checkpoints;
mod costs;
mod described;
mod event_lines;
mod event_timeline;
mod journal;
mod live;
mod load;
mod marks;
mod merge;
mod outcome;
mod recovery;
mod run_record;
mod text;
mod units;

pub use checkpoints::{CheckpointPoint, Checkpoints, Summary};
pub use costs::Costs;
pub use described::{by_number, described};
pub use event_timeline::{Event, Timeline};
pub use journal::JournalTable;
pub use live::{LastCheckpoint, Live, Process, Protection, Standing};
pub use load::{Job, LoadError, RankFile};
pub use marks::{MarkRow, MarkSavings};
pub use outcome::{Ended, Outcome};
pub use recovery::{FailedRank, Recovery, StageTime, TakeoverBy};
pub use run_record::RunRecord;
pub use units::{bytes, count, time};

use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use understudy_formats::events::{ProcessNumber, Role, Worker};

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

    /// Writes the report for people, with the timeline if it is wanted.
    pub fn write(&self, out: &mut impl io::Write, with_timeline: bool) -> io::Result<()> {
        if with_timeline {
            event_lines::write(out, &self.timeline)?;
        }
        out.write_all(text::summary(self).as_bytes())
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
    checkpoints: checkpoints::CheckpointCollector,
    costs: costs::CostCollector,
    journals: journal::JournalCollector,
    marks: marks::MarkCollector,
    outcome: outcome::OutcomeCollector,
    recoveries: recovery::RecoveryCollector,
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

/// Who plays which part, followed along the timeline.
#[derive(Default)]
struct Parts(BTreeMap<ProcessNumber, Role>);

impl Parts {
    fn follow(&mut self, event: &Event) {
        use understudy_formats::events::Kind;
        match event.kind {
            Kind::Start { role, .. } => self.0.insert(event.rank, role),
            Kind::Takeover {
                as_worker: Worker(n),
                ..
            } => self.0.insert(event.rank, Role::Worker(Worker(n))),
            _ => None,
        };
    }

    fn role(&self, rank: ProcessNumber) -> Option<Role> {
        self.0.get(&rank).copied()
    }
}
