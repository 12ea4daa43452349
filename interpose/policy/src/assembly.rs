//! Entry into communicator constructors by processes whose threads call MPI concurrently.
//!
//! An assembly is used where no communicator consists of exactly the processes that call the
//! constructor, so that no vote in a communicator ([`EntryVotes`]) can order the entries.
//!
//! ```text
//!   member                  leader of its side              lower one of two leaders
//!     Arrived ─────────────►  all have arrived
//!                             SideArrived(members) ───────►   both sides have arrived
//!     nothing else begins  ◄──────────────────── Reserve ──  one process after the other,
//!     Reserved ───────────────────────────────────────────►    in the order of numbers
//!     enters               ◄────────────────────── Enter ──  all are reserved: enters
//! ```
//!
//! A constructor with a single side has one leader, which also reserves the processes.
//!
//! A reserved process enters no collective ([`EntryVotes`]) and no other constructor before this
//! one. Processes are reserved in one order, so two assemblies never wait for each other (the
//! ordered allocation of resources: Havender 1968). Calls under way that delay the reservation of a
//! process end by themselves.

#[cfg(test)]
mod assembly_tests;

use crate::gathering::EntryVotes;
use understudy_numbers::Worker;

/// Processes that call a constructor with one local group, and the name of that group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Name that distinguishes the side from the sides of other concurrent calls.
    pub name: u64,
    /// Processes of the side, including the leader.
    pub members: Vec<Worker>,
    pub leader: Worker,
    /// Other side of an intercommunicator; required only in the leader.
    pub other: Option<OtherSide>,
}

/// Other side of an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherSide {
    /// Name of the assembly, equal in both leaders.
    pub name: u64,
    pub leader: Worker,
}

/// Message between processes.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum AssemblyMessage {
    /// To the leader of this side: a member has arrived.
    Arrived { side: u64 },
    /// To the other leader: all members of this side have arrived.
    SideArrived {
        name: u64,
        side: u64,
        members: Vec<u32>,
    },
    /// From the reserving leader: enter nothing else before this constructor.
    Reserve { name: u64 },
    /// To the reserving leader: this process is reserved.
    Reserved { name: u64 },
    /// From the reserving leader: all processes are reserved.
    Enter { name: u64 },
}

#[derive(Debug)]
enum AssemblyStage {
    /// The leader waits for the members of its side.
    GatheringSide,
    /// The leader waits for the other side.
    AwaitingOtherSide,
    /// The leader reserves all processes in order.
    ///
    /// `all` contains each process with the assembly's name in messages to the process.
    /// `reserved_count` is the number of reserved processes, and `is_requested` is true if the
    /// reservation of the next process has been requested.
    Reserving {
        all: Vec<(Worker, u64)>,
        reserved_count: usize,
        is_requested: bool,
    },
    /// The process waits for its reservation by another process.
    Waiting {
        reserving_worker: Option<Worker>,
    },
    Reserved,
    Entered,
}

/// Thread at the entry of a constructor.
#[derive(Debug)]
struct PendingEntry {
    thread: usize,
    side: Side,
    /// Name of the assembly in messages to this process.
    name: u64,
    stage: AssemblyStage,
}

/// State of all assemblies in which this process takes part.
#[derive(Debug)]
pub struct Assemblies {
    pending_entries: Vec<PendingEntry>,
    /// Received messages that have not been used, in order.
    received: Vec<(Worker, AssemblyMessage)>,
    /// Messages to send.
    outgoing: Vec<(Worker, AssemblyMessage)>,
}

impl Assemblies {
    /// State without assemblies.
    pub const NONE: Assemblies = Assemblies {
        pending_entries: Vec::new(),
        received: Vec::new(),
        outgoing: Vec::new(),
    };

    /// True if this thread is at the entry of a constructor.
    pub fn is_pending(&self, thread: usize) -> bool {
        self.pending_entries
            .iter()
            .any(|entry| entry.thread == thread)
    }

    /// Records that a thread has arrived at the entry of a constructor.
    pub fn arrive(&mut self, me: Worker, thread: usize, side: Side) {
        let leads = side.leader == me;
        let name = side
            .other
            .filter(|_| leads)
            .map_or(side.name, |other| other.name);
        let stage = if leads {
            AssemblyStage::GatheringSide
        } else {
            let message = AssemblyMessage::Arrived { side: side.name };
            self.outgoing.push((side.leader, message));
            AssemblyStage::Waiting {
                reserving_worker: None,
            }
        };
        self.pending_entries.push(PendingEntry {
            thread,
            side,
            name,
            stage,
        });
    }

    /// Records a received message.
    pub fn receive(&mut self, from: Worker, message: AssemblyMessage) {
        self.received.push((from, message));
    }

