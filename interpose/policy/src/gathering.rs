//! Which of several collectives a process enters first, where threads call MPI at the same time.
//!
//! A process that is inside of a blocking collective helps none of its other threads. So a process
//! says in turn of each collective whether it would enter that one now, and all members enter when
//! all would. It would enter one at a time only, and holds to its word until that is over: so
//! nobody waits in a collective for a process that is inside of another one, and all processes
//! enter those that they have in common in the same order. If several could be entered, it is the
//! one of the oldest communicator, since others decide alike.

use std::collections::BTreeMap;

/// One process's word on the collectives that its threads are at the entry of, each by the `uid` of
/// its communicator.
#[derive(Debug)]
pub struct Gatherings {
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// All members have come.
    is_complete: bool,
    /// This process has said that it would enter it.
    would_enter: bool,
    /// It is no collective, but what comes before those that are entered later
    /// ([`Gatherings::hold`]).
    holds: bool,
}

impl Gatherings {
    /// None.
    pub const NONE: Gatherings = Gatherings {
        entries: BTreeMap::new(),
    };

    /// A thread is at the entry of a collective; `is_alone`: it is the only one of this process.
    /// The first word.
    pub fn come(&mut self, uid: u64, is_alone: bool) -> bool {
        self.say(uid, false, is_alone)
    }

    /// All members have given their word, and not all would enter: the next one.
    pub fn again(&mut self, uid: u64) -> bool {
        // Its own word before does not count any more.
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

    /// Nothing is to be entered any more before what has this name. Whether that is so already.
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

    /// All would enter, and this process does so before anything else.
    pub fn enter(&mut self, uid: u64) {
        self.entries.remove(&uid);
    }
}
