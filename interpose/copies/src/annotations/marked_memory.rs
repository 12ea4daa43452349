//! Plain data about the memory that the program has annotated.

use super::mark_list::{Annotation, AnnotationList};
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::BTreeMap;
use understudy_formats::events::AnnotationKind;
use understudy_image::pages::{self, AddrRange, PageRun};

/// Annotations of the program, and trust in its functions.
pub struct AnnotationState {
    /// Annotations of the program.
    pub(super) marks: StateCell<AllAnnotations>,
    /// True after a function has failed to undo the program's changes.
    pub(super) is_distrusted: Cell<bool>,
    /// Names of places in the program, cached because finding them is slow.
    pub(super) names: StateCell<BTreeMap<u64, String>>,
}

impl AnnotationState {
    /// State at the start of the process.
    pub const fn start() -> AnnotationState {
        AnnotationState {
            marks: StateCell::new(AllAnnotations::NONE),
            is_distrusted: Cell::new(false),
            names: StateCell::new(BTreeMap::new()),
        }
    }
}

/// Memory whose content, or earlier content, a function of the program computes.
///
/// The call is `function(memory.start, memory.len(), …, argument)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct FunctionRegion {
    pub memory: AddrRange,
    pub function: u64,
    pub argument: u64,
    /// Place of the annotation in the program.
    pub place: u64,
}

/// Annotations that are saved with a cut, because a rollback must restore them.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct SavedAnnotations {
    /// Memory that is never saved (sorted).
    pub(super) excluded: Vec<PageRun>,
    /// Calls that have excluded this memory, for reports of the savings.
    pub(super) exclusions: AnnotationList,
    /// Regions that functions recompute, in the order of the calls.
    pub(super) recomputed: Vec<FunctionRegion>,
    /// Regions whose changes functions undo.
    pub(super) reversible: Vec<FunctionRegion>,
    pub(super) steps: StepProgress,
}

/// Progress of the program in its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct StepProgress {
    /// Number of the last complete step.
    pub last: i64,
    /// Number of reported steps.
    pub(super) reported: u64,
}

impl StepProgress {
    /// Returns the number of steps since `then`; `None` if they are not numbered consecutively.
    pub fn since(&self, then: &StepProgress) -> Option<u64> {
        let steps = self.last.checked_sub(then.last)?;
        let reported = self.reported.checked_sub(then.reported)?;
        u64::try_from(steps).ok().filter(|&steps| steps == reported)
    }
}

/// All annotations of the program.
pub(super) struct AllAnnotations {
    pub(super) lasting: SavedAnnotations,
    /// Memory whose content is not needed after the next point.
    pub(super) discarded: Vec<Annotation>,
    /// Annotations that expired at points since the last cut, if event files are written.
    pub(super) expired: AnnotationList,
}

impl SavedAnnotations {
    const NONE: SavedAnnotations = SavedAnnotations {
        excluded: Vec::new(),
        exclusions: AnnotationList::NONE,
        recomputed: Vec::new(),
        reversible: Vec::new(),
        steps: StepProgress {
            last: 0,
            reported: 0,
        },
    };

    /// Returns the regions whose changes functions undo, in the order of the calls.
    pub fn reversible(&self) -> &[FunctionRegion] {
        &self.reversible
    }

    /// Returns the pages of the reversible regions (sorted).
    pub fn reversible_pages(&self) -> Vec<PageRun> {
        pages::normalise(
            self.reversible
                .iter()
                .flat_map(|it| whole_pages(it.memory))
                .collect(),
        )
    }

    pub fn steps(&self) -> StepProgress {
        self.steps
    }

    pub(super) fn exclude(&mut self, mark: Annotation) {
        self.excluded = pages::union(&self.excluded, &whole_pages(mark.memory));
        self.exclusions.add(mark);
    }

    pub(super) fn include(&mut self, range: AddrRange) {
        let pages = range.pages();
        self.excluded = pages::subtract(&self.excluded, &[pages]);
        self.exclusions
            .retain(|mark| !pages::subtract(&[mark.memory.pages()], &[pages]).is_empty());
    }

    pub(super) fn left_out(&self) -> Vec<PageRun> {
        if self.recomputed.is_empty() {
            return self.excluded.clone();
        }
        let recomputed = self.recomputed.iter().flat_map(|it| whole_pages(it.memory));
        pages::union(&self.excluded, &pages::normalise(recomputed.collect()))
    }
}

/// Replaces the entry with the start address of `region`.
///
/// Only removes the entry if the function is null or the region is empty.
pub(super) fn replace_region(list: &mut Vec<FunctionRegion>, region: FunctionRegion) {
    list.retain(|it| it.memory.start != region.memory.start);
    if region.function != 0 && !region.memory.is_empty() {
        list.push(region);
    }
}

impl AllAnnotations {
    pub(super) const NONE: AllAnnotations = AllAnnotations {
        lasting: SavedAnnotations::NONE,
        discarded: Vec::new(),
        expired: AnnotationList::NONE,
    };

    pub(super) fn left_out(&self) -> Vec<PageRun> {
        let discarded = self
            .discarded
            .iter()
            .flat_map(|mark| whole_pages(mark.memory));
        pages::union(
            &self.lasting.left_out(),
            &pages::normalise(discarded.collect()),
        )
    }

