//! Epochs on disk: names and content of their files.
//!
//! The runtime writes and loads them.

pub mod epoch_files;
pub mod epoch_format;
pub mod owner;
