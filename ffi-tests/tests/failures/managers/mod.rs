//! A node manager, a guardian or the daemon fails or is stopped: the job continues.

mod daemon;
mod manager;
mod remote_manager;
mod silent_processes;
