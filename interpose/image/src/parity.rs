//! Parity: pages made of other pages by exclusive or, and which pages these are.
//!
//! A rank's pages are dealt out to *layers* in units. The parity page of a page is found from its
//! number alone, which is why equal addresses in all ranks make for little parity. A page that an
//! image does not have counts as zeros, and so does a parity page that is not kept.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::{Delta, Image, SlotRun, lay_out};
use super::runs::{self, PageRun};
use super::store::{PageStore, Slot, StoreError};
use understudy_numbers::Epoch;

/// Pages in a unit: what stays together is sent together; what is shorter makes parity that few
/// pages share.
const UNIT: u64 = 16;

/// A stretch of pages inside of one unit: its layer, its first page, the parity page for that, and
/// how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    layer: usize,
    /// The first page.
    page: u64,
    /// Its page of parity; the following belong to the following.
    parity: u64,
    pages: u64,
}

/// Cuts `pages` consecutive pages from `start` on into stretches.
fn stretches(start: u64, pages: u64, layers: usize) -> impl Iterator<Item = Stretch> {
    let (mut at, end, layers) = (start, start + pages, layers as u64);
    std::iter::from_fn(move || {
        let (unit, offset) = (at / UNIT, at % UNIT);
        let stretch = Stretch {
            layer: (unit % layers) as usize,
            page: at,
            parity: unit / layers * UNIT + offset,
            pages: (UNIT - offset).min(end - at),
        };
        at += stretch.pages;
        (stretch.pages > 0).then_some(stretch)
    })
}

/// The inverse: cuts consecutive pages of parity into stretches of a layer.
fn stretches_of_parity(
    start: u64,
    pages: u64,
    layer: usize,
    layers: usize,
) -> impl Iterator<Item = Stretch> {
    let (mut at, end) = (start, start + pages);
    std::iter::from_fn(move || {
        let (unit, offset) = (at / UNIT, at % UNIT);
        let stretch = Stretch {
            layer,
            page: (unit * layers as u64 + layer as u64) * UNIT + offset,
            parity: at,
            pages: (UNIT - offset).min(end - at),
        };
        at += stretch.pages;
        (stretch.pages > 0).then_some(stretch)
    })
}

/// Which slots go into which.
#[derive(Debug, Default)]
pub struct Combine {
    targets: Vec<*mut u8>,
    /// Where the sources of each target end in `sources`.
    ends: Vec<usize>,
    sources: Vec<*const u8>,
}

// SAFETY: the targets belong to this alone, and nobody writes to the sources, until it has been
// done.
unsafe impl Send for Combine {}

/// Pages with the slots that go into them: sorted by page, one entry for each source.
type Parts = Vec<(u64, Slot)>;

/// Adds all pages of a run.
fn add(parts: &mut Parts, run: &SlotRun) {
    parts.extend(
        (0..run.pages.pages).map(|index| (run.pages.start.0 + index, Slot(run.slot.0 + index))),
    );
}

/// The different pages of sorted parts.
fn pages(parts: &Parts) -> Vec<PageRun> {
    let mut out = Vec::new();
    let mut last = None;
    for &(page, _) in parts {
        if last != Some(page) {
            runs::push(&mut out, PageRun::between(page, page + 1));
        }
        last = Some(page);
    }
    out
}

impl Combine {
    /// Makes room for one page for each that is in `parts` (sorted), and notes what goes into it.
    ///
    /// # Errors
    /// When there is no room.
    fn add(&mut self, parts: &Parts, store: &mut PageStore) -> Result<Vec<SlotRun>, StoreError> {
        let pages = pages(parts);
        let extents = store.alloc(pages.iter().map(|run| run.pages).sum())?;
        let runs = lay_out(&pages, &extents);
        let mut parts = parts.iter().peekable();
        for run in &runs {
            for index in 0..run.pages.pages {
                let page = run.pages.start.0 + index;
                self.targets.push(store.ptr(Slot(run.slot.0 + index)));
                while let Some((_, slot)) = parts.next_if(|part| part.0 == page) {
                    self.sources.push(store.ptr(*slot));
                }
                self.ends.push(self.sources.len());
            }
        }
        Ok(runs)
    }

