//! Elections: a trial, in which no member changes its state, and then the votes.

use super::{Council, CouncilMessage, Role, Term, Version};
use crate::Node;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for which a candidate waits for votes.
const VOTE_TIMEOUT: Duration = Duration::from_millis(500);

impl Council {
    /// True if this node knows of no leader that may have a lease from it.
    fn is_leaderless(&self, now: Duration) -> bool {
        self.heard_at
            .is_none_or(|last| now >= last + self.limits.election)
    }

    /// Answers a candidate.
    pub(super) fn vote(&mut self, now: Duration, (term, version): (Term, Version), is_trial: bool) {
        let is_free = match self.role {
            Role::Leader(_) => !self.may_act(now),
            _ => self.is_leaderless(now),
        };
        let is_newer = term > self.memory.term && version >= self.memory.roster.version();
        let is_granted = is_free && is_newer;
        if is_granted && !is_trial {
            self.memory.term = term;
            self.role = Role::Follower;
            self.heard_at = None;
            self.next_attempt = now + self.pause();
            self.remember();
        }
        let vote = CouncilMessage::Vote {
            term,
            is_trial,
            is_granted,
            known: self.memory.term,
        };
        self.send(term.leader, vote);
    }

    /// Asks for votes if there is no leader.
    pub(super) fn seek_votes(&mut self, now: Duration) {
        if now < self.next_attempt || !self.members().contains(&self.own) {
            return;
        }
        if let Role::Candidate { .. } = self.role {
            self.role = Role::Follower;
            self.next_attempt = now + self.pause();
        } else if self.is_leaderless(now) {
            let term = Term {
                number: self.memory.term.number + 1,
                leader: self.own,
            };
            self.ask_for_votes(now, term, true);
        }
    }

    fn ask_for_votes(&mut self, now: Duration, term: Term, is_trial: bool) {
        self.role = Role::Candidate {
            term,
            is_trial,
            votes: BTreeSet::new(),
        };
        self.next_attempt = now + VOTE_TIMEOUT;
        let request = CouncilMessage::VoteRequest {
            term,
            version: self.memory.roster.version(),
            is_trial,
        };
        self.send_to_all(&request);
        self.vote_received(now, self.own, (term, is_trial));
    }

    pub(super) fn vote_received(
        &mut self,
        now: Duration,
        from: Node,
        (for_term, for_trial): (Term, bool),
    ) {
        let Role::Candidate {
            term,
            is_trial,
            votes,
        } = &mut self.role
        else {
            return;
        };
        if (*term, *is_trial) != (for_term, for_trial) {
            return;
        }
        votes.insert(from);
        let votes = votes.clone();
        if !self.is_quorum(now, &votes) {
            return;
        }
        if for_trial {
            self.memory.term = for_term;
            self.remember();
            self.ask_for_votes(now, for_term, false);
        } else {
            self.lead(now, for_term);
        }
    }

    /// Returns the time until the next attempt, which differs between the members.
    fn pause(&self) -> Duration {
        let before = self.members().iter().take_while(|&&node| node != self.own);
        VOTE_TIMEOUT / 4 * (1 + before.count() as u32)
    }
}
