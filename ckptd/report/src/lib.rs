//! The merged view of a job's event files: timeline, recoveries, checkpoint statistics.

mod checkpoints;
mod costs;
mod described;
mod event;
mod event_lines;
mod event_timeline;
mod job_report;
mod journal;
mod live;
mod load;
mod marks;
mod merge;
mod outcome;
mod recovery;
mod roles_by_rank;
mod run_record;
mod text;
mod units;

pub use checkpoints::{CheckpointPoint, Checkpoints, Summary};
pub use costs::Costs;
pub use described::{by_number, described};
pub use event::Event;
pub use event_timeline::Timeline;
pub use job_report::Report;
pub use journal::JournalTable;
pub use live::{JobState, LastCheckpoint, Live, Process, Protection};
pub use load::{Job, LoadError, RankFile};
pub use marks::{MarkRow, MarkSavings};
pub use outcome::{Ended, Outcome};
pub use recovery::{FailedRank, Recovery, StageTime, TakeoverBy};
pub use run_record::RunRecord;
pub use units::{bytes, count, time};
