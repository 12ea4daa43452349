//! The end of a job on a node.

use super::node::NodeState;
use super::process::Process;
use super::servers::Servers;
use crate::job_directory::remove_left;
use crate::spawn_thread::spawn_thread;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_wire::line::ToGuardian;

/// Time limit for the end of the MPI library's servers.
const SERVERS_LIMIT: Duration = Duration::from_secs(2);

impl NodeState {
    /// Ends all processes and guardians of this node; other nodes continue or end the job.
    pub fn abandon_node(&mut self, status: i32) {
        self.processes.values().for_each(Process::kill);
        self.children.kill_all();
        self.clean_up();
        let leave = ToGuardian::Leave { status };
        self.guardians
            .values()
            .for_each(|line| drop(line.send(&leave)));
    }

    /// Removes the leftovers of the job on this node, before its guardians exit.
    ///
    /// The launcher of the guardians (a batch system, a container) may kill all other processes
    /// when the guardians have exited.
    pub fn clean_up(&mut self) {
        self.forget_others();
        if let Some(servers) = self.servers.take() {
            self.end_servers(servers);
        }
        remove_left(&self.directory);
    }

    /// Shuts down the servers of the MPI library; waits at most [`SERVERS_LIMIT`].
    ///
    /// The shutdown of a server may hang.
    pub(super) fn end_servers(&self, servers: Servers) {
        let (done, is_done) = channel();
        let end = move || {
            drop(servers);
            // After the timeout there is no receiver.
            let _ = done.send(());
        };
        if spawn_thread(end).is_ok()
            && is_done.recv_timeout(SERVERS_LIMIT) == Err(RecvTimeoutError::Timeout)
        {
            log::warn!("{}", message::SERVERS_STAY);
            self.forget_generations();
        }
    }
}
