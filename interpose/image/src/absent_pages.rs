//! Pages of an epoch of which only the checksums are stored.
//!
//! Other modules determine the source of the pages' content, for example a replay of the set-up
//! log.

use super::pages::{self, PageIndex, PageRun};

/// Checksums ([`super::sums`]) of consecutive pages.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct PageSums {
    pub first: PageIndex,
    /// Checksum of each page.
    pub sums: Vec<u64>,
}

impl PageSums {
    pub fn pages(&self) -> PageRun {
        PageRun::between(self.first.0, self.first.0 + self.sums.len() as u64)
    }

    /// Iterates over the pages with their checksums.
    pub fn each(&self) -> impl Iterator<Item = (PageIndex, u64)> + '_ {
        (self.first.0..)
            .zip(&self.sums)
            .map(|(page, &sum)| (PageIndex(page), sum))
    }
}

/// Returns the pages of a list.
pub fn pages_of(list: &[PageSums]) -> Vec<PageRun> {
    let mut out = Vec::with_capacity(list.len());
    list.iter()
        .for_each(|run| pages::push(&mut out, run.pages()));
    out
}

/// Appends checksums to a sorted list, behind its last page.
pub fn push(list: &mut Vec<PageSums>, first: PageIndex, sums: &[u64]) {
    match list.last_mut() {
        _ if sums.is_empty() => {}
        Some(last) if last.pages().end() == first.0 => last.sums.extend(sums),
        _ => list.push(PageSums {
            first,
            sums: sums.to_vec(),
        }),
    }
}

/// Restricts a sorted list to these pages (sorted).
pub fn among(list: &[PageSums], pages: &[PageRun]) -> Vec<PageSums> {
    let mut out = Vec::new();
    let mut pages = pages.iter().copied().peekable();
    for run in list {
        let (first, end) = (run.first.0, run.pages().end());
        while let Some(wanted) = pages.peek() {
            let (start, stop) = (first.max(wanted.start.0), end.min(wanted.end()));
            if start < stop {
                push(
                    &mut out,
                    PageIndex(start),
                    &run.sums[(start - first) as usize..(stop - first) as usize],
                );
            }
            if wanted.end() > end {
                break;
            }
            pages.next();
        }
    }
    out
}

/// Removes these pages (sorted) from a sorted list.
pub fn without(list: &[PageSums], pages: &[PageRun]) -> Vec<PageSums> {
    among(list, &pages::subtract(&pages_of(list), pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &[(u64, &[u64])]) -> Vec<PageSums> {
        let mut out = Vec::new();
        for &(first, sums) in parts {
            push(&mut out, PageIndex(first), sums);
        }
        out
    }

    #[test]
    fn lists_are_cut_at_pages() {
        let all = list(&[(10, &[100, 101, 102]), (20, &[200, 201])]);
        assert_eq!(
            pages_of(&all),
            [PageRun::between(10, 13), PageRun::between(20, 22)]
        );
        let pages = [
            PageRun::between(0, 11),
            PageRun::between(12, 21),
            PageRun::between(30, 40),
        ];
        assert_eq!(
            among(&all, &pages),
            list(&[(10, &[100]), (12, &[102]), (20, &[200])])
        );
        assert_eq!(without(&all, &pages), list(&[(11, &[101]), (21, &[201])]));
        assert_eq!(
            among(&all, &[PageRun::between(11, 12), PageRun::between(12, 13)]),
            list(&[(11, &[101, 102])])
        );
        assert!(among(&all, &[]).is_empty());
        assert_eq!(without(&all, &[]), all);
    }
}
