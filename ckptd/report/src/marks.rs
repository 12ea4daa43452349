//! Savings by the annotations of a program (`understudy.h`).

use crate::Event;
use crate::described::described;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use understudy_formats::events::{AnnotationKind, AnnotationSaving, Epoch, Kind, ProcessNumber};

/// Annotated memory of one size, kind and call site, in all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkRow {
    #[serde(serialize_with = "described")]
    pub way: AnnotationKind,
    /// Function and offset of the call.
    pub place: String,
    /// Size of each region of this row, in bytes.
    pub bytes: u64,
    /// Number of whole pages of the largest region.
    pub whole_pages: u64,
    /// Number of different regions, counted in each process.
    pub regions: u64,
    /// Number of captures for which the annotation was in force.
    pub captures: u64,
    /// Number of captures before which the annotation was withdrawn.
    pub missed: u64,
    /// Number of pages that would have been captured and sent.
    pub saved_pages: u64,
    /// Number of pages that replicas of one process would have contained.
    ///
    /// The capture with the most pages counts.
    pub held_pages: u64,
}

impl MarkRow {
    /// Returns the reason why nothing was saved; `None` if something was saved.
    pub fn failing(&self) -> Option<&'static str> {
        match self {
            Self {
                saved_pages: 1.., ..
            } => None,
            // Steps that can be undone save only memory of replicas.
            Self {
                way: AnnotationKind::Reverse,
                held_pages: 1..,
                ..
            } => None,
            Self { whole_pages: 0, .. } => Some("no whole page lies inside"),
            Self {
                way: AnnotationKind::Reverse,
                ..
            } => Some(
                "replicas of it were kept: its function was not trusted, no buddy had a replica, \
                 or a checkpoint on disk or parity needed it",
            ),
            Self { captures: 0, .. } => Some(
                "no checkpoint was taken at the point after it, but elsewhere, where its content \
                 may still be needed",
            ),
            Self {
                held_pages: 1.., ..
            } => Some(
                "nothing was written there between two checkpoints, so only memory of replicas was \
                 saved",
            ),
            _ => Some("nothing has ever been written there"),
        }
    }
}

/// Savings by all annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MarkSavings {
    /// Annotations, those with the most savings first.
    pub rows: Vec<MarkRow>,
    /// Number of checkpoints from which pages were left out.
    pub checkpoints: u64,
    /// Pages that were left out of all captures except the first, of all processes.
    pub saved_pages: u64,
    /// Pages that were captured nevertheless.
    pub captured_pages: u64,
    /// Time of copying the captured pages.
    pub copy_ns: u64,
    /// Number of recomputations after recoveries, of all processes.
    pub recomputations: u64,
    /// Duration of the longest recomputation.
    pub longest_ns: u64,
    /// Number of times that survivors have undone steps.
    pub reversals: u64,
    /// Longest duration of undoing steps.
    pub longest_reversal_ns: u64,
    /// Number of times that undoing steps has failed.
    pub failed_reversals: u64,
}

/// Kind, call site and size of annotated memory, which identify a row.
type RowKey = (AnnotationKind, String, u64);

/// Limit of counted regions of all annotations together, which bounds the memory for them.
const MAX_REGIONS: usize = 100_000;

/// Collects the savings by annotations, event by event.
#[derive(Debug, Default)]
pub(super) struct MarkCollector {
    savings: MarkSavings,
    rows: BTreeMap<RowKey, MarkRow>,
    regions: BTreeSet<(RowKey, ProcessNumber, u64)>,
    epochs: BTreeSet<Epoch>,
}

impl MarkCollector {
    pub fn add(&mut self, event: &Event) {
        let savings = &mut self.savings;
        match &event.kind {
            // The first capture copies everything, before the program could annotate memory.
            Kind::Capture {
                epoch,
                pages,
                copy_ns,
                ..
            } if *epoch > Epoch(1) => {
                savings.captured_pages = savings.captured_pages.saturating_add(*pages);
                savings.copy_ns = savings.copy_ns.saturating_add(*copy_ns);
            }
            Kind::Elided {
                epoch,
                pages,
                marks,
            } => {
                if *pages > 0 {
                    self.epochs.insert(*epoch);
                }
                savings.saved_pages = savings.saved_pages.saturating_add(*pages);
                marks.iter().for_each(|mark| self.mark(event.rank, mark));
            }
            Kind::Recomputed { ns, .. } => {
                savings.recomputations += 1;
                savings.longest_ns = savings.longest_ns.max(*ns);
            }
            Kind::Reversed { wrong, ns, .. } => {
                savings.reversals += 1;
                savings.longest_reversal_ns = savings.longest_reversal_ns.max(*ns);
                savings.failed_reversals += u64::from(*wrong > 0);
            }
            _ => {}
        }
    }

    fn mark(&mut self, rank: ProcessNumber, mark: &AnnotationSaving) {
        let key = (mark.way, mark.place.clone(), mark.bytes);
        let row = self
            .rows
            .entry(key.clone())
            .or_insert_with(|| MarkRow::new(mark.way, &mark.place, mark.bytes));
        row.whole_pages = row.whole_pages.max(mark.whole_pages);
        row.captures += u64::from(mark.counts);
        row.missed += u64::from(!mark.counts);
        row.saved_pages = row.saved_pages.saturating_add(mark.saved_pages);
        row.held_pages = row.held_pages.max(mark.held_pages);
        if self.regions.len() < MAX_REGIONS && self.regions.insert((key, rank, mark.start)) {
            row.regions += 1;
        }
    }

