//! Records that are tables: calls of a set-up log, savings of annotations.
//!
//! Part of the format, like [`super::kind`].

use crate::describe::{Describe, Value, described};
use bincode::{Decode, Encode};
use std::fmt;
use std::ops::AddAssign;
use understudy_numbers::Worker;

described! {
    /// Number of messages or calls, and their bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
    pub struct Amount {
        pub count: u64,
        pub bytes: u64,
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.wrapping_add(other.count);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

described! {
    /// Traffic counts of a worker, as event files of earlier builds have them.
    ///
    /// No process writes the record any more. Files that hold it stay readable.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct Traffic {
        pub worker: Worker,
        pub peers: Vec<(Worker, Amount)>,
        pub other_peers: Amount,
        /// Communicators: number, name, members, remote members, messages, collectives.
        pub comms: Vec<(u64, String, u32, Option<u32>, Amount, Amount)>,
        pub other_comms: [Amount; 2],
        pub undone: Amount,
    }
}

described! {
    /// Calls of one procedure from one place.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct JournalRow {
        pub procedure: String,
        /// Function and offset, or offset, and the file they are in.
        pub place: String,
        /// Calls, and bytes of the journal before it is compressed.
        pub calls: Amount,
    }
}

described! {
    /// Calls that a set-up log consists of.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct JournalCalls {
        pub worker: Worker,
        /// All calls, and the length of the journal before it is compressed.
        pub journal: Amount,
        /// Bytes of the journal as it is kept, compressed; `None` if it is not.
        pub kept: Option<u64>,
        /// The places with the most bytes, those first.
        pub rows: Vec<JournalRow>,
        /// Number of call sites that are not listed, and their amounts.
        pub other_places: u64,
        pub others: Amount,
    }
}

/// Annotation of memory that need not be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum MarkWay {
    /// `understudy_discard`
    Discard,
    /// `understudy_exclude`
    Exclude,
    /// `understudy_recompute`
    Recompute,
    /// `understudy_reversible`
    Reverse,
}

impl Describe for MarkWay {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}

impl fmt::Display for MarkWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discard => "discard",
            Self::Exclude => "exclude",
            Self::Recompute => "recompute",
            Self::Reverse => "reverse",
        })
    }
}

described! {
    /// Effect of an annotation on a capture.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct MarkSaving {
        pub way: MarkWay,
        /// Function and offset of the call, or offset, and the file they are in.
        pub place: String,
        pub start: u64,
        pub bytes: u64,
        /// Pages that lie inside.
        pub whole_pages: u64,
        /// True if the annotation counted at the capture; a discarded range counts at the next one.
        pub counts: bool,
        /// Pages with content that the copy does not hold.
        pub held_pages: u64,
        /// Pages that would have been captured and sent.
        pub saved_pages: u64,
    }
}
