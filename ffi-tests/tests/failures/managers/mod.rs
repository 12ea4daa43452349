//! A node manager, a guardian or the daemon fails: the job continues.

mod daemon;
mod manager;
