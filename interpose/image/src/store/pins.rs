//! Slots that are still being read and must not be freed yet.

use super::slot::Extent;

/// Pinned slots, and those of them that were released meanwhile.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// Half-open ranges of slots, sorted and disjoint.
    ranges: Vec<(u64, u64)>,
    released: Vec<Extent>,
}

impl Pins {
    pub(super) fn new(extents: impl IntoIterator<Item = Extent>) -> Self {
        let range = |extent: Extent| (extent.first.0, extent.end());
        let mut ranges: Vec<(u64, u64)> = extents.into_iter().map(range).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joins = next.0 <= before.1;
            if joins {
                before.1 = before.1.max(next.1);
            }
            joins
        });
        Self {
            ranges,
            released: Vec::new(),
        }
    }

    /// Retains the pinned parts of a released extent and returns the other parts.
    pub(super) fn retain(&mut self, extent: Extent) -> Vec<Extent> {
        let (mut at, end) = (extent.first.0, extent.end());
        let mut others = Vec::new();
        let first = self.ranges.partition_point(|range| range.1 <= at);
        for &(start, stop) in self.ranges[first..]
            .iter()
            .take_while(|range| range.0 < end)
        {
            if at < start {
                others.push(Extent::between(at, start));
            }
            let (from, to) = (at.max(start), end.min(stop));
            self.released.push(Extent::between(from, to));
            at = to;
        }
        if at < end {
            others.push(Extent::between(at, end));
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
    fn what_overlaps_is_one() {
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
