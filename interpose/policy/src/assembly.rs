//! Entry into communicator constructors by processes whose threads call MPI concurrently.
//!
//! Used where no communicator consists of exactly the processes that call the constructor.
//!
//! ```text
//!   member                  leader of its side              lower one of two leaders
//!     Come ────────────────►  all have arrived
//!                             Others(members) ────────────►   both sides have arrived
//!     nothing else begins  ◄─────────────────────── Hold ──  one process after the other,
//!     Held ───────────────────────────────────────────────►    in the order of numbers
//!     enters               ◄────────────────────── Enter ──  all are reserved: enters
//! ```
//!
//! A reserved process enters no collective ([`Gatherings`]) and no other constructor before this
//! one. Processes are reserved in one order, so two assemblies never wait for each other (the
//! ordered allocation of resources: Havender 1968). Calls that delay the reservation of a process
//! end by themselves.

#[cfg(test)]
mod tests;

use crate::gathering::Gatherings;
use understudy_numbers::Worker;

/// Processes that call a constructor with one local group, and the name of that group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Distinguishes the side from those of other calls at that time.
    pub name: u64,
    /// Processes of the side, including the leader.
    pub members: Vec<Worker>,
    pub leader: Worker,
    /// Other side of an intercommunicator; required only in the leader.
    pub other: Option<Other>,
}

/// Other side of an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Name of the assembly, equal in both leaders.
    pub name: u64,
    pub leader: Worker,
}

/// Message between processes.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Word {
    /// To the leader of this side: a member has arrived.
    Come {
        side: u64,
    },
    /// To the other leader: all members of this side have arrived.
    Others {
        name: u64,
        side: u64,
        members: Vec<u32>,
    },
    Hold {
        name: u64,
    },
    Held {
        name: u64,
    },
    Enter {
        name: u64,
    },
}

#[derive(Debug)]
enum Stage {
    /// The leader waits for the members of its side.
    Coming,
    /// The leader waits for the other side.
    Others,
    /// The leader reserves all processes in order.
    ///
    /// `all` contains each process with the name that it uses, `held` is the number of reserved
    /// ones, and `is_asked` is true if the next one has been requested.
    Holding {
        all: Vec<(Worker, u64)>,
        held: usize,
        is_asked: bool,
    },
    /// The process waits for its reservation by another process.
    Waiting {
        holder: Option<Worker>,
    },
    Held,
    Entered,
}

/// Thread at the entry of a constructor.
#[derive(Debug)]
struct Visit {
    thread: usize,
    side: Side,
    /// Name of the assembly in messages to this process.
    name: u64,
    stage: Stage,
}

/// State of all assemblies in which this process takes part.
#[derive(Debug)]
pub struct Assemblies {
    visits: Vec<Visit>,
    /// Received messages that have not been used, in order.
    heard: Vec<(Worker, Word)>,
    /// Messages to send.
    told: Vec<(Worker, Word)>,
}

impl Assemblies {
    /// State without assemblies.
    pub const NONE: Assemblies = Assemblies {
        visits: Vec::new(),
        heard: Vec::new(),
        told: Vec::new(),
    };

    /// True if this thread is at the entry of a constructor.
    pub fn has(&self, thread: usize) -> bool {
        self.visits.iter().any(|visit| visit.thread == thread)
    }

    /// Records that a thread has arrived at the entry of a constructor.
    pub fn come(&mut self, me: Worker, thread: usize, side: Side) {
        let leads = side.leader == me;
        let name = side
            .other
            .filter(|_| leads)
            .map_or(side.name, |other| other.name);
        let stage = if leads {
            Stage::Coming
        } else {
            let word = Word::Come { side: side.name };
            self.told.push((side.leader, word));
            Stage::Waiting { holder: None }
        };
        self.visits.push(Visit {
            thread,
            side,
            name,
            stage,
        });
    }

    /// Records a received message.
    pub fn hear(&mut self, from: Worker, word: Word) {
        self.heard.push((from, word));
    }

    /// Takes the messages that are to be sent now.
    pub fn told(&mut self) -> Vec<(Worker, Word)> {
        std::mem::take(&mut self.told)
    }

    /// Advances a thread's assembly as far as possible; returns true if the thread enters now.
    pub fn go_on(&mut self, me: Worker, thread: usize, gatherings: &mut Gatherings) -> bool {
        let Some(at) = self.visits.iter().position(|visit| visit.thread == thread) else {
            return true;
        };
        let mut visit = self.visits.swap_remove(at);
        while self.step(me, &mut visit, gatherings) {}
        if matches!(visit.stage, Stage::Entered) {
            gatherings.enter(visit.name);
            return true;
        }
        self.visits.push(visit);
        false
    }

