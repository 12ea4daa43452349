//! What the processes of an understudy job share, and the programs around it.
//!
//! * [`epochs`]: names and format of the files of the disk level; [`pages`]: lists of pages;
//! * [`events`]: the event file each rank writes, and its reader;
//! * [`relay`]: the output relay that makes standard output exactly-once, and the ledger through
//!   which ranks talk to it;
//! * [`settings`]: the environment variables of a job and what they mean;
//! * `report` (feature `cli`): the merged view of a job's event files behind `understudy events`.

pub mod epochs;
pub mod events;
pub mod pages;
#[cfg(feature = "cli")]
pub mod pool;
pub mod relay;
#[cfg(feature = "cli")]
pub mod report;
pub mod settings;
