//! Decision when to query a buddy for equal pages, based on its last answers.

use understudy_numbers::Epoch;
use understudy_settings::SharedPages;

/// Minimum number of pages (1 MiB) for which a query is faster than sending them.
pub const FEW: u64 = 256;
/// Number of epochs between two samples.
const EVERY: u64 = 16;
/// Inverse of the minimum fraction of found pages for a query about all pages.
const ONE_OF: u64 = 10;

/// Query to the buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// None: all pages are sent at once.
    Nothing,
    /// Query for some pages.
    Sample,
    /// Query for all pages.
    All,
}

/// Results of past queries to one buddy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habit {
    /// True if the buddy had enough of the pages.
    is_worth: bool,
    /// Epoch of the next query.
    next: Epoch,
    /// Number of pages in the checkpoint of the last query.
    pages: u64,
}

impl Habit {
    /// True if the buddy had enough pages for a query about all of them.
    pub fn is_worth(&self) -> bool {
        self.is_worth
    }

    /// Returns the query to make for a checkpoint of `pages` pages.
    pub fn question(&self, setting: SharedPages, epoch: Epoch, pages: u64) -> Question {
        match setting {
            SharedPages::Never => Question::Nothing,
            SharedPages::Always if pages > 0 => Question::All,
            SharedPages::Auto if pages < FEW => Question::Nothing,
            SharedPages::Auto if self.is_worth => Question::All,
            // Data that is set up once is in one checkpoint, which is longer than those before.
            SharedPages::Auto if epoch >= self.next || pages > 2 * self.pages => Question::Sample,
            _ => Question::Nothing,
        }
    }

    /// Records the number of queried and of found pages.
    pub fn note(&mut self, epoch: Epoch, pages: u64, [asked, found]: [u64; 2]) {
        self.is_worth = found * ONE_OF >= asked;
        self.next = Epoch(epoch.0 + EVERY);
        self.pages = pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_has_nothing_is_asked_for_a_sample_now_and_then() {
        let mut habit = Habit::default();
        let ask =
            |habit: &Habit, epoch, pages| habit.question(SharedPages::Auto, Epoch(epoch), pages);
        assert_eq!(ask(&habit, 1, FEW - 1), Question::Nothing);
        assert_eq!(ask(&habit, 1, FEW), Question::Sample);
        habit.note(Epoch(1), FEW, [64, 6]);
        assert_eq!(ask(&habit, 2, 2 * FEW), Question::Nothing);
        assert_eq!(ask(&habit, 2, 2 * FEW + 1), Question::Sample);
        assert_eq!(ask(&habit, 16, FEW), Question::Nothing);
        assert_eq!(ask(&habit, 17, FEW), Question::Sample);
        habit.note(Epoch(17), FEW, [64, 7]);
        assert_eq!(ask(&habit, 18, FEW), Question::All);
        assert_eq!(ask(&habit, 19, FEW - 1), Question::Nothing);
        habit.note(Epoch(20), 1000, [1000, 99]);
        assert_eq!(ask(&habit, 21, 1000), Question::Nothing);
    }

    #[test]
    fn the_setting_is_obeyed() {
        let habit = Habit::default();
        assert_eq!(
            habit.question(SharedPages::Never, Epoch(1), 1 << 20),
            Question::Nothing
        );
        assert_eq!(
            habit.question(SharedPages::Always, Epoch(1), 1),
            Question::All
        );
        assert_eq!(
            habit.question(SharedPages::Always, Epoch(1), 0),
            Question::Nothing
        );
    }
}
