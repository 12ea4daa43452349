//! End, rollback and continuation of spawned processes.

use super::node::NodeState;
use super::process::Process;
use super::spawned_groups::SpawnedGroup;
use crate::messages::Report;
use crate::print_message::print_message;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::time::Instant;
use understudy_catalogue::message;
use understudy_numbers::{Guardian, Rank, Worker};
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::{ChildState, ToGuardian, ToManager};

impl NodeState {
    /// Handles the start or the end of a spawned process.
    ///
    /// `pidfd` is set if the process was started.
    pub(super) fn note_child(&mut self, id: u64, state: ChildState, pidfd: Option<OwnedFd>) {
        let mut groups = self.children.groups.iter_mut();
        let found = groups.find_map(|group| {
            let index = group.children.iter().position(|child| child.id == id)?;
            Some((group, index))
        });
        let Some((group, index)) = found else {
            // The group was killed before the process was started.
            let _ = pidfd.map(|pidfd| pidfd_send_signal(pidfd, Signal::KILL));
            return;
        };
        match state {
            ChildState::Started => {
                group.children[index].pidfd = pidfd;
                if group.is_killed {
                    group.kill();
                } else if group.children.iter().all(|child| child.pidfd.is_some())
                    && let Some(answer) = group.answer.take()
                {
                    answer.give(group.name.as_str().into());
                }
            }
            ChildState::NotStarted { why } => {
                if !group.is_killed {
                    print_message(message::spawn_failed(why));
                }
                group.children[index].has_ended = true;
                group.kill();
            }
            ChildState::Ended { status, is_killed } => {
                log::info!(
                    "child {id} ({}:{index}) has ended with status {status}",
                    group.label
                );
                let child = &mut group.children[index];
                (child.has_ended, child.status) = (true, status);
                // Processes of the namespace may wait for a process that has exited with status 0
                // but has not called MPI_Finalize.
                if let (0, Some(servers)) = (status, &self.servers) {
                    servers.lose(&group.name, Rank(index as u32));
                }
                let has_failed = status != 0 && !group.is_killed && group.failure.is_none();
                if has_failed && child.is_finalised {
                    self.children.status = status;
                } else if has_failed && self.children.is_awaited {
                    self.end_job_with(status);
                } else if has_failed {
                    let will_be_rolled_back =
                        is_killed && !group.is_permanent && !group.is_stopped && !self.is_ending;
                    // The commit or the rollback of the cut decides later if a captured process is
                    // spawned again.
                    if group.is_captured || !will_be_rolled_back {
                        group.failure = Some((Instant::now(), status));
                    }
                    if will_be_rolled_back {
                        self.fail_for_child();
                    }
                }
                self.forget_children();
            }
        }
    }

    /// Handles the death of a guardian: kills its spawned processes.
    ///
    /// The dead guardian cannot report their ends.
    pub(super) fn lose_children(&mut self, home: Guardian) {
        let all = self
            .children
            .groups
            .iter()
            .flat_map(|group| &group.children);
        let children = all.filter(|child| child.home == home && !child.has_ended);
        let children: Vec<_> = children
            .inspect(|child| child.end())
            .map(|child| child.id)
            .collect();
        let (status, is_killed) = (128 + libc::SIGKILL, true);
        for id in children {
            self.note_child(id, ChildState::Ended { status, is_killed }, None);
        }
    }

    /// Fails the generation because a spawned process was killed.
    pub(super) fn fail_for_child(&mut self) {
        print_message(message::SPAWNED_PROCESS_KILLED);
        // A node without processes need not report: the worker that has spawned the child was on
        // this node and has died, which fails the generation as well.
        let number = self.processes.keys().next().copied();
        let failed = number.zip(self.generation()).map(|(number, generation)| {
            let message = ToManager::Failed { generation };
            Report::Process { number, message }
        });
        self.reports.extend(failed);
    }

    /// Ends the job with the status of a spawned process that has failed.
    ///
    /// A process that has failed because another process has died does not end the job: its group
    /// is stopped or rolled back before the time limit of the failure.
    pub(super) fn end_as_children(&mut self) {
        let now = Instant::now();
        let is_over = |group: &&mut SpawnedGroup| group.ends_job_at().is_some_and(|due| due <= now);
        let over = self.children.groups.iter_mut().filter(is_over);
        let over = over.filter_map(|group| group.failure.take());
        for (_, status) in over.collect::<Vec<_>>() {
            self.end_job_with(status);
            self.forget_children();
        }
    }