    /// Takes the first matching message.
    fn take(
        &mut self,
        from: Option<Worker>,
        is_it: impl Fn(&Word) -> bool,
    ) -> Option<(Worker, Word)> {
        let is_it =
            |(by, word): &(Worker, Word)| from.is_none_or(|from| from == *by) && is_it(word);
        let at = self.heard.iter().position(is_it)?;
        Some(self.heard.remove(at))
    }

    /// Returns true if the stage has changed, so that another step may follow.
    fn step(&mut self, me: Worker, visit: &mut Visit, gatherings: &mut Gatherings) -> bool {
        let name = visit.name;
        let next = match &mut visit.stage {
            Stage::Coming => self.all_have_come(me, &visit.side),
            Stage::Others => self.both_have_come(&visit.side, name),
            Stage::Holding {
                all,
                held,
                is_asked,
            } => {
                let Some(&(next, its_name)) = all.get(*held) else {
                    for &(other, name) in all.iter().filter(|(other, _)| *other != me) {
                        self.told.push((other, Word::Enter { name }));
                    }
                    visit.stage = Stage::Entered;
                    return false;
                };
                let is_held = if next == me {
                    gatherings.hold(name)
                } else if std::mem::replace(is_asked, true) {
                    let word = Word::Held { name: its_name };
                    self.take(Some(next), |it| *it == word).is_some()
                } else {
                    self.told.push((next, Word::Hold { name: its_name }));
                    false
                };
                if is_held {
                    (*held, *is_asked) = (*held + 1, false);
                }
                return is_held;
            }
            Stage::Waiting { holder: None } => {
                let asked = self.take(None, |word| *word == Word::Hold { name });
                asked.map(|(holder, _)| Stage::Waiting {
                    holder: Some(holder),
                })
            }
            Stage::Waiting {
                holder: Some(holder),
            } => {
                let is_held = gatherings.hold(name);
                is_held.then(|| {
                    self.told.push((*holder, Word::Held { name }));
                    Stage::Held
                })
            }
            Stage::Held => self
                .take(None, |word| *word == Word::Enter { name })
                .map(|_| Stage::Entered),
            Stage::Entered => None,
        };
        next.map(|next| visit.stage = next).is_some()
    }

    /// Returns the next stage of a leader if its whole side has arrived.
    fn all_have_come(&mut self, me: Worker, side: &Side) -> Option<Stage> {
        let word = Word::Come { side: side.name };
        let others = || side.members.iter().filter(|member| **member != me);
        let has_come = |member: &Worker| {
            self.heard
                .iter()
                .any(|(from, it)| from == member && *it == word)
        };
        if !others().all(has_come) {
            return None;
        }
        for &member in others() {
            self.take(Some(member), |it| *it == word);
        }
        match side.other {
            Some(other) if other.leader < me => {
                let members = side.members.iter().map(|member| member.0).collect();
                let (name, side) = (other.name, side.name);
                self.told.push((
                    other.leader,
                    Word::Others {
                        name,
                        side,
                        members,
                    },
                ));
                Some(Stage::Waiting { holder: None })
            }
            Some(_) => Some(Stage::Others),
            None => Some(holding(names(side, side.name))),
        }
    }

    /// Returns the next stage of the reserving leader if the other side has arrived.
    fn both_have_come(&mut self, side: &Side, name: u64) -> Option<Stage> {
        let is_it = |word: &Word| matches!(word, Word::Others { name: its, .. } if *its == name);
        let (
            leader,
            Word::Others {
                side: other,
                members,
                ..
            },
        ) = self.take(None, is_it)?
        else {
            return None;
        };
        let other = Side {
            name: other,
            members: members.into_iter().map(Worker).collect(),
            leader,
            other: None,
        };
        let mut all = names(side, name);
        all.extend(names(&other, name));
        Some(holding(all))
    }
}

/// Returns the processes of a side with their names; the leader's name is `leaders`.
fn names(side: &Side, leaders: u64) -> Vec<(Worker, u64)> {
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

fn holding(mut all: Vec<(Worker, u64)>) -> Stage {
    all.sort();
    Stage::Holding {
        all,
        held: 0,
        is_asked: false,
    }
}
