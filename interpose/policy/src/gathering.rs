//! Order in which a process enters collectives if several threads call MPI concurrently.
//!
//! A process inside of a blocking collective serves none of its other threads. Therefore each
//! process votes, for one collective after the other, on whether it would enter that one now. The
//! members enter after a unanimous vote. A process approves only one collective at a time, and its
//! approval stands until the vote is over. So no process waits in a collective for a process inside
//! of another one, and all processes enter their common collectives in one order. If a process can
//! approve several collectives, it approves that of the oldest communicator, a rule by which all
//! processes choose the same one.

use std::collections::BTreeMap;

/// Votes of one process on the collectives at whose entries its threads are.
///
/// The key is the `uid` of the communicator.
#[derive(Debug)]
pub struct EntryVotes {
    entries: BTreeMap<u64, EntryVote>,
}

#[derive(Debug)]
struct EntryVote {
    /// True if all members have arrived.
    is_complete: bool,
    /// True if this process has approved the entry.
    approves: bool,
    /// True for a reservation, which precedes later entries ([`EntryVotes::reserve`]).
    is_reservation: bool,
}

impl EntryVotes {
    /// State without entries.
    pub const NONE: EntryVotes = EntryVotes {
        entries: BTreeMap::new(),
    };

    /// Records a thread at the entry of a collective and returns the first vote.
    ///
    /// `is_alone` is true if the process has no other thread.
    pub fn arrive(&mut self, uid: u64, is_alone: bool) -> bool {
        self.vote(uid, false, is_alone)
    }

    /// Returns the next vote after a vote of all members that was not unanimous.
    pub fn next_vote(&mut self, uid: u64) -> bool {
        // The previous approval of this process does not count any more.
        self.entries.remove(&uid);
        let mut older = self.entries.range(..uid);
        let is_first = older.all(|(_, entry)| !entry.is_complete);
        self.vote(uid, true, is_first)
    }

    fn vote(&mut self, uid: u64, is_complete: bool, wants: bool) -> bool {
        let is_free = self
            .entries
            .values()
            .all(|entry| !entry.approves && !entry.is_reservation);
        let would_enter = wants && is_free;
        let entry = EntryVote {
            is_complete,
            approves: would_enter,
            is_reservation: false,
        };
        self.entries.insert(uid, entry);
        would_enter
    }

    /// Reserves the process for the call `name`; returns true if no other approval stands.
    pub fn reserve(&mut self, name: u64) -> bool {
        let others = || self.entries.iter().filter(|(other, _)| **other != name);
        let is_free = others().all(|(_, entry)| !entry.approves);
        let entry = EntryVote {
            is_complete: false,
            approves: is_free,
            is_reservation: true,
        };
        self.entries.insert(name, entry);
        is_free
    }

    /// Removes the entry of a call, because this process enters the call now.
    pub fn enter(&mut self, uid: u64) {
        self.entries.remove(&uid);
    }
}
