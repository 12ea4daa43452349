//! Records with tables: calls of a set-up log, savings of annotations.
//!
//! The records are part of the format, like [`super::kind`].

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
    /// Traffic counts of a worker, in event files of earlier builds.
    ///
    /// No process writes this record any more. Files of the present version that contain the record
    /// remain readable.
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
    /// Calls of one procedure from one call site.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct JournalRow {
        pub procedure: String,
        /// Call site: function and offset (or only the offset), and the file.
        pub place: String,
        /// Calls, and bytes of the uncompressed journal.
        pub calls: Amount,
    }
}

described! {
    /// Calls in a set-up log.
    #[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
    pub struct JournalCalls {
        pub worker: Worker,
        /// All calls, and the length of the uncompressed journal.
        pub journal: Amount,
        /// Bytes of the stored, compressed journal; `None` if it is not stored.
        pub kept: Option<u64>,
        /// Call sites with the most bytes, in descending order.
        pub rows: Vec<JournalRow>,
        /// Number of call sites that are not listed.
        pub other_places: u64,
        /// Calls from these call sites, and their bytes of the uncompressed journal.
        pub others: Amount,
    }
}

/// Kinds of annotations, by the function that makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum AnnotationKind {
    /// `understudy_discard`
    Discard,
    /// `understudy_exclude`
    Exclude,
    /// `understudy_recompute`
    Recompute,
    /// `understudy_reversible`
    Reverse,
}

impl Describe for AnnotationKind {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}

impl fmt::Display for AnnotationKind {
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
    pub struct AnnotationSaving {
        pub way: AnnotationKind,
        /// Call site: function and offset (or only the offset), and the file.
        pub place: String,
        pub start: u64,
        pub bytes: u64,
        /// Whole pages inside of the range.
        pub whole_pages: u64,
        /// True if the annotation applied to the capture.
        ///
        /// A discarded range applies to the next capture.
        pub counts: bool,
        /// Pages with content that the replica omits.
        pub held_pages: u64,
        /// Pages that would have been captured and sent.
        pub saved_pages: u64,
    }
}
