//! Choice of the node that leads a job.
//!
//! Up to seven nodes are *members* of the council. A member leads in a term to which a quorum of
//! the members has agreed, as in Raft (Ongaro and Ousterhout 2014, sections 5.2 and 6; Ongaro's
//! thesis, sections 6.4.1 and 9.6, for leases and trial elections). There is no log: guardians and
//! nodes report the state of the job to a new leader.
//!
//! ```text
//!               trial votes of a quorum     votes of a quorum
//!   follower ─► trial candidate ──────────► candidate ───────► leader
//!      ▲  no leader for the election time                        │
//!      └──────────────── a higher term ──────────────────────────┘
//! ```
//!
//! A leader *may act* while a quorum has answered heartbeats that were sent within the lease. A
//! member that has heard from a leader within the election time, which is longer, votes for no
//! other. Two leaders therefore never act at the same time, although two nodes may believe that
//! they lead. A member must store its [`Memory`] where it outlives the process before it sends what
//! follows.
//!
//! Nodes that are certainly dead (all their processes have ended, or kernel timers have killed
//! them) never return. They do not count for a quorum once the election time has passed, because a
//! leader may have had a lease from them. So the members may die one after the other to the last.

mod election;
mod leadership;
mod roster;

pub use roster::{Roster, Version};

use self::leadership::Leadership;
use crate::Node;
use bincode::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A period in which one node may lead; later terms are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct Term {
    pub number: u64,
    /// The only node that may lead in this term.
    pub leader: Node,
}

/// Time limits of a council.
///
/// Clocks that drift by less than 1 % each keep the order: the lease ends before an election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CouncilLimits {
    election: Duration,
}

impl CouncilLimits {
    /// Returns limits with this time from the last heartbeat of a leader to an election.
    pub fn new(election: Duration) -> CouncilLimits {
        CouncilLimits { election }
    }

    /// Returns the time from an answered heartbeat to the end of the lease.
    pub fn lease(self) -> Duration {
        self.election - self.election / 25
    }
}

/// What a member must never forget.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Memory {
    /// The latest term in which the member has voted or heard from a leader.
    pub term: Term,
    pub roster: Roster,
}

/// Message from one node of the council to another.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum CouncilMessage {
    /// Heartbeat of a leader.
    Beat {
        term: Term,
        /// Time of the leader's clock.
        sent_at: Duration,
        roster: Roster,
        dead: Vec<Node>,
    },
    /// Answer to a heartbeat, with the term and the version that the sender knows.
    BeatReply {
        term: Term,
        sent_at: Duration,
        version: Version,
    },
    /// A candidate asks for a vote, or whether it would get one.
    VoteRequest {
        term: Term,
        version: Version,
        is_trial: bool,
    },
    Vote {
        term: Term,
        is_trial: bool,
        is_granted: bool,
        /// The latest term that the voter knows.
        known: Term,
    },
}

/// Action of the node that has received an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CouncilAction {
    /// Store the memory before any later action.
    Remember(Memory),
    Send(Node, CouncilMessage),
}

#[derive(Debug)]
enum Role {
    Follower,
    Candidate {
        term: Term,
        is_trial: bool,
        votes: BTreeSet<Node>,
    },
    Leader(Leadership),
}

/// A node's view of the council.
///
/// All times are those of a clock that advances while the machine is suspended.
#[derive(Debug)]
pub struct Council {
    own: Node,
    limits: CouncilLimits,
    memory: Memory,
    role: Role,
    /// Nodes that are certainly dead, with the time when this node has learned it.
    dead: BTreeMap<Node, Duration>,
    /// Time of the last heartbeat of a leader; `None` if that leader is dead.
    heard_at: Option<Duration>,
    /// Time of the next step of a candidate, or of a follower without a leader.
    next_attempt: Duration,
    actions: Vec<CouncilAction>,
}

impl Council {
    /// Returns the state of a node that has just started, or whose process was replaced.
    ///
    /// A process that was replaced may have heard from a leader until `now`.
    pub fn new(own: Node, limits: CouncilLimits, memory: Memory, now: Duration) -> Council {
        Council {
            own,
            limits,
            memory,
            role: Role::Follower,
            dead: BTreeMap::new(),
            heard_at: Some(now),
            next_attempt: now,
            actions: Vec::new(),
        }
    }

    /// Returns the state of the node that starts the job, and leads it in the first term.
    pub fn founding(
        own: Node,
        limits: CouncilLimits,
        members: BTreeSet<Node>,
        now: Duration,
    ) -> Council {
        let term = Term {
            number: 1,
            leader: own,
        };
        let memory = Memory {
            term,
            roster: Roster::new(term, members),
        };
        Council {
            role: Role::Leader(Leadership::new()),
            ..Council::new(own, limits, memory, now)
        }
    }