    /// Takes the messages that are to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<(Worker, AssemblyMessage)> {
        std::mem::take(&mut self.outgoing)
    }

    /// Advances a thread's assembly as far as possible; returns true if the thread enters now.
    pub fn advance(&mut self, me: Worker, thread: usize, gatherings: &mut EntryVotes) -> bool {
        let Some(at) = self
            .pending_entries
            .iter()
            .position(|entry| entry.thread == thread)
        else {
            return true;
        };
        let mut entry = self.pending_entries.swap_remove(at);
        while self.step(me, &mut entry, gatherings) {}
        if matches!(entry.stage, AssemblyStage::Entered) {
            gatherings.enter(entry.name);
            return true;
        }
        self.pending_entries.push(entry);
        false
    }

    /// Takes the first matching message.
    fn take_message(
        &mut self,
        from: Option<Worker>,
        is_it: impl Fn(&AssemblyMessage) -> bool,
    ) -> Option<(Worker, AssemblyMessage)> {
        let is_it = |(by, message): &(Worker, AssemblyMessage)| {
            from.is_none_or(|from| from == *by) && is_it(message)
        };
        let at = self.received.iter().position(is_it)?;
        Some(self.received.remove(at))
    }

    /// Returns true if the stage has changed, so that another step may follow.
    fn step(&mut self, me: Worker, entry: &mut PendingEntry, gatherings: &mut EntryVotes) -> bool {
        let name = entry.name;
        let next = match &mut entry.stage {
            AssemblyStage::GatheringSide => self.after_own_side_arrived(me, &entry.side),
            AssemblyStage::AwaitingOtherSide => self.after_other_side_arrived(&entry.side, name),
            AssemblyStage::Reserving {
                all,
                reserved_count,
                is_requested,
            } => {
                let Some(&(next, its_name)) = all.get(*reserved_count) else {
                    for &(other, name) in all.iter().filter(|(other, _)| *other != me) {
                        self.outgoing.push((other, AssemblyMessage::Enter { name }));
                    }
                    entry.stage = AssemblyStage::Entered;
                    return false;
                };
                let is_reserved = if next == me {
                    gatherings.reserve(name)
                } else if std::mem::replace(is_requested, true) {
                    let message = AssemblyMessage::Reserved { name: its_name };
                    self.take_message(Some(next), |it| *it == message).is_some()
                } else {
                    self.outgoing
                        .push((next, AssemblyMessage::Reserve { name: its_name }));
                    false
                };
                if is_reserved {
                    (*reserved_count, *is_requested) = (*reserved_count + 1, false);
                }
                return is_reserved;
            }
            AssemblyStage::Waiting {
                reserving_worker: None,
            } => {
                let request =
                    self.take_message(None, |it| *it == AssemblyMessage::Reserve { name });
                request.map(|(reserving, _)| AssemblyStage::Waiting {
                    reserving_worker: Some(reserving),
                })
            }
            AssemblyStage::Waiting {
                reserving_worker: Some(reserving),
            } => {
                let is_reserved = gatherings.reserve(name);
                is_reserved.then(|| {
                    self.outgoing
                        .push((*reserving, AssemblyMessage::Reserved { name }));
                    AssemblyStage::Reserved
                })
            }
            AssemblyStage::Reserved => self
                .take_message(None, |message| *message == AssemblyMessage::Enter { name })
                .map(|_| AssemblyStage::Entered),
            AssemblyStage::Entered => None,
        };
        next.map(|next| entry.stage = next).is_some()
    }

    /// Returns the next stage of a leader if its whole side has arrived.
    fn after_own_side_arrived(&mut self, me: Worker, side: &Side) -> Option<AssemblyStage> {
        let message = AssemblyMessage::Arrived { side: side.name };
        let others = || side.members.iter().filter(|member| **member != me);
        let has_arrived = |member: &Worker| {
            self.received
                .iter()
                .any(|(from, it)| from == member && *it == message)
        };
        if !others().all(has_arrived) {
            return None;
        }
        for &member in others() {
            self.take_message(Some(member), |it| *it == message);
        }
        match side.other {
            Some(other) if other.leader < me => {
                let members = side.members.iter().map(|member| member.0).collect();
                let (name, side) = (other.name, side.name);
                self.outgoing.push((
                    other.leader,
                    AssemblyMessage::SideArrived {
                        name,
                        side,
                        members,
                    },
                ));
                Some(AssemblyStage::Waiting {
                    reserving_worker: None,
                })
            }
            Some(_) => Some(AssemblyStage::AwaitingOtherSide),
            None => Some(reserving(named_members(side, side.name))),
        }
    }

    /// Returns the next stage of the reserving leader if the other side has arrived.
    fn after_other_side_arrived(&mut self, side: &Side, name: u64) -> Option<AssemblyStage> {
        let is_it = |message: &AssemblyMessage| match message {
            AssemblyMessage::SideArrived { name: its, .. } => *its == name,
            _ => false,
        };
        let (
            leader,
            AssemblyMessage::SideArrived {
                side: other,
                members,
                ..
            },
        ) = self.take_message(None, is_it)?
        else {
            return None;
        };
        let other = Side {
            name: other,
            members: members.into_iter().map(Worker).collect(),
            leader,
            other: None,
        };
        let mut all = named_members(side, name);
        all.extend(named_members(&other, name));
        Some(reserving(all))
    }
}

/// Returns a side's processes, each with the assembly's name in messages to the process.
///
/// `leaders` is the name for the leader.
fn named_members(side: &Side, leaders: u64) -> Vec<(Worker, u64)> {
    let name = |member: &Worker| {
        if *member == side.leader {
            leaders
        } else {
            side.name
        }
    };
    side.members
        .iter()
        .map(|member| (*member, name(member)))
        .collect()
}

fn reserving(mut all: Vec<(Worker, u64)>) -> AssemblyStage {
    all.sort();
    AssemblyStage::Reserving {
        all,
        reserved_count: 0,
        is_requested: false,
    }
}
