//! Set of byte ranges of a file.

use std::collections::BTreeMap;

/// Part of a file: offset and length in bytes.
pub type Range = (u64, u64);

/// Bytes of a file as disjoint, non-adjacent ranges: begin and end.
#[derive(Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// True if the set contains the whole range.
    pub fn contains(&self, (offset, length): Range) -> bool {
        let before = self.0.range(..=offset).next_back();
        before.is_some_and(|(_, &end)| end >= offset.saturating_add(length))
    }

    /// Adds a range; appends the parts that are new to `new`.
    pub fn add(&mut self, (offset, length): Range, new: &mut Vec<Range>) {
        if length == 0 {
            return;
        }
        let (mut begin, mut end) = (offset, offset + length);
        let mut at = begin;
        let before = self.0.range(..=begin).next_back();
        if let Some((&first, &last)) = before
            && last >= begin
        {
            (begin, at) = (first, last.max(at));
        }
        let touched: Vec<Range> = self
            .0
            .range(begin..=end)
            .map(|(&from, &to)| (from, to))
            .collect();
        let wanted = offset + length;
        for (from, to) in touched {
            if from > at {
                new.push((at, from.min(wanted) - at));
            }
            (at, end) = (at.max(to), end.max(to));
            self.0.remove(&from);
        }
        if at < wanted {
            new.push((at, wanted - at));
        }
        self.0.insert(begin, end);
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, Ranges};

    fn add(ranges: &mut Ranges, range: Range) -> Vec<Range> {
        let mut new = Vec::new();
        ranges.add(range, &mut new);
        new
    }

    #[test]
    fn only_what_is_new_is_kept() {
        let mut ranges = Ranges::default();
        assert_eq!(add(&mut ranges, (10, 10)), [(10, 10)]);
        assert_eq!(add(&mut ranges, (12, 3)), []);
        assert_eq!(add(&mut ranges, (0, 12)), [(0, 10)]);
        assert_eq!(add(&mut ranges, (30, 5)), [(30, 5)]);
        assert_eq!(add(&mut ranges, (15, 30)), [(20, 10), (35, 10)]);
        assert_eq!(add(&mut ranges, (0, 45)), []);
        assert_eq!(add(&mut ranges, (44, 2)), [(45, 1)]);
        assert!(
            ranges.contains((45, 1))
                && !ranges.contains((45, 2))
                && !Ranges::default().contains((0, 0))
        );
        assert_eq!(ranges.0.into_iter().collect::<Vec<_>>(), [(0, 46)]);
    }

    #[test]
    fn random_ranges_are_kept_once_and_whole() {
        let (mut state, mut ranges, mut seen) = (12345u64, Ranges::default(), [false; 512]);
        for _ in 0..2000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (offset, length) = ((state >> 33) % 480, (state >> 50) % 32);
            let mut expected: Vec<u64> = (offset..offset + length)
                .filter(|&at| !seen[at as usize])
                .collect();
            let mut found: Vec<u64> = add(&mut ranges, (offset, length))
                .into_iter()
                .flat_map(|(from, count)| from..from + count)
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            expected.iter().for_each(|&at| seen[at as usize] = true);
            if state >> 60 == 0 {
                (ranges, seen) = (Ranges::default(), [false; 512]);
            }
        }
    }
}
