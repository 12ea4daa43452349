//! What is known of a holder's own pages from its last answers, and when it is asked again.

use understudy_numbers::Epoch;
use understudy_settings::SharedPages;

/// So few pages (1 MiB) are sent sooner than asked for.
pub const FEW: u64 = 256;
/// Epochs from one sample to the next.
const EVERY: u64 = 16;
/// Where one page of so many is found, all are asked for.
const ONE_OF: u64 = 10;

/// What a holder is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing: everything is sent at once.
    Nothing,
    /// Some pages.
    Sample,
    /// All pages.
    All,
}

/// What has been seen of one holder's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habit {
    /// Whether it has had enough of them.
    is_worth: bool,
    /// When it is asked again.
    next: Epoch,
    /// How long the checkpoint was when it was asked last, in pages.
    pages: u64,
}

impl Habit {
    /// Whether it has had enough of them to be asked for all.
    pub fn is_worth(&self) -> bool {
        self.is_worth
    }

    /// What to ask for, of a checkpoint of so many pages.
    pub fn question(&self, setting: SharedPages, epoch: Epoch, pages: u64) -> Question {
        match setting {
            SharedPages::Never => Question::Nothing,
            SharedPages::Always if pages > 0 => Question::All,
            SharedPages::Auto if pages < FEW => Question::Nothing,
            SharedPages::Auto if self.is_worth => Question::All,
            // What a program sets up once is in one checkpoint, which is longer than those before.
            SharedPages::Auto if epoch >= self.next || pages > 2 * self.pages => Question::Sample,
            _ => Question::Nothing,
        }
    }

    /// Of so many pages so many were found.
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
