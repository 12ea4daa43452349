//! Order in which a process enters collectives if several threads call MPI concurrently.
//!
//! A process inside of a blocking collective serves none of its other threads. Therefore each
//! process votes, for one collective after the other, on whether it would enter that one now. The
//! members enter after a unanimous vote. A process approves only one collective at a time, and its
//! approval stands until the vote is over. So no process waits in a collective for a process inside
//! of another one, and all processes enter their common collectives in one order. If a process can
//! approve several collectives, it approves that of the oldest communicator, because others use
//! this rule, too.

use std::collections::BTreeMap;

/// Votes of one process on the collectives at whose entries its threads are.
///
/// The key is the `uid` of the communicator.
#[derive(Debug)]
pub struct Gatherings {
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// True if all members have arrived.
    is_complete: bool,
    /// True if this process has approved the entry.
    would_enter: bool,
    /// True for a reservation, which precedes later entries ([`Gatherings::hold`]).
    holds: bool,
}

impl Gatherings {
    /// State without entries.
    pub const NONE: Gatherings = Gatherings {
        entries: BTreeMap::new(),
    };

    /// Records a thread at the entry of a collective and returns the first vote.
    ///
    /// `is_alone` is true if the process has no other thread.
    pub fn come(&mut self, uid: u64, is_alone: bool) -> bool {
        self.say(uid, false, is_alone)
    }

    /// Returns the next vote after a vote of all members that was not unanimous.
    pub fn again(&mut self, uid: u64) -> bool {
        // The previous approval of this process does not count any more.
        self.entries.remove(&uid);
        let mut older = self.entries.range(..uid);
        let is_first = older.all(|(_, entry)| !entry.is_complete);
        self.say(uid, true, is_first)
    }

    fn say(&mut self, uid: u64, is_complete: bool, wants: bool) -> bool {
        let is_free = self
            .entries
            .values()
            .all(|entry| !entry.would_enter && !entry.holds);
        let would_enter = wants && is_free;
        let entry = Entry {
            is_complete,
            would_enter,
            holds: false,
        };
        self.entries.insert(uid, entry);
        would_enter
    }

    /// Reserves the process for the call `name`; returns true if no other approval stands.
    pub fn hold(&mut self, name: u64) -> bool {
        let others = || self.entries.iter().filter(|(other, _)| **other != name);
        let is_free = others().all(|(_, entry)| !entry.would_enter);
        let entry = Entry {
            is_complete: false,
            would_enter: is_free,
            holds: true,
        };
        self.entries.insert(name, entry);
        is_free
    }

    /// Removes the entry of a call that this process enters now, before all others.
    pub fn enter(&mut self, uid: u64) {
        self.entries.remove(&uid);
    }
}
