//! Decision when to query a buddy for equal pages, based on its last answers.

use understudy_numbers::Epoch;
use understudy_settings::SharedPages;

/// Minimum number of pages (1 MiB) for which a query is faster than a transfer.
pub const MIN_QUERIED_PAGES: u64 = 256;
/// Number of epochs between two samples.
const EPOCHS_PER_SAMPLE: u64 = 16;
/// Inverse of the minimum fraction of found pages for a query about all pages.
const INVERSE_MIN_FRACTION: u64 = 10;

/// Query to the buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageQueryKind {
    /// None: all pages are sent at once.
    Nothing,
    /// Query for some pages.
    Sample,
    /// Query for all pages.
    All,
}

/// Results of past queries to one buddy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryHistory {
    /// True if the buddy had enough of the pages of the last query.
    is_worthwhile: bool,
    /// Epoch of the next sample.
    next_query: Epoch,
    /// Number of pages in the checkpoint of the last query.
    pages: u64,
}

impl QueryHistory {
    /// True if the buddy had enough pages for a query about all pages.
    pub fn is_worthwhile(&self) -> bool {
        self.is_worthwhile
    }

    /// Returns the query to make for a checkpoint of `pages` pages.
    pub fn question(&self, setting: SharedPages, epoch: Epoch, pages: u64) -> PageQueryKind {
        match setting {
            SharedPages::Never => PageQueryKind::Nothing,
            SharedPages::Always if pages > 0 => PageQueryKind::All,
            SharedPages::Auto if pages < MIN_QUERIED_PAGES => PageQueryKind::Nothing,
            SharedPages::Auto if self.is_worthwhile => PageQueryKind::All,
            // Data that is set up once is in one checkpoint, which has more pages than earlier
            // checkpoints. So a much longer checkpoint than the last queried one is sampled, too.
            SharedPages::Auto if epoch >= self.next_query || pages > 2 * self.pages => {
                PageQueryKind::Sample
            }
            _ => PageQueryKind::Nothing,
        }
    }

    /// Records the number of queried and of found pages.
    pub fn record_answer(&mut self, epoch: Epoch, pages: u64, [asked, found]: [u64; 2]) {
        self.is_worthwhile = found * INVERSE_MIN_FRACTION >= asked;
        self.next_query = Epoch(epoch.0 + EPOCHS_PER_SAMPLE);
        self.pages = pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buddy_without_pages_is_queried_with_a_sample_at_times() {
        let mut history = QueryHistory::default();
        let ask = |history: &QueryHistory, epoch, pages| {
            history.question(SharedPages::Auto, Epoch(epoch), pages)
        };
        assert_eq!(
            ask(&history, 1, MIN_QUERIED_PAGES - 1),
            PageQueryKind::Nothing
        );
        assert_eq!(ask(&history, 1, MIN_QUERIED_PAGES), PageQueryKind::Sample);
        history.record_answer(Epoch(1), MIN_QUERIED_PAGES, [64, 6]);
        assert_eq!(
            ask(&history, 2, 2 * MIN_QUERIED_PAGES),
            PageQueryKind::Nothing
        );
        assert_eq!(
            ask(&history, 2, 2 * MIN_QUERIED_PAGES + 1),
            PageQueryKind::Sample
        );
        assert_eq!(ask(&history, 16, MIN_QUERIED_PAGES), PageQueryKind::Nothing);
        assert_eq!(ask(&history, 17, MIN_QUERIED_PAGES), PageQueryKind::Sample);
        history.record_answer(Epoch(17), MIN_QUERIED_PAGES, [64, 7]);
        assert_eq!(ask(&history, 18, MIN_QUERIED_PAGES), PageQueryKind::All);
        assert_eq!(
            ask(&history, 19, MIN_QUERIED_PAGES - 1),
            PageQueryKind::Nothing
        );
        history.record_answer(Epoch(20), 1000, [1000, 99]);
        assert_eq!(ask(&history, 21, 1000), PageQueryKind::Nothing);
    }

    #[test]
    fn the_setting_is_obeyed() {
        let history = QueryHistory::default();
        assert_eq!(
            history.question(SharedPages::Never, Epoch(1), 1 << 20),
            PageQueryKind::Nothing
        );
        assert_eq!(
            history.question(SharedPages::Always, Epoch(1), 1),
            PageQueryKind::All
        );
        assert_eq!(
            history.question(SharedPages::Always, Epoch(1), 0),
            PageQueryKind::Nothing
        );
    }
}
