//! Contents of the journals of the set-up phase, over all workers.

use crate::Event;
use crate::described::described;
use serde::Serialize;
use std::collections::BTreeMap;
use understudy_formats::events::{Amount, JournalCalls, JournalRow, Kind, Worker};

/// Sum over all workers of the last journal that each has reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalTable {
    /// Number of workers that have reported a journal.
    pub workers: u32,
    /// Compressed size of the journals that are kept, in bytes.
    pub kept: u64,
    /// Number of journals that are not kept.
    pub not_kept: u32,
    /// Calls and bytes before compression.
    #[serde(serialize_with = "described")]
    pub total: Amount,
    /// Call sites, those with the most bytes first.
    #[serde(serialize_with = "described")]
    pub rows: Vec<JournalRow>,
    /// Calls that workers have not listed by call site.
    #[serde(serialize_with = "described")]
    pub others: Amount,
}

/// Collects the journals of a job, event by event.
#[derive(Debug, Default)]
pub(super) struct JournalCollector(BTreeMap<Worker, JournalCalls>);

impl JournalCollector {
    pub fn add(&mut self, event: &Event) {
        if let Kind::JournalCalls { calls } = &event.kind {
            self.0.insert(calls.worker, calls.clone());
        }
    }

    /// Returns the table; `None` if no worker has recorded a journal.
    pub fn finish(self) -> Option<JournalTable> {
        JournalTable::new(&self.0)
    }
}

impl JournalTable {
    fn new(last: &BTreeMap<Worker, JournalCalls>) -> Option<Self> {
        let mut it = Self {
            workers: last.len() as u32,
            kept: last
                .values()
                .filter_map(|calls| calls.kept)
                .fold(0, u64::saturating_add),
            not_kept: last.values().filter(|calls| calls.kept.is_none()).count() as u32,
            total: Amount::default(),
            rows: Vec::new(),
            others: Amount::default(),
        };
        let mut rows: BTreeMap<(&str, &str), Amount> = BTreeMap::new();
        for calls in last.values() {
            it.total += calls.journal;
            it.others += calls.others;
            for row in &calls.rows {
                *rows.entry((&row.procedure, &row.place)).or_default() += row.calls;
            }
        }
        let row = |((procedure, place), calls): ((&str, &str), Amount)| JournalRow {
            procedure: procedure.to_owned(),
            place: place.to_owned(),
            calls,
        };
        it.rows = rows.into_iter().map(row).collect();
        it.rows
            .sort_by_key(|row| std::cmp::Reverse((row.calls.bytes, row.calls.count)));
        (it.workers > 0).then_some(it)
    }

    /// Returns the first `count` call sites, and the sum of all others.
    pub fn first(&self, count: usize) -> (&[JournalRow], Amount) {
        let (first, rest) = self.rows.split_at(count.min(self.rows.len()));
        let mut others = self.others;
        rest.iter().for_each(|row| others += row.calls);
        (first, others)
    }
}