    /// Handles a message of another node, and returns actions in their order.
    pub fn receive(
        &mut self,
        now: Duration,
        from: Node,
        message: CouncilMessage,
    ) -> Vec<CouncilAction> {
        if !self.dead.contains_key(&from) {
            match message {
                CouncilMessage::Beat {
                    term,
                    sent_at,
                    roster,
                    dead,
                } => {
                    if self.follow(now, term) {
                        self.adopt(roster);
                        dead.into_iter()
                            .for_each(|node| self.learn_death(now, node));
                    }
                    let reply = CouncilMessage::BeatReply {
                        term: self.memory.term,
                        sent_at,
                        version: self.memory.roster.version(),
                    };
                    self.send(from, reply);
                }
                CouncilMessage::BeatReply {
                    term,
                    sent_at,
                    version,
                } => self.beat_answered(now, from, (term, sent_at, version)),
                CouncilMessage::VoteRequest {
                    term,
                    version,
                    is_trial,
                } => self.vote(now, (term, version), is_trial),
                CouncilMessage::Vote {
                    term,
                    is_trial,
                    is_granted,
                    known,
                } => match is_granted {
                    true => self.vote_received(now, from, (term, is_trial)),
                    false => self.note_term(known),
                },
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Does what is due: sends heartbeats, or asks for votes.
    pub fn tick(&mut self, now: Duration) -> Vec<CouncilAction> {
        match &self.role {
            Role::Leader(_) => self.beat(now),
            _ => self.seek_votes(now),
        }
        std::mem::take(&mut self.actions)
    }

    /// Records that all processes of a node are certainly dead.
    pub fn note_death(&mut self, now: Duration, node: Node) {
        self.learn_death(now, node);
    }

    fn learn_death(&mut self, now: Duration, node: Node) {
        self.dead.entry(node).or_insert(now);
        if self.memory.term.leader == node {
            self.heard_at = None;
        }
    }

    /// True if this node may give orders and confirm heartbeats of other nodes at `now`.
    pub fn may_act(&self, now: Duration) -> bool {
        self.confirmed_at(now)
            .is_some_and(|confirmed| now < confirmed + self.limits.lease())
    }

    /// Returns the node that led when this node last heard from a leader.
    pub fn leader(&self) -> Node {
        self.memory.term.leader
    }

    /// Returns the latest term that this node knows.
    pub fn term(&self) -> Term {
        self.memory.term
    }

    /// Returns the members, without those that are joining.
    pub fn members(&self) -> &BTreeSet<Node> {
        self.memory.roster.members()
    }

    /// Follows the leader of a term; returns false if the term is over.
    fn follow(&mut self, now: Duration, term: Term) -> bool {
        if term < self.memory.term {
            return false;
        }
        if term > self.memory.term {
            self.memory.term = term;
            self.remember();
        }
        if term.leader != self.own {
            self.role = Role::Follower;
            self.heard_at = Some(now);
        }
        true
    }

    /// Adopts a later term of which another node has told.
    fn note_term(&mut self, term: Term) {
        if term > self.memory.term {
            self.memory.term = term;
            self.role = Role::Follower;
            self.remember();
        }
    }

    fn adopt(&mut self, roster: Roster) {
        if roster.version() > self.memory.roster.version() {
            self.memory.roster = roster;
            self.remember();
        }
    }

    /// True if these members, including this node, are a quorum.
    fn is_quorum(&self, now: Duration, votes: &BTreeSet<Node>) -> bool {
        let roster = &self.memory.roster;
        // No other node can vote or act.
        let is_sole = roster
            .all()
            .all(|node| node == self.own || self.dead.contains_key(&node));
        let counts = |since: Duration| is_sole || now >= since + self.limits.election;
        let dead = self.dead.iter().filter(|&(_, &since)| counts(since));
        roster.is_quorum(votes, &dead.map(|(&node, _)| node).collect())
    }

    fn remember(&mut self) {
        self.actions
            .push(CouncilAction::Remember(self.memory.clone()));
    }

    fn send(&mut self, to: Node, message: CouncilMessage) {
        self.actions.push(CouncilAction::Send(to, message));
    }

    fn send_to_all(&mut self, message: &CouncilMessage) {
        let roster = self.memory.roster.clone();
        for node in roster.all() {
            if node != self.own && !self.dead.contains_key(&node) {
                self.send(node, message.clone());
            }
        }
    }
}
