//! Pages that a capture omits because of annotations of the program.

use crate::Runtime;
use crate::events;
use crate::journal::address_names;
use crate::marks::{self, Mark, Way};
use understudy_formats::events::{Kind, MarkSaving};
use understudy_image::capture::LeftOut;
use understudy_image::runs::{self, PageRun};
use understudy_numbers::Epoch;

/// Largest number of listed annotations of a capture.
const ROWS: usize = 64;

/// Records the omitted pages, if the program has annotated memory.
pub fn tell(rt: &Runtime, epoch: Epoch, at_point: bool, left_out: LeftOut, spared: &[PageRun]) {
    let (counting, forgotten) = marks::at_cut(rt, at_point);
    if counting.is_empty() && forgotten.is_empty() || !events::are_kept() {
        return;
    }
    let pages = runs::total(&left_out.written);
    let mut marks = shares(&counting, left_out, spared);
    marks.extend(forgotten.into_iter().map(|mark| Share {
        mark,
        counts: false,
        held: 0,
        saved: 0,
    }));
    marks.sort_by_key(|it| std::cmp::Reverse((it.saved, it.held)));
    marks.truncate(ROWS);
    let name = |place| marks::name(rt, place, || address_names::names(&[place]).concat());
    let marks = marks.into_iter().map(|share| share.saving(name));
    events::emit(Kind::LeftOut {
        epoch,
        pages,
        marks: marks.collect(),
    });
}

/// Pages that an annotation has left out of a capture.
struct Share {
    mark: Mark,
    counts: bool,
    held: u64,
    saved: u64,
}

impl Share {
    fn saving(&self, name: impl Fn(u64) -> String) -> MarkSaving {
        let Mark { way, memory, place } = self.mark;
        MarkSaving {
            way,
            place: name(place),
            start: memory.start,
            bytes: memory.len(),
            whole_pages: runs::total(&marks::inside(memory)),
            counts: self.counts,
            held_pages: self.held,
            saved_pages: self.saved,
        }
    }
}

/// Returns the pages that each annotation saves.
///
/// Pages with several annotations count for the first one. Pages whose changes functions undo are
/// captured, but the own replica omits those in `spared`.
fn shares(marks: &[Mark], mut left_out: LeftOut, spared: &[PageRun]) -> Vec<Share> {
    let take = |from: &mut Vec<PageRun>, pages: &[PageRun]| {
        let taken = runs::total(&runs::intersect(from, pages));
        *from = runs::subtract(from, pages);
        taken
    };
    let share = |&mark: &Mark| {
        let pages = marks::inside(mark.memory);
        if mark.way == Way::Reverse {
            return Share {
                mark,
                counts: true,
                held: runs::total(&runs::intersect(spared, &pages)),
                saved: 0,
            };
        }
        Share {
            mark,
            counts: true,
            held: take(&mut left_out.content, &pages),
            saved: take(&mut left_out.written, &pages),
        }
    };
    marks.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_image::runs::AddrRange;

    #[test]
    fn a_page_that_is_marked_twice_is_saved_once() {
        let mark = |start, end| Mark {
            way: Way::Exclude,
            memory: AddrRange::new(start, end),
            place: 0,
        };
        let left_out = LeftOut {
            content: vec![PageRun::between(1, 6)],
            written: vec![PageRun::between(3, 5)],
        };
        let shares = shares(
            &[
                mark(0x1000, 0x4000),
                mark(0x2000, 0x9000),
                mark(0x1001, 0x1002),
            ],
            left_out,
            &[],
        );
        let told: Vec<_> = shares.iter().map(|it| (it.held, it.saved)).collect();
        assert_eq!(told, [(3, 1), (2, 1), (0, 0)]);
        assert_eq!(shares[2].saving(|_| String::new()).whole_pages, 0);
    }
}
