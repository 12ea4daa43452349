//! Checkpoints on disk: names, content and owner of their files.
//!
//! The code calls a checkpoint an epoch. The runtime writes and loads the files.

pub mod claim;
pub mod epoch_files;
pub mod epoch_format;
pub mod heartbeat;
pub mod owner;
