//! Copies without static data.

use super::script::{Script, Sums};
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
        for (page, sum) in script.pages.iter().flat_map(Sums::each) {
            let one = PageRun { start: page, pages: 1 };
            if store.sums(&image.slots_of(&[one])) == [sum] {
                runs::push(&mut absent, one);
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
