//! Settings of understudy: environment variables, most of which are also options of `understudy
//! run`.
//!
//! [`Config`] contains the values, read and checked.

mod checkpoint_cause;
mod config;
pub mod domains;
pub mod fault;
pub mod points;
pub mod refusal;
mod setting;
pub mod settings_files;
mod settings_table;
mod unknown;
mod values;

pub use checkpoint_cause::{CheckpointCause, CheckpointSignals, REPETITION_TIME, TimeLimit};
pub use config::{Config, ports_of, spares_of};
pub use setting::{FILES_READ, Form, PREFIX, SECRET, Setting, present_name};
pub use settings_table::SETTINGS;
pub use unknown::{Unknown, unknown};
pub use values::{
    Fabric, InitEndRule, Interval, JournalLimit, MIN_NODE_TIMEOUT, Require, Restart, Scheme,
    SharedPages, StaticData, Threads, TrialReplay,
};
