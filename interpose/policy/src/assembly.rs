//! When processes enter a constructor that no communicator of all of them is for, where threads
//! call MPI at the same time.
//!
//! ```text
//!   member                    leader of its side                 leader that is the lower one of two
//!     Come ─────────────────►   all have come
//!                               Others(members) ───────────────►   all of both sides have come
//!     nothing else begins   ◄──────────────────────────── Hold ──  one process after the other, in the order of
//!     Held ───────────────────────────────────────────────────►    their numbers
//!     enters                ◄─────────────────────────── Enter ──  all are held: enters
//! ```
//!
//! A process that is held enters no collective ([`Gatherings`]), and no other constructor, before
//! this one. All are held in one order, so two assemblies never wait for each other (the ordered
//! allocation of resources: Havender 1968). What holds a process up until it is held ends by
//! itself.

#[cfg(test)]
mod tests;

use crate::gathering::Gatherings;
use understudy_numbers::Worker;

/// The processes that call a constructor with one local group, and how they name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Tells it from those of other calls that are made at the same time.
    pub name: u64,
    /// Its processes; one of them leads.
    pub members: Vec<Worker>,
    pub leader: Worker,
    /// Of an intercommunicator: the other side. Only the leader needs to know.
    pub other: Option<Other>,
}

/// The other side of an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// What both leaders call the assembly.
    pub name: u64,
    pub leader: Worker,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Word {
    /// To the leader of this side: a member has come.
    Come {
        side: u64,
    },
    /// To the other leader: all of this side have come.
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
    /// It waits for the other side.
    Others,
    /// It holds all, in their order, each with the name that it knows. So many are held; whether
    /// the next one has been asked.
    Holding {
        all: Vec<(Worker, u64)>,
        held: usize,
        is_asked: bool,
    },
    /// Another process holds this one.
    Waiting {
        holder: Option<Worker>,
    },
    Held,
    Entered,
}

/// A thread that is at the entry of a constructor.
#[derive(Debug)]
struct Visit {
    thread: usize,
    side: Side,
    /// How others name it to this process.
    name: u64,
    stage: Stage,
}

/// A process's part in all assemblies.
#[derive(Debug)]
pub struct Assemblies {
    visits: Vec<Visit>,
    /// What has come and is not used, in its order.
    heard: Vec<(Worker, Word)>,
    /// What is to be told.
    told: Vec<(Worker, Word)>,
}

impl Assemblies {
    /// None.
    pub const NONE: Assemblies = Assemblies {
        visits: Vec::new(),
        heard: Vec::new(),
        told: Vec::new(),
    };

    /// Whether this thread has come to one.
    pub fn has(&self, thread: usize) -> bool {
        self.visits.iter().any(|visit| visit.thread == thread)
    }

    /// A thread has come to the entry of a constructor.
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

    /// Notes what has come.
    pub fn hear(&mut self, from: Worker, word: Word) {
        self.heard.push((from, word));
    }

    /// What is to be told now.
    pub fn told(&mut self) -> Vec<(Worker, Word)> {
        std::mem::take(&mut self.told)
    }

    /// Goes as far as this thread can. Whether it enters now.
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

    /// The first such word; it is used up.
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

    /// Whether something has changed that may lead to more.
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

    /// The next stage of a leader, if its whole side is there.
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

    /// The next stage of the leader that holds all, if the other side is there.
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

/// The processes of a side, each with the name that it knows; its leader knows this one.
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
