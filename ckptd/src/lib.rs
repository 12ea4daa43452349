//! What the processes of an understudy job share, and the programs around it.
//!
//! * [`advice`]: how often to take checkpoints;
//! * [`budget`], [`cgroup`]: memory that is left on a node;
//! * [`cuda`]: what NVIDIA's driver is asked for;
//! * [`epochs`]: names and format of the files of the disk level; [`pages`]: lists of pages;
//! * [`pool`]: the spares of a node's jobs, as a state machine; [`wire`]: what ckptd and its clients say to each other; [`client`]: a
//!   client that never waits for long; `daemon` (feature `cli`): `ckptd serve`;
//! * [`io`]: descriptors that do not block, and the wait for them;
//! * `path` (feature `cli`): programs by their names;
//! * [`private`]: directories of one user alone, in memory and elsewhere;
//! * `remains` (feature `cli`): what killed jobs leave on a node;
//! * [`events`]: the event file each rank writes, and its reader;
//! * [`relay`]: the output relay that makes standard output exactly-once, and the ledger through
//!   which ranks talk to it;
//! * [`settings`]: the environment variables of a job and what they mean;
//! * `report` (feature `cli`): the merged view of a job's event files behind `understudy events`.

pub mod advice;
pub mod budget;
pub mod cgroup;
pub mod client;
pub mod cuda;
#[cfg(feature = "cli")]
pub mod daemon;
pub mod epochs;
pub mod events;
pub mod io;
#[cfg(feature = "cli")]
pub mod launch;
pub mod line;
#[cfg(feature = "cli")]
pub mod manual;
pub mod pages;
#[cfg(feature = "cli")]
pub mod path;
pub mod pool;
pub mod private;
pub mod proc_file;
pub mod proc_stat;
pub mod rate;
pub mod relay;
#[cfg(feature = "cli")]
pub mod remains;
#[cfg(feature = "cli")]
pub mod report;
pub mod settings;
pub mod warning;
pub mod wire;
