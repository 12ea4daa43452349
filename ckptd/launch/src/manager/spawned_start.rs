//! The start of spawned processes.
//!
//! A guardian of this node starts them, in a namespace of their own.

use super::node::NodeState;
use super::node_queue::NodeMessage;
use super::process::{Process, processors};
use super::spawned_groups::{SpawnedChild, SpawnedGroup, SpawnedGroups};
use crate::Error;
use crate::messages::Report;
use crate::print_message::print_message;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use understudy_catalogue::message;
use understudy_numbers::{Rank, Worker};
use understudy_pmi::{Answer, GenerationName, Namespace, Placement, Spawn, Spawned};
use understudy_wire::line::{ChildProgram, ChildStart, ToGuardian};

impl NodeState {
    /// Handles a spawn request of a rank.
    pub(super) fn spawn(&mut self, spawn: Spawn) {
        // The rank has announced the spawn call before it called its library.
        self.receive_from_processes();
        if self.announced.is_some() {
            // No process is started: the rank repeats the spawn call in the announced generation.
            return;
        }
        let Some((spawn_call, label)) = self.origin(&spawn.generation, spawn.rank) else {
            return;
        };
        if let Err(error) = self.start_group(spawn, spawn_call, label) {
            print_error(&error);
        }
    }

    /// Returns the worker and the number of a spawn call, and the new group's label.
    ///
    /// `None` if the worker has not announced the call, or the caller's group was killed.
    pub(super) fn origin(
        &mut self,
        caller: &GenerationName,
        rank: Rank,
    ) -> Option<((Worker, u64), String)> {
        if let Some(number) = self.process_of(caller, rank) {
            let spawn_call = *self.children.expected.get(&number)?;
            return Some((
                spawn_call,
                format!(
                    "{}.{}.{}",
                    self.children.programs, spawn_call.0, spawn_call.1
                ),
            ));
        }
        let group = self
            .children
            .group(caller)
            .filter(|group| !group.is_killed)?;
        group.spawns += 1;
        Some((
            group.spawn_call,
            format!("{}/{}", group.label, group.spawns),
        ))
    }

    pub(super) fn start_group(
        &mut self,
        spawn: Spawn,
        spawn_call: (Worker, u64),
        label: String,
    ) -> Result<(), Error> {
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        self.children.last_name += 1;
        let here = self.last_generation.as_ref().map_or(0, |begun| begun.here);
        let process_counts: Vec<u32> = spawn
            .programs
            .iter()
            .map(|program| program.processes)
            .collect();
        let size: u32 = process_counts.iter().sum();
        let processes: Vec<&Process> = self.processes.values().collect();
        let namespace = Namespace {
            name: spawn.generation.child(here, self.children.last_name),
            placement: Placement::on_one(&self.host, size)?,
            here: 0,
            is_crowded: processes.len() + size as usize > processors(&processes),
            spawned: Some(Spawned {
                process_counts,
                put: spawn.put,
            }),
        };
        servers.begin(&namespace)?;
        let needs_namespaces = servers.needs_spawned_namespaces();
        let caller = self.children.group(&spawn.generation);
        let of_caller =
            |group: &mut SpawnedGroup| (group.is_permanent, group.is_captured, group.is_stopped);
        let (is_permanent, is_captured, is_stopped) =
            caller.map_or((false, false, false), of_caller);
        let name = namespace.name;
        self.children.groups.push(SpawnedGroup {
            name: name.clone(),
            spawn_call,
            label,
            spawns: 0,
            programs: spawn.programs,
            children: Vec::new(),
            answer: Some(spawn.answer),
            // Children of a permanent group are permanent, too.
            is_permanent,
            is_captured,
            is_stopped,
            is_killed: false,
            failure: None,
        });
        if needs_namespaces {
            let (slot, joined) = (self.queue.sender(), name.clone());
            let (answer, _) = Answer::new(Box::new(move |reply| {
                slot.put(NodeMessage::Joined(joined, reply.is_some()))
            }));
            let id = self.register_request(vec![name.clone()], answer);
            self.reports.push(Report::Join { id, name, size });
        } else {
            self.start_children(&name, true);
        }
        Ok(())
    }

    /// Starts a group's children; kills the group if a node has not registered them.
    pub(super) fn start_children(&mut self, name: &GenerationName, are_registered: bool) {
        let Some(group) = self.children.group(name).filter(|group| !group.is_killed) else {
            return;
        };
        if !are_registered {
            return group.kill();
        }
        if let Err(error) = self.start_each(name) {
            print_error(&error);
            self.children
                .group(name)
                .into_iter()
                .for_each(SpawnedGroup::kill);
        }
    }

    pub(super) fn start_each(&mut self, name: &GenerationName) -> Result<(), Error> {
        let SpawnedGroups {
            groups, last_id, ..
        } = &mut self.children;
        let group = groups.iter_mut().find(|group| group.name == *name);
        let (Some(group), Some(servers)) = (group, &self.servers) else {
            return Ok(());
        };
        let Some((&home, guardian)) = self.guardians.first_key_value() else {
            return Ok(());
        };
        let programs = std::mem::take(&mut group.programs);
        let each = |program: ChildProgram| {
            std::iter::repeat_n(program.clone(), program.processes as usize)
        };
        for (rank, program) in (0..).map(Rank).zip(programs.into_iter().flat_map(each)) {
            let identity = servers.identity(name, rank)?;
            let texts = |list: Vec<(OsString, OsString)>| -> Vec<(String, String)> {
                let text = |text: OsString| text.to_string_lossy().into_owned();
                list.into_iter()
                    .map(|(name, value)| (text(name), text(value)))
                    .collect()
            };
            *last_id += 1;
            let start = ToGuardian::StartChild(ChildStart {
                id: *last_id,
                name: format!("{}:{rank}", group.label),
                program,
                variables: texts(identity.variables),
                defaults: texts(identity.defaults),
            });
            let descriptor: Vec<_> = identity.descriptor.iter().map(OwnedFd::as_fd).collect();
            let sent = guardian.send_with(&start, &descriptor);
            if let Err(error) = &sent {
                // Without the answer that it waits for, the spawn call fails.
                group.kill();
                print_message(message::spawn_arguments(error));
            }
            group.children.push(SpawnedChild {
                id: *last_id,
                home,
                pidfd: None,
                is_finalised: false,
                has_ended: sent.is_err(),
                status: 0,
            });
        }
        Ok(())
    }
}

fn print_error(error: &Error) {
    print_message(message::spawn_impossible(error));
}
