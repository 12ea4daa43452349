//! A node manager or the daemon fails: the job continues.

mod daemon;
mod manager;
