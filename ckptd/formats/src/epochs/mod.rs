//! Epochs on disk: names and content of their files.
//!
//! The runtime writes and loads them.

pub mod catalogue;
pub mod format;
pub mod owner;
