//! Memory that need not be saved, because the program says so (`understudy.h`).
//!
//! Checkpoints are without such pages, and recoveries leave zeros there. Only whole pages count.
#![allow(unsafe_code)]

use crate::cell::{Field, runtime};
use crate::image::runs::{self, AddrRange, PageRun};
use crate::{early, told};

runtime! {
    pub struct Runtime: early::Runtime {
        /// Pages that need not be saved.
        marks: Field<Marks> = Field::new(Marks::NONE),
    }
}

/// What poisoned memory holds.
const POISON: u8 = 0xa5;

/// What the program has said.
struct Marks {
    /// Never saved (sorted). Saved with a cut, since it belongs to the program's time line.
    excluded: Vec<PageRun>,
    /// Not needed at the next point, in any order.
    discarded: Vec<PageRun>,
}

impl Marks {
    const NONE: Marks = Marks {
        excluded: Vec::new(),
        discarded: Vec::new(),
    };

    fn discard(&mut self, range: AddrRange) {
        self.discarded.extend(inside(range));
    }

    fn exclude(&mut self, range: AddrRange) {
        self.excluded = runs::union(&self.excluded, &inside(range));
    }

    fn include(&mut self, range: AddrRange) {
        self.excluded = runs::subtract(&self.excluded, &[range.pages()]);
    }

    fn left_out(&self) -> Vec<PageRun> {
        runs::union(&self.excluded, &runs::normalise(self.discarded.clone()))
    }
}

/// The whole pages of a range.
fn inside(range: AddrRange) -> Vec<PageRun> {
    let touched = range.pages();
    let begins = u64::from(range.start > touched.range().start);
    let ends = u64::from(range.end < touched.range().end);
    let (first, end) = (touched.start.0 + begins, touched.end().saturating_sub(ends));
    if first < end {
        vec![PageRun::between(first, end)]
    } else {
        Vec::new()
    }
}

/// The content is not needed behind the next point, and not written before.
pub fn discard(rt: &Runtime, range: AddrRange) {
    rt.marks.borrow_mut().discard(range);
}

/// The content is never needed in another process, nor after a recovery.
pub fn exclude(rt: &Runtime, range: AddrRange) {
    rt.marks.borrow_mut().exclude(range);
}

/// The content is needed again.
pub fn include(rt: &Runtime, range: AddrRange) {
    rt.marks.borrow_mut().include(range);
}

/// What need not be in a checkpoint that is taken now (sorted), at a point or elsewhere.
pub fn left_out(rt: &Runtime, at_point: bool) -> Vec<PageRun> {
    let marks = rt.marks.borrow();
    if at_point {
        marks.left_out()
    } else {
        marks.excluded.clone()
    }
}

/// A point has been passed: what was not needed there is needed as soon as it has been written.
#[inline]
pub fn pass(rt: &Runtime) {
    let mut marks = rt.marks.borrow_mut();
    if !marks.discarded.is_empty() {
        forget(std::mem::take(&mut marks.discarded));
    }
}

#[cold]
fn forget(discarded: Vec<PageRun>) {
    if told::config().poison {
        for run in discarded {
            let range = run.range();
            // SAFETY: the program's own memory, whose content it has given up.
            unsafe { (range.start as *mut u8).write_bytes(POISON, range.len() as usize) };
        }
    }
}

/// What is saved with a cut.
pub fn excluded(rt: &Runtime) -> Vec<PageRun> {
    rt.marks.borrow().excluded.clone()
}

/// Goes on from what was saved.
pub fn restore(rt: &Runtime, excluded: Vec<PageRun>) {
    rt.marks.set(Marks {
        excluded,
        discarded: Vec::new(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_count() {
        let inside = |start, end| inside(AddrRange::new(start, end));
        assert_eq!(inside(0x1000, 0x3000), [PageRun::between(1, 3)]);
        assert_eq!(inside(0x1001, 0x3000), [PageRun::between(2, 3)]);
        assert_eq!(inside(0x1000, 0x2fff), [PageRun::between(1, 2)]);
        for (start, end) in [(0x1001, 0x2000), (0x1000, 0x1fff), (0x1008, 0x1010), (0x1fff, 0x2001)] {
            assert_eq!(inside(start, end), []);
        }
    }

    #[test]
    fn what_is_included_is_saved_to_its_last_byte() {
        let mut marks = Marks::NONE;
        marks.exclude(AddrRange::new(0x1000, 0x9000));
        marks.include(AddrRange::new(0x3fff, 0x4001));
        assert_eq!(marks.left_out(), [PageRun::between(1, 3), PageRun::between(5, 9)]);
        marks.discard(AddrRange::new(0xa000, 0xb000));
        marks.discard(AddrRange::new(0x8000, 0xa000));
        assert_eq!(marks.left_out(), [PageRun::between(1, 3), PageRun::between(5, 11)]);
    }
}