    /// Returns the annotations that apply to a cut, and the expired annotations.
    ///
    /// Expired annotations have expired since the last call. At a point, the result includes the
    /// annotations that apply only at points.
    pub(super) fn at_cut(&mut self, at_point: bool) -> (Vec<Annotation>, Vec<Annotation>) {
        let forgotten = self.expired.take();
        let mark = |way: AnnotationKind| {
            move |it: &FunctionRegion| Annotation {
                way,
                memory: it.memory,
                place: it.place,
            }
        };
        let recomputed = self
            .lasting
            .recomputed
            .iter()
            .map(mark(AnnotationKind::Recompute));
        let reversible = self
            .lasting
            .reversible
            .iter()
            .map(mark(AnnotationKind::Reverse));
        let lasting = recomputed
            .chain(reversible)
            .chain(self.lasting.exclusions.iter());
        if at_point {
            (
                lasting.chain(self.discarded.iter().copied()).collect(),
                forgotten,
            )
        } else {
            (lasting.collect(), forgotten)
        }
    }
}

/// Returns the whole pages of a range.
pub fn whole_pages(range: AddrRange) -> Vec<PageRun> {
    let touched = range.pages();
    let begins = u64::from(range.start > touched.range().start);
    let ends = u64::from(range.end < touched.range().end);
    let (first, end) = (touched.start.0 + begins, touched.end().saturating_sub(ends));
    if first < end {
        vec![PageRun::between(first, end)]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(way: AnnotationKind, start: u64, end: u64) -> Annotation {
        let memory = AddrRange::new(start, end);
        Annotation {
            way,
            memory,
            place: 1,
        }
    }

    #[test]
    fn only_whole_pages_count() {
        let inside = |start, end| whole_pages(AddrRange::new(start, end));
        assert_eq!(inside(0x1000, 0x3000), [PageRun::between(1, 3)]);
        assert_eq!(inside(0x1001, 0x3000), [PageRun::between(2, 3)]);
        assert_eq!(inside(0x1000, 0x2fff), [PageRun::between(1, 2)]);
        for (start, end) in [
            (0x1001, 0x2000),
            (0x1000, 0x1fff),
            (0x1008, 0x1010),
            (0x1fff, 0x2001),
        ] {
            assert_eq!(inside(start, end), []);
        }
    }

    #[test]
    fn what_is_included_is_saved_to_its_last_byte() {
        let mut marks = AllAnnotations::NONE;
        marks
            .lasting
            .exclude(mark(AnnotationKind::Exclude, 0x1000, 0x9000));
        marks.lasting.include(AddrRange::new(0x3fff, 0x4001));
        assert_eq!(
            marks.left_out(),
            [PageRun::between(1, 3), PageRun::between(5, 9)]
        );
        marks
            .discarded
            .push(mark(AnnotationKind::Discard, 0xa000, 0xb000));
        marks
            .discarded
            .push(mark(AnnotationKind::Discard, 0x8000, 0xa000));
        assert_eq!(
            marks.left_out(),
            [PageRun::between(1, 3), PageRun::between(5, 11)]
        );
    }

    #[test]
    fn a_region_is_recomputed_until_that_is_taken_back() {
        let region = |start, end, function| FunctionRegion {
            memory: AddrRange::new(start, end),
            function,
            argument: 0,
            place: 1,
        };
        let mut marks = AllAnnotations::NONE;
        replace_region(&mut marks.lasting.recomputed, region(0x5800, 0x9000, 7));
        replace_region(&mut marks.lasting.recomputed, region(0x1000, 0x3000, 8));
        assert_eq!(
            marks.left_out(),
            [PageRun::between(1, 3), PageRun::between(6, 9)]
        );
        assert_eq!(
            marks.lasting.recomputed[0].function, 7,
            "the order is the program's"
        );
        replace_region(&mut marks.lasting.recomputed, region(0x1000, 0x2000, 9));
        assert_eq!(
            marks.left_out(),
            [PageRun::between(1, 2), PageRun::between(6, 9)]
        );
        replace_region(&mut marks.lasting.recomputed, region(0x1000, 0x2000, 0));
        replace_region(&mut marks.lasting.recomputed, region(0x5800, 0x5800, 7));
        assert_eq!(marks.lasting, SavedAnnotations::NONE);
    }

    #[test]
    fn marks_are_reported_with_their_effects() {
        let mut marks = AllAnnotations::NONE;
        let [discard, exclude] = [
            mark(AnnotationKind::Discard, 0x1000, 0x2000),
            mark(AnnotationKind::Exclude, 0x4000, 0x6000),
        ];
        marks.discarded.push(discard);
        marks.lasting.exclude(exclude);
        assert_eq!(marks.at_cut(true), (vec![exclude, discard], vec![]));
        assert_eq!(marks.at_cut(false), (vec![exclude], vec![]));
        marks.expired.add(discard);
        marks.expired.add(discard);
        marks.lasting.include(AddrRange::new(0x4000, 0x6000));
        assert_eq!(marks.at_cut(false), (vec![], vec![discard]));
        assert_eq!(marks.at_cut(false), (vec![], vec![]));
    }

    #[test]
    fn steps_count_if_they_are_numbered_one_by_one() {
        let at = |last, reported| StepProgress { last, reported };
        assert_eq!(at(9, 14).since(&at(7, 12)), Some(2));
        assert_eq!(at(9, 14).since(&at(9, 14)), Some(0));
        for then in [at(6, 12), at(10, 12), at(7, 15)] {
            assert_eq!(at(9, 14).since(&then), None, "{then:?}");
        }
        assert_eq!(at(i64::MAX, 14).since(&at(i64::MIN, 12)), None);
    }
}
