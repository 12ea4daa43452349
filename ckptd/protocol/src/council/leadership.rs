//! The node that leads: heartbeats, the lease, and new members.

use super::{Council, CouncilMessage, Role, Roster, Term, Version};
use crate::{HEARTBEAT_INTERVAL, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// State of a leader.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    /// Time of the last heartbeats.
    beat_at: Option<Duration>,
    /// The last heartbeat that each node has answered, with the roster that the node knows.
    answered: BTreeMap<Node, (Duration, Version)>,
}

impl Leadership {
    pub(super) fn new() -> Leadership {
        Leadership::default()
    }
}

impl Council {
    /// Begins to lead in this term.
    pub(super) fn lead(&mut self, now: Duration, term: Term) {
        self.role = Role::Leader(Leadership::new());
        self.memory.roster = self.memory.roster.in_term(term);
        self.remember();
        self.beat(now);
    }

    /// Makes a node a member; only an acting leader may, and only one node joins at a time.
    pub fn add(&mut self, now: Duration, node: Node) {
        let roster = &self.memory.roster;
        let is_new = roster.all().all(|other| other != node);
        if self.may_act(now) && is_new && !roster.is_changing() {
            self.memory.roster = roster.with_joining(node);
            self.remember();
        }
    }

    /// Sends heartbeats if they are due.
    pub(super) fn beat(&mut self, now: Duration) {
        self.complete_joining();
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        let is_due = |last: Duration| now >= last + HEARTBEAT_INTERVAL;
        if !leadership.beat_at.is_none_or(is_due) {
            return;
        }
        leadership.beat_at = Some(now);
        let beat = CouncilMessage::Beat {
            term: self.memory.term,
            sent_at: now,
            roster: self.memory.roster.clone(),
            dead: self.dead.keys().copied().collect(),
        };
        self.send_to_all(&beat);
    }

    pub(super) fn beat_answered(
        &mut self,
        _now: Duration,
        from: Node,
        (term, sent_at, version): (Term, Duration, Version),
    ) {
        self.note_term(term);
        if let Role::Leader(leadership) = &mut self.role
            && term == self.memory.term
        {
            let last = leadership
                .answered
                .entry(from)
                .or_insert((sent_at, version));
            *last = (last.0.max(sent_at), last.1.max(version));
        }
    }

    /// Completes the joining of a node once all living members know of it.
    fn complete_joining(&mut self) {
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        let roster: &Roster = &self.memory.roster;
        let knows = |node: Node| {
            let answer = leadership.answered.get(&node);
            answer.is_some_and(|&(_, version)| version == roster.version())
        };
        let is_known = roster
            .all()
            .all(|node| node == self.own || self.dead.contains_key(&node) || knows(node));
        if let (true, Some(joined)) = (is_known, roster.joined()) {
            self.memory.roster = joined;
            self.remember();
        }
    }

    /// Returns the latest time at which a quorum, including this node, had no other leader.
    ///
    /// `None` if this node does not lead, or has no such quorum yet.
    pub fn confirmed_at(&self, now: Duration) -> Option<Duration> {
        let Role::Leader(leadership) = &self.role else {
            return None;
        };
        let answers = leadership.answered.values().map(|&(sent_at, _)| sent_at);
        let times: BTreeSet<Duration> = answers.chain([now]).collect();
        times.into_iter().rev().find(|&time| {
            let since = leadership
                .answered
                .iter()
                .filter(|(_, (sent_at, _))| *sent_at >= time);
            let agreeing = since.map(|(&node, _)| node).chain([self.own]);
            self.is_quorum(now, &agreeing.collect())
        })
    }
}
