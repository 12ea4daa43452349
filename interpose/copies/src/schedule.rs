//! Schedule of cuts: the state of the runtime's module `cut`.
//!
//! A part of the state is saved with a cut.

mod anywhere_agreement;
mod job_pace;
mod schedule_borrows;
mod schedule_state;

pub use anywhere_agreement::AnywhereAgreement;
pub use schedule_borrows::{restore, schedule, state};
pub(crate) use schedule_state::ScheduleState;
pub use schedule_state::{CollectiveVote, CutState};
pub use understudy_policy::agreement::CallAction;
pub use understudy_policy::assembly::{Assemblies, AssemblyMessage, OtherSide, Side};
pub use understudy_policy::candidate_schedule::Schedule;
pub use understudy_policy::gathering::EntryVotes;
pub use understudy_policy::pace::Failures;
