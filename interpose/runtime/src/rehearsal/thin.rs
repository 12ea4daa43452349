//! Copies without static data.

use super::script::Script;
use crate::image::epoch::Image;
use crate::image::runs::{self, PageRun};
use crate::image::store::PageStore;

/// What a copy lacks, and how that can be made again.
pub struct Thin {
    /// How.
    pub script: Script,
    /// Pages that the replay makes as they are at the copy's epoch, sorted; they are not in its image.
    pub absent: Vec<PageRun>,
}

impl Thin {
    /// Takes the pages out of an image that the replay makes as they are there.
    pub fn of(image: &mut Image, script: Script, store: &mut PageStore) -> Thin {
        let mut absent = Vec::new();
        for run in &script.pages {
            for held in image.slots_of(&[run.pages()]) {
                let offset = (held.pages.start.0 - run.first.0) as usize;
                let numbers = held.pages.start.0..held.pages.end();
                for ((page, sum), wanted) in numbers.zip(store.sums(&[held])).zip(&run.sums[offset..]) {
                    if sum == *wanted {
                        runs::push(&mut absent, PageRun::between(page, page + 1));
                    }
                }
            }
        }
        image.remove(&absent, store);
        Thin { script, absent }
    }

    /// The copy's next epoch has these pages, or has nothing there.
    pub fn change(&mut self, changed: &[PageRun], dropped: &[PageRun]) {
        let gone = runs::union(&runs::normalise(changed.to_vec()), dropped);
        self.absent = runs::subtract(&self.absent, &gone);
    }
}
