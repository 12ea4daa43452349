//! The replacement of managers in a job on several nodes.
//!
//! A manager without the leader gives its guardians what another manager of the node needs: its
//! duty, the pipe to the keeper of the node's fence, and the connection to the leader, which the
//! leader must not lose before the other manager has connected.
//!
//! Messages between the processes of a replaced manager and the leader may be lost. The
//! leader therefore begins again: all nodes forget their guardians and processes, and guardians
//! report them as they do to a new manager.

use super::guardian_silences::GuardianSilences;
use super::node::NodeState;
use super::spawned_groups::SpawnedGroups;
use super::takeover::Takeover;

impl NodeState {
    /// Forgets guardians and processes, so that guardians connect and report again.
    ///
    /// The servers of the MPI library go on, and end the last generation when the next one begins.
    pub fn repeat_reports(&mut self) {
        self.returning
            .extend(std::mem::take(&mut self.guardians).into_keys());
        self.callers.clear();
        self.silences = GuardianSilences::new(self.silences.limits());
        self.takeover = Takeover::of_manager(self.size);
        self.homes.clear();
        self.waiting.clear();
        self.early_programs.clear();
        self.processes.clear();
        self.stores.clear();
        self.adoptions.clear();
        self.ended.clear();
        self.children = SpawnedGroups::default();
        self.open_requests.clear();
        self.reports.clear();
        (self.announced, self.main_threads_interrupted) = (None, None);
        (self.is_protected, self.is_ending) = (false, false);
    }
}