    /// Returns the savings; `None` if the program has no annotations.
    pub fn finish(self) -> Option<MarkSavings> {
        let mut savings = self.savings;
        savings.checkpoints = self.epochs.len() as u64;
        savings.rows = self.rows.into_values().collect();
        savings
            .rows
            .sort_by_key(|row| std::cmp::Reverse(row.saved_pages));
        (!savings.rows.is_empty()).then_some(savings)
    }
}

impl MarkSavings {
    /// Returns the fraction of pages that were left out of checkpoints, from 0 to 1.
    pub fn share(&self) -> f64 {
        let all = self.saved_pages.saturating_add(self.captured_pages);
        if all == 0 {
            0.0
        } else {
            self.saved_pages as f64 / all as f64
        }
    }

    /// Returns the saved time of copying, assuming equal times for all pages.
    pub fn saved_ns(&self) -> u64 {
        let per_page = self.copy_ns as f64 / self.captured_pages.max(1) as f64;
        (per_page * self.saved_pages as f64) as u64
    }
}

impl MarkRow {
    fn new(way: AnnotationKind, place: &str, bytes: u64) -> Self {
        Self {
            way,
            place: place.to_owned(),
            bytes,
            whole_pages: 0,
            regions: 0,
            captures: 0,
            missed: 0,
            saved_pages: 0,
            held_pages: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(rank: u32, kind: Kind) -> Event {
        Event {
            at_ns: 0,
            rank: ProcessNumber(rank),
            epoch: Epoch(1),
            kind,
            frame_bytes: 0,
        }
    }

    fn savings(events: &[Event]) -> Option<MarkSavings> {
        let mut collector = MarkCollector::default();
        events.iter().for_each(|event| collector.add(event));
        collector.finish()
    }

    fn mark(
        place: &str,
        bytes: u64,
        counts: bool,
        [held_pages, saved_pages]: [u64; 2],
    ) -> AnnotationSaving {
        AnnotationSaving {
            way: AnnotationKind::Discard,
            place: place.into(),
            start: 0x10000,
            bytes,
            whole_pages: bytes / 4096,
            counts,
            held_pages,
            saved_pages,
        }
    }

    fn capture(epoch: u64, pages: u64) -> Kind {
        Kind::Capture {
            epoch: Epoch(epoch),
            pages,
            bytes: 0,
            scan_ns: 5,
            copy_ns: 10 * pages,
        }
    }

    #[test]
    fn savings_are_added_up_and_marks_without_any_are_named() {
        let left_out = |epoch, pages, marks| Kind::Elided {
            epoch: Epoch(epoch),
            pages,
            marks,
        };
        let good = || mark("step", 8192, true, [2, 2]);
        let mut events = Vec::new();
        for rank in [0, 1] {
            let others = vec![
                good(),
                mark("small", 100, true, [0, 0]),
                mark("late", 4096, false, [0, 0]),
                mark("quiet", 40960, true, [10, 0]),
            ];
            events.push(event(rank, capture(1, 1000)));
            events.push(event(rank, capture(2, 6)));
            events.push(event(rank, left_out(2, 2, others)));
            events.push(event(rank, capture(3, 6)));
            events.push(event(rank, left_out(3, 2, vec![good()])));
        }
        let total = savings(&events).unwrap();
        assert_eq!(
            (total.checkpoints, total.saved_pages, total.captured_pages),
            (2, 8, 24)
        );
        assert_eq!((total.share(), total.saved_ns()), (0.25, 80));
        let first = &total.rows[0];
        assert_eq!(
            (first.place.as_str(), first.regions, first.captures),
            ("step", 2, 4)
        );
        assert_eq!(
            (first.saved_pages, first.held_pages, first.failing()),
            (8, 2, None)
        );
        let why = |place| {
            total
                .rows
                .iter()
                .find(|row| row.place == place)
                .unwrap()
                .failing()
                .unwrap()
        };
        assert!(why("small").contains("no whole page"));
        assert!(why("late").contains("no checkpoint was taken at the point"));
        assert!(why("quiet").contains("memory of replicas"));
        assert_eq!(savings(&events[..2]), None);
    }

    #[test]
    fn what_functions_undo_saves_memory_of_copies() {
        let left_out = |held| Kind::Elided {
            epoch: Epoch(2),
            pages: 0,
            marks: vec![AnnotationSaving {
                way: AnnotationKind::Reverse,
                ..mark("step", 8192, true, [held, 0])
            }],
        };
        let reversed = |wrong| Kind::Reversed {
            pages: 2,
            wrong,
            steps: 3,
            ns: 7 + wrong,
        };
        let events = [left_out(2), reversed(0), reversed(1)].map(|kind| event(0, kind));
        let total = savings(&events).unwrap();
        assert_eq!(
            (total.rows[0].failing(), total.rows[0].held_pages),
            (None, 2)
        );
        assert_eq!(
            (
                total.reversals,
                total.longest_reversal_ns,
                total.failed_reversals
            ),
            (2, 8, 1)
        );
        let kept = savings(&[event(0, left_out(0))]).unwrap();
        assert!(
            kept.rows[0]
                .failing()
                .unwrap()
                .contains("replicas of it were kept")
        );
    }
}
