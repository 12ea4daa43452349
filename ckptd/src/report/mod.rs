//! The merged view of a job's event files: timeline, recoveries, checkpoint statistics.

mod checkpoints;
mod costs;
mod journal;
mod live;
mod load;
mod marks;
mod outcome;
mod recovery;
mod run_record;
mod text;
mod traffic;
mod units;

pub use checkpoints::{Checkpoints, Summary};
pub use costs::Costs;
pub use journal::JournalTable;
pub use live::{LastCheckpoint, Live, Process, Protection, Standing};
pub use load::{Event, Job, LoadError, RankFile};
pub use marks::{MarkRow, MarkSavings};
pub use outcome::{Ended, Outcome};
pub use recovery::{FailedRank, Recovery, StageTime, TakeoverBy};
pub use run_record::RunRecord;
pub use traffic::{Communicator, Pair, Traffic};
pub use units::{bytes, count, time};

use crate::events::{ProcessNumber, Role, Worker};
use serde::Serialize;
use std::collections::BTreeMap;

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
    pub timeline: Vec<Event>,
}

impl Report {
    pub fn new(job: Job) -> Self {
        let Job {
            ranks,
            notes,
            problems,
            events,
            began_ns,
            run,
        } = job;
        let recoveries = recovery::recoveries(&events);
        Self {
            began_ns,
            outcome: Outcome::new(&events, &recoveries, run.as_ref()),
            run,
            recoveries,
            checkpoints: Checkpoints::new(&events),
            ranks,
            notes,
            problems,
            timeline: events,
        }
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        text::report(self, true)
    }

    /// The same without the timeline.
    pub fn to_summary(&self) -> String {
        text::report(self, false)
    }
}

/// Who plays which part, followed along the timeline.
#[derive(Default)]
struct Parts(BTreeMap<ProcessNumber, Role>);

impl Parts {
    fn follow(&mut self, event: &Event) {
        use crate::events::Kind;
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
