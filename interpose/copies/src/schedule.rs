//! Schedule of cuts: the state of `cut`, part of which is saved with a cut.

mod anywhere_agreement;
mod job_pace;
mod schedule_borrows;
mod schedule_state;

pub use anywhere_agreement::{Anywhere, Vote};
pub use schedule_borrows::{restore, schedule, state};
pub(crate) use schedule_state::ScheduleState;
pub use schedule_state::{Schedule, State, Word};
pub use understudy_policy::agreement::{Agreement, May};
pub use understudy_policy::assembly::{Assemblies, Other, Side, Word as AssemblyWord};
pub use understudy_policy::gathering::Gatherings;
pub use understudy_policy::pace::Failures;