    /// Ends the job with the status of a spawned process.
    ///
    /// An abort has no effect when all workers are in `MPI_Finalize`; processes are killed instead.
    pub(super) fn end_job_with(&mut self, status: i32) {
        print_message(message::spawned_process_ended(status));
        if self.children.is_awaited {
            self.children.status = status;
            return self.kill_waiting_processes();
        }
        self.reports.push(Report::Abort(status));
    }

    /// Kills all spawned processes, and the processes of the job that wait for them.
    ///
    /// After the death of a child, processes in `MPI_Finalize` would wait for ever.
    pub(super) fn kill_waiting_processes(&mut self) {
        self.children.kill_all();
        self.processes.values().for_each(Process::kill);
    }

    /// Releases groups that are permanent and whose processes have all ended.
    pub(super) fn forget_children(&mut self) {
        // A failed process still determines the status of the job.
        let is_over = |group: &mut SpawnedGroup| {
            let has_ended =
                group.answer.is_none() && group.children.iter().all(|child| child.has_ended);
            group.is_permanent && group.failure.is_none() && has_ended
        };
        let over: Vec<SpawnedGroup> = self.children.groups.extract_if(.., is_over).collect();
        over.iter().for_each(|group| self.forget_group(group));
        self.let_guardians_leave();
    }

    /// Ends the namespace of a group here and on other nodes.
    pub(super) fn forget_group(&mut self, group: &SpawnedGroup) {
        self.forget_namespace(&group.name);
        if self
            .servers
            .as_ref()
            .is_some_and(|servers| servers.needs_spawned_namespaces())
        {
            let name = group.name.clone();
            self.reports.push(Report::Forget { name });
        }
    }

    pub(super) fn let_guardians_leave(&mut self) {
        if !self.children.is_any_open() {
            for (guardian, leave) in std::mem::take(&mut self.children.leaves) {
                self.send_to_guardian(guardian, &leave);
            }
        }
    }

    /// Ends groups that are rolled back with the generation.
    ///
    /// Such groups must not affect the next generation. Captured groups stay until their worker has
    /// resumed or was rolled back.
    pub(super) fn end_children(&mut self) {
        self.end_groups(SpawnedGroup::is_rolled_back);
    }

    /// Handles the rollback of a worker to a point after `spawn_calls` spawn calls.
    ///
    /// Groups up to this point become permanent. Later groups are ended because the worker spawns
    /// them again; after a return to an older checkpoint on disk they include permanent groups.
    pub(super) fn rolled_back(&mut self, worker: Worker, spawn_calls: u64) {
        self.children.make_permanent(worker, spawn_calls);
        self.end_groups(|group| group.spawn_call.0 == worker && group.spawn_call.1 > spawn_calls);
    }

    /// Kills all processes of the groups, and waits for their end.
    pub(super) fn end_groups(&mut self, is_affected: impl Fn(&SpawnedGroup) -> bool) {
        let mut ended: Vec<SpawnedGroup> = self
            .children
            .groups
            .extract_if(.., |group| is_affected(group))
            .collect();
        for group in &mut ended {
            group.kill();
            for pidfd in group.running() {
                let _ = wait_ready(pidfd, Interest::READ, None);
            }
            self.forget_group(group);
        }
    }

    /// Handles the death of a process of the job that is in `MPI_Finalize`.
    ///
    /// Connected children of the process would wait for it.
    pub(super) fn end_connected_children(&mut self) {
        if self.children.is_awaited && self.children.is_any_connected() {
            print_message(message::DEATH_IN_FINALIZE_WITH_SPAWNED);
            self.kill_waiting_processes();
        }
    }

    /// Returns the message for a guardian; `None` if its exit waits for spawned processes.
    ///
    /// The exit waits for all spawned processes of this node.
    pub(super) fn unless_children_run(
        &mut self,
        rank: Guardian,
        message: &ToGuardian,
    ) -> Option<ToGuardian> {
        match *message {
            ToGuardian::Leave { status: 0 } if self.children.is_any_open() => {
                self.children.leaves.push((rank, message.clone()));
                None
            }
            ToGuardian::Leave { status: 0 } => {
                let status = self.children.status;
                let report = (status != 0).then_some(Report::Spawned(status));
                self.reports.extend(report);
                Some(ToGuardian::Leave { status })
            }
            ToGuardian::Leave { .. } => {
                self.children.kill_all();
                Some(message.clone())
            }
            _ => Some(message.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
