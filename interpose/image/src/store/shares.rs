//! Reference counts of slots to which several copies refer.
//!
//! Only the last release of a slot frees it.

use super::slot::Extent;

/// Number of references beyond the first, for each slot.
#[derive(Debug, Default)]
pub(super) struct ShareCounts {
    /// Counts by slot, up to the highest slot that was ever shared.
    further_references: Vec<u8>,
}

impl ShareCounts {
    /// Counts the references in a complete list; a slot with one entry counts zero.
    pub(super) fn count(references: impl IntoIterator<Item = Extent>) -> Self {
        let mut counts = Self::default();
        references.into_iter().for_each(|extent| counts.add(extent));
        // The list includes the first reference of each slot.
        counts
            .further_references
            .iter_mut()
            .for_each(|count| *count = count.saturating_sub(1));
        if counts.further_references.iter().all(|&count| count == 0) {
            counts.further_references.clear();
        }
        counts
    }

    /// Adds one reference to each of these slots.
    pub(super) fn add(&mut self, extent: Extent) {
        let (first, end) = (extent.first.0 as usize, extent.end() as usize);
        if self.further_references.len() < end {
            self.further_references.resize(end, 0);
        }
        for count in &mut self.further_references[first..end] {
            *count = count.checked_add(1).expect("a worker keeps few copies");
        }
    }

    /// Drops one reference to each of these slots, and returns those without further references.
    pub(super) fn drop_reference(&mut self, extent: Extent) -> Vec<Extent> {
        let end = extent.end();
        let counted = end.min(self.further_references.len() as u64);
        let mut unreferenced: Vec<Extent> = Vec::new();
        let mut push = |first: u64, end: u64| match unreferenced.last_mut() {
            Some(before) if before.end() == first => before.len += end - first,
            _ => unreferenced.push(Extent::between(first, end)),
        };
        for slot in extent.first.0..counted {
            match &mut self.further_references[slot as usize] {
                0 => push(slot, slot + 1),
                count => *count -= 1,
            }
        }
        let rest = extent.first.0.max(counted);
        if rest < end {
            push(rest, end);
        }
        unreferenced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, len: u64) -> Extent {
        Extent::between(first, first + len)
    }

    #[test]
    fn only_the_last_release_frees_a_slot() {
        let mut shares = ShareCounts::default();
        assert_eq!(shares.drop_reference(extent(3, 4)), [extent(3, 4)]);
        shares.add(extent(10, 5));
        shares.add(extent(12, 1));
        assert_eq!(
            shares.drop_reference(extent(8, 10)),
            [extent(8, 2), extent(15, 3)]
        );
        assert_eq!(
            shares.drop_reference(extent(8, 10)),
            [extent(8, 4), extent(13, 5)]
        );
        assert_eq!(shares.drop_reference(extent(12, 1)), [extent(12, 1)]);
    }

    #[test]
    fn references_can_be_counted_anew() {
        let mut shares =
            ShareCounts::count([extent(0, 8), extent(20, 4), extent(6, 4), extent(7, 1)]);
        assert_eq!(
            shares.drop_reference(extent(0, 24)),
            [extent(0, 6), extent(8, 16)]
        );
        assert_eq!(shares.drop_reference(extent(6, 2)), [extent(6, 1)]);
        assert!(
            ShareCounts::count([extent(0, 8), extent(8, 2)])
                .further_references
                .is_empty()
        );
    }
}