    /// Makes them. For each, whether it is not all zeros.
    pub fn run(self) -> Vec<u64> {
        let mut begin = 0;
        let mut outcome = Vec::with_capacity(self.targets.len());
        for (target, &end) in self.targets.iter().zip(&self.ends) {
            // SAFETY: allocated slots, aligned to pages; the target is no source, and used by
            // nobody else.
            let target =
                unsafe { std::slice::from_raw_parts_mut(target.cast::<u64>(), PAGE_SIZE / 8) };
            let source = |at: usize| {
                // SAFETY: an allocated slot, aligned to pages, that nobody writes to.
                unsafe { std::slice::from_raw_parts(self.sources[at].cast::<u64>(), PAGE_SIZE / 8) }
            };
            match begin < end {
                true => target.copy_from_slice(source(begin)),
                false => target.fill(0),
            }
            for at in begin + 1..end {
                target
                    .iter_mut()
                    .zip(source(at))
                    .for_each(|(to, from)| *to ^= from);
            }
            outcome.push(u64::from(
                target.iter().fold(0, |all, word| all | word) != 0,
            ));
            begin = end;
        }
        outcome
    }
}

/// Adds the pages of `from` to those pages of `into` (both sorted) that are the same.
pub fn accumulate(into: &[SlotRun], from: &[SlotRun], store: &PageStore) {
    let mut targets = Parts::new();
    into.iter().for_each(|run| add(&mut targets, run));
    let mut sources = Parts::new();
    from.iter().for_each(|run| add(&mut sources, run));
    let mut sources = sources.iter().peekable();
    for (page, slot) in targets {
        while sources.next_if(|source| source.0 < page).is_some() {}
        if let Some((_, source)) = sources.next_if(|source| source.0 == page) {
            // SAFETY: different allocated slots, aligned to pages, that nobody else uses now.
            let (to, from) = unsafe {
                (
                    std::slice::from_raw_parts_mut(store.ptr(slot).cast::<u64>(), PAGE_SIZE / 8),
                    std::slice::from_raw_parts(store.ptr(*source).cast::<u64>(), PAGE_SIZE / 8),
                )
            };
            to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
        }
    }
}

/// The part of a run that a stretch stands for.
fn slot_of(run: &SlotRun, offset: u64) -> Slot {
    Slot(run.slot.0 + offset)
}

/// The pages of an image that are in a layer, by parity page.
pub fn block(image: &Image, layer: usize, layers: usize) -> Vec<SlotRun> {
    let of_run = |run: &SlotRun| {
        let run = *run;
        let all = stretches(run.pages.start.0, run.pages.pages, layers);
        all.filter(move |stretch| stretch.layer == layer)
            .map(move |stretch| SlotRun {
                pages: PageRun::between(stretch.parity, stretch.parity + stretch.pages),
                slot: slot_of(&run, stretch.page - run.pages.start.0),
            })
    };
    image.runs().iter().flat_map(of_run).collect()
}

/// Pages of parity, or of a block, by the pages of a layer that they belong to.
fn spread(parity: &[SlotRun], layer: usize, layers: usize) -> Vec<SlotRun> {
    let of_run = |run: &SlotRun| {
        let run = *run;
        let all = stretches_of_parity(run.pages.start.0, run.pages.pages, layer, layers);
        all.map(move |stretch| SlotRun {
            pages: PageRun::between(stretch.page, stretch.page + stretch.pages),
            slot: slot_of(&run, stretch.parity - run.pages.start.0),
        })
    };
    parity.iter().flat_map(of_run).collect()
}

/// What a rank gives for a lost one: its parity of the layer of the lost one's that it keeps, and
/// its own pages that are in the same parities as pages of the lost one, all by the pages of the
/// lost one. `layers` has, for each own layer, the lost one's whose parity is kept by the same
/// rank.
pub fn piece(own: &Image, parity: &Image, layer: usize, layers: &[Option<usize>]) -> Vec<SlotRun> {
    let count = layers.len();
    let mut runs = spread(parity.runs(), layer, count);
    for (mine, theirs) in layers.iter().enumerate() {
        if let Some(theirs) = theirs {
            runs.extend(spread(&block(own, mine, count), *theirs, count));
        }
    }
    runs
}

