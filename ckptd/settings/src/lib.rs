//! The settings of the layer, as people meet them: environment variables of a job, options of
//! `understudy run`, rows of the README's table. [`Config`] has them read and checked.

mod config;
pub mod domains;
pub mod fault;
pub mod points;
pub mod refusal;
mod setting;
mod settings_table;
mod unknown;
mod values;

pub use config::Config;
pub use setting::{Form, PREFIX, SECRET, Setting};
pub use settings_table::SETTINGS;
pub use unknown::{Unknown, unknown};
pub use values::{
    Interval, LogLimit, Rehearse, Require, Rule, Scheme, SharedPages, Static, Threads,
};
