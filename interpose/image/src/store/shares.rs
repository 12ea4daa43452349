//! Reference counts of slots that several copies refer to.
//!
//! Only the last release of a slot frees it.

use super::slot::Extent;

/// Number of references beyond the first, for each slot.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Counts by slot, up to the highest slot that was ever shared.
    further: Vec<u8>,
}

impl Shares {
    /// Counts the references in a complete list; a slot with one entry counts zero.
    pub(super) fn count(references: impl IntoIterator<Item = Extent>) -> Self {
        let mut counts = Self::default();
        references.into_iter().for_each(|extent| counts.add(extent));
        // The list includes the first reference of each slot.
        counts
            .further
            .iter_mut()
            .for_each(|count| *count = count.saturating_sub(1));
        if counts.further.iter().all(|&count| count == 0) {
            counts.further.clear();
        }
        counts
    }

    /// Adds one reference to each of these slots.
    pub(super) fn add(&mut self, extent: Extent) {
        let (first, end) = (extent.first.0 as usize, extent.end() as usize);
        if self.further.len() < end {
            self.further.resize(end, 0);
        }
        for count in &mut self.further[first..end] {
            *count = count.checked_add(1).expect("a worker keeps few copies");
        }
    }

    /// Drops one reference, and returns the parts without further references.
    pub(super) fn take_off(&mut self, extent: Extent) -> Vec<Extent> {
        let end = extent.end();
        let counted = end.min(self.further.len() as u64);
        let mut last: Vec<Extent> = Vec::new();
        let mut push = |first: u64, to: u64| match last.last_mut() {
            Some(before) if before.end() == first => before.len += to - first,
            _ => last.push(Extent::between(first, to)),
        };
        for slot in extent.first.0..counted {
            match &mut self.further[slot as usize] {
                0 => push(slot, slot + 1),
                count => *count -= 1,
            }
        }
        let rest = extent.first.0.max(counted);
        if rest < end {
            push(rest, end);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, len: u64) -> Extent {
        Extent::between(first, first + len)
    }

    #[test]
    fn only_the_last_release_is_one() {
        let mut shares = Shares::default();
        assert_eq!(shares.take_off(extent(3, 4)), [extent(3, 4)]);
        shares.add(extent(10, 5));
        shares.add(extent(12, 1));
        assert_eq!(
            shares.take_off(extent(8, 10)),
            [extent(8, 2), extent(15, 3)]
        );
        assert_eq!(
            shares.take_off(extent(8, 10)),
            [extent(8, 4), extent(13, 5)]
        );
        assert_eq!(shares.take_off(extent(12, 1)), [extent(12, 1)]);
    }

    #[test]
    fn references_can_be_counted_anew() {
        let mut shares = Shares::count([extent(0, 8), extent(20, 4), extent(6, 4), extent(7, 1)]);
        assert_eq!(
            shares.take_off(extent(0, 24)),
            [extent(0, 6), extent(8, 16)]
        );
        assert_eq!(shares.take_off(extent(6, 2)), [extent(6, 1)]);
        assert!(
            Shares::count([extent(0, 8), extent(8, 2)])
                .further
                .is_empty()
        );
    }
}