/// What a delta of `image` changes in the parity: for each layer, room for it, by parity page. What
/// goes there is noted in `combine`.
///
/// # Errors
/// When there is no room.
pub fn changes(
    delta: &Delta,
    image: &Image,
    layers: usize,
    combine: &mut Combine,
    store: &mut PageStore,
) -> Result<Vec<Delta>, StoreError> {
    let touched = runs::union(&delta.pages(), &delta.dropped);
    let before = image.slots_of(&touched);
    let mut parts = vec![Parts::new(); layers];
    for run in delta.runs.iter().chain(&before) {
        for stretch in stretches(run.pages.start.0, run.pages.pages, layers) {
            let slot = slot_of(run, stretch.page - run.pages.start.0);
            let pages = PageRun::between(stretch.parity, stretch.parity + stretch.pages);
            add(&mut parts[stretch.layer], &SlotRun { pages, slot });
        }
    }
    let room = |mut parts: Parts| {
        parts.sort_unstable();
        Ok(Delta {
            base: delta.base,
            epoch: delta.epoch,
            runs: combine.add(&parts, store)?,
            dropped: Vec::new(),
        })
    };
    parts.into_iter().map(room).collect()
}

/// The parity after these changes, which leads to `epoch`: room for it. What goes there is noted in
/// `combine`.
///
/// # Errors
/// When there is no room.
pub fn fold(
    parity: &Image,
    changes: &[Vec<SlotRun>],
    epoch: Epoch,
    combine: &mut Combine,
    store: &mut PageStore,
) -> Result<Delta, StoreError> {
    let mut parts = Parts::new();
    changes
        .iter()
        .flatten()
        .for_each(|run| add(&mut parts, run));
    parts.sort_unstable();
    let before = parity.slots_of(&pages(&parts));
    before.iter().for_each(|run| add(&mut parts, run));
    parts.sort_unstable();
    Ok(Delta {
        base: parity.epoch(),
        epoch,
        runs: combine.add(&parts, store)?,
        dropped: Vec::new(),
    })
}

/// Takes out of a folded delta what has come out as zeros: nothing need be kept of it.
pub fn thin(delta: &mut Delta, is_something: &[u64], store: &mut PageStore) {
    let mut all = Parts::new();
    delta.runs.iter().for_each(|run| add(&mut all, run));
    let mut kept: Vec<SlotRun> = Vec::new();
    for ((page, slot), &is_something) in all.into_iter().zip(is_something) {
        let one = SlotRun {
            pages: PageRun::between(page, page + 1),
            slot,
        };
        match kept.last_mut() {
            _ if is_something == 0 => {
                runs::push(&mut delta.dropped, one.pages);
                store.release([one.extent()]);
            }
            Some(last) if last.pages.end() == page && last.slot.0 + last.pages.pages == slot.0 => {
                last.pages.pages += 1
            }
            _ => kept.push(one),
        }
    }
    delta.runs = kept;
}

/// An image of these pages (sorted), all zeros, to which others are to be added.
///
/// # Errors
/// When there is no room.
pub fn blank(epoch: Epoch, pages: &[PageRun], store: &mut PageStore) -> Result<Image, StoreError> {
    let extents = store.alloc(runs::total(pages))?;
    for extent in &extents {
        // SAFETY: slots that were just allocated.
        unsafe {
            store
                .ptr(extent.first)
                .write_bytes(0, extent.len as usize * PAGE_SIZE)
        };
    }
    Ok(Image::from_parts(epoch, lay_out(pages, &extents)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_all_pages_and_lead_back() {
        for layers in 1..6 {
            let (start, pages) = (1003, 500);
            let mut at = start;
            for stretch in stretches(start, pages, layers) {
                assert_eq!(stretch.page, at);
                let back: Vec<Stretch> =
                    stretches_of_parity(stretch.parity, stretch.pages, stretch.layer, layers)
                        .collect();
                assert_eq!(back, [stretch]);
                at += stretch.pages;
            }
            assert_eq!(at, start + pages);
        }
    }
}
