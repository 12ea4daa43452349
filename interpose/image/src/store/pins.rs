//! Slots that must not be freed yet, although they may be released.

use super::slot::Extent;
use std::ops::Range;

/// Pinned slots, and the pinned slots that were released.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// Pinned slots, sorted and disjoint.
    ranges: Vec<Range<u64>>,
    /// Pinned slots that were released.
    released: Vec<Extent>,
}

impl Pins {
    pub(super) fn new(extents: impl IntoIterator<Item = Extent>) -> Self {
        let range = |extent: Extent| extent.first.0..extent.end();
        let mut ranges: Vec<Range<u64>> = extents.into_iter().map(range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let is_adjacent = next.start <= before.end;
            if is_adjacent {
                before.end = before.end.max(next.end);
            }
            is_adjacent
        });
        Self {
            ranges,
            released: Vec::new(),
        }
    }

    /// Retains the pinned parts of a released extent and returns the other parts.
    pub(super) fn retain(&mut self, extent: Extent) -> Vec<Extent> {
        let (mut next, end) = (extent.first.0, extent.end());
        let mut others = Vec::new();
        let first = self.ranges.partition_point(|range| range.end <= next);
        for pinned in self.ranges[first..]
            .iter()
            .take_while(|range| range.start < end)
        {
            if next < pinned.start {
                others.push(Extent::between(next, pinned.start));
            }
            let stop = end.min(pinned.end);
            self.released
                .push(Extent::between(next.max(pinned.start), stop));
            next = stop;
        }
        if next < end {
            others.push(Extent::between(next, end));
        }
        others
    }

    pub(super) fn released(self) -> Vec<Extent> {
        self.released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, len: u64) -> Extent {
        Extent::between(first, first + len)
    }

    #[test]
    fn overlapping_pins_are_joined() {
        let mut pins = Pins::new([extent(10, 10), extent(0, 5), extent(15, 3), extent(18, 7)]);
        assert_eq!(pins.retain(extent(0, 30)), [extent(5, 5), extent(25, 5)]);
        assert_eq!(pins.released(), [extent(0, 5), extent(10, 15)]);
    }

    #[test]
    fn only_pinned_slots_are_retained() {
        let mut pins = Pins::new([extent(20, 5), extent(10, 5)]);
        assert_eq!(pins.retain(extent(0, 10)), [extent(0, 10)]);
        assert_eq!(pins.retain(extent(15, 5)), [extent(15, 5)]);
        assert_eq!(pins.retain(extent(11, 2)), []);
        assert_eq!(pins.retain(extent(14, 12)), [extent(15, 5), extent(25, 1)]);
        assert_eq!(pins.retain(extent(30, 0)), []);
        assert_eq!(
            pins.released(),
            [extent(11, 2), extent(14, 1), extent(20, 5)]
        );
    }
}
