//! Epochs on disk: what their files are called, and what is in them. Writing and loading them is
//! the runtime's.

pub mod catalogue;
pub mod format;
pub mod owner;
