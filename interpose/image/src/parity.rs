//! Parity: exclusive or of pages of several ranks.
//!
//! The ranks of a group of `n` protect each other with `n` - 1 layers. A rank divides its pages
//! into units of 16 and distributes the units to its layers, round-robin. Each layer of a rank is
//! assigned to one of the other ranks. Every rank is thus assigned one layer of each other rank,
//! and combines these layers into its *parity*. Parity needs about 1/(`n` - 1) of the memory of a
//! copy. If a rank is lost, each of its layers is computed from the parity of one survivor and the
//! pages of the other survivors.
//!
//! The number of a page determines its *parity page*: the page at offset `o` of unit `u` belongs to
//! layer `u` mod (`n` - 1), and to parity page 16 ⌊`u` / (`n` - 1)⌋ + `o`. Example with `n` = 3:
//! pages 0 to 15 (unit 0) are in layer 0, pages 16 to 31 (unit 1) in layer 1, and both have the
//! parity pages 0 to 15; pages 32 to 47 (unit 2) are in layer 0 and have the parity pages 16 to 31.
//! Ranks of a job usually use the same addresses, so that their pages have the same parity pages. A
//! page that an image does not contain counts as zeros, and so does a parity page that is not
//! stored.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::{Delta, Image, SlotRun, lay_out};
use super::pages::{self, PageRun};
use super::store::{PageStore, Slot, StoreError};
use understudy_numbers::Epoch;

/// Pages per unit.
///
/// Longer units need fewer messages. With shorter units, more ranks share the parity pages of a
/// small memory area, so less parity is needed.
const UNIT_PAGES: u64 = 16;

/// Consecutive pages inside of one unit, and their parity pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    layer: usize,
    /// The first page.
    page: u64,
    /// Parity page of the first page; the following pages have the following parity pages.
    parity: u64,
    pages: u64,
}

/// Divides `pages` consecutive pages from `start` on into stretches.
fn stretches(start: u64, pages: u64, layers: usize) -> impl Iterator<Item = Stretch> {
    let (mut at, end, layers) = (start, start + pages, layers as u64);
    std::iter::from_fn(move || {
        let (unit, offset) = (at / UNIT_PAGES, at % UNIT_PAGES);
        let stretch = Stretch {
            layer: (unit % layers) as usize,
            page: at,
            parity: unit / layers * UNIT_PAGES + offset,
            pages: (UNIT_PAGES - offset).min(end - at),
        };
        at += stretch.pages;
        (stretch.pages > 0).then_some(stretch)
    })
}

/// Divides consecutive parity pages into stretches of a layer; inverse of [`stretches`].
fn stretches_of_parity(
    start: u64,
    pages: u64,
    layer: usize,
    layers: usize,
) -> impl Iterator<Item = Stretch> {
    let (mut at, end) = (start, start + pages);
    std::iter::from_fn(move || {
        let (unit, offset) = (at / UNIT_PAGES, at % UNIT_PAGES);
        let stretch = Stretch {
            layer,
            page: (unit * layers as u64 + layer as u64) * UNIT_PAGES + offset,
            parity: at,
            pages: (UNIT_PAGES - offset).min(end - at),
        };
        at += stretch.pages;
        (stretch.pages > 0).then_some(stretch)
    })
}

/// Exclusive-or operations: target slots, and the sources of each target.
#[derive(Debug, Default)]
pub struct XorPlan {
    targets: Vec<*mut u8>,
    /// End of each target's sources in `sources`.
    ends: Vec<usize>,
    sources: Vec<*const u8>,
}

// SAFETY: only this value uses the targets. The thread that passes the value on does not write the
// sources until `execute` has returned ([`super::helper::Helper::start`]).
unsafe impl Send for XorPlan {}

/// Page numbers and source slots, with one entry per source.
type PageSources = Vec<(u64, Slot)>;

/// Adds all pages of a run to `sources`.
fn add(sources: &mut PageSources, run: &SlotRun) {
    sources.extend(
        (0..run.pages.pages).map(|index| (run.pages.start.0 + index, Slot(run.slot.0 + index))),
    );
}

/// Returns the distinct pages of sorted sources.
fn distinct_pages(sources: &PageSources) -> Vec<PageRun> {
    let mut out = Vec::new();
    let mut last = None;
    for &(page, _) in sources {
        if last != Some(page) {
            pages::push(&mut out, PageRun::between(page, page + 1));
        }
        last = Some(page);
    }
    out
}

impl XorPlan {
    /// Allocates a target for each page in `sources` (sorted) and records the page's sources.
    ///
    /// # Errors
    /// Fails if there is no room.
    fn add(
        &mut self,
        sources: &PageSources,
        store: &mut PageStore,
    ) -> Result<Vec<SlotRun>, StoreError> {
        let pages = distinct_pages(sources);
        let extents = store.alloc(pages.iter().map(|run| run.pages).sum())?;
        let runs = lay_out(&pages, &extents);
        let mut sources = sources.iter().peekable();
        for run in &runs {
            for index in 0..run.pages.pages {
                let page = run.pages.start.0 + index;
                self.targets.push(store.ptr(Slot(run.slot.0 + index)));
                while let Some((_, slot)) = sources.next_if(|source| source.0 == page) {
                    self.sources.push(store.ptr(*slot));
                }
                self.ends.push(self.sources.len());
            }
        }
        Ok(runs)
    }

    /// Computes all targets; returns 0 for each target that contains only zeros, otherwise 1.
    pub fn execute(self) -> Vec<u64> {
        let mut begin = 0;
        let mut is_nonzero = Vec::with_capacity(self.targets.len());
        for (target, &end) in self.targets.iter().zip(&self.ends) {
            // SAFETY: allocated slots, aligned to pages. The target is not among the sources, and
            // only this value uses it.
            let target =
                unsafe { std::slice::from_raw_parts_mut(target.cast::<u64>(), PAGE_SIZE / 8) };
            let source = |at: usize| {
                // SAFETY: the slot is allocated, aligned to pages, and not written until `execute`
                // returns.
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
            is_nonzero.push(u64::from(
                target.iter().fold(0, |all, word| all | word) != 0,
            ));
            begin = end;
        }
        is_nonzero
    }
}

/// Combines the pages of `into` with the pages of `from` that have equal numbers.
///
/// The operation is exclusive or. Both lists are sorted.
pub fn accumulate(into: &[SlotRun], from: &[SlotRun], store: &PageStore) {
    let mut targets = PageSources::new();
    into.iter().for_each(|run| add(&mut targets, run));
    let mut sources = PageSources::new();
    from.iter().for_each(|run| add(&mut sources, run));
    let mut sources = sources.iter().peekable();
    for (page, slot) in targets {
        while sources.next_if(|source| source.0 < page).is_some() {}
        if let Some((_, source)) = sources.next_if(|source| source.0 == page) {
            // SAFETY: two different allocated slots, aligned to pages. No other code reads or
            // writes them while the two slices exist.
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

/// Returns the slot at an offset in a run.
fn slot_at(run: &SlotRun, offset: u64) -> Slot {
    Slot(run.slot.0 + offset)
}

/// Returns the slots of an image's pages of one layer, numbered by their parity pages.
pub fn pages_of_layer(image: &Image, layer: usize, layers: usize) -> Vec<SlotRun> {
    let in_layer = |run: &SlotRun| {
        let run = *run;
        let all = stretches(run.pages.start.0, run.pages.pages, layers);
        all.filter(move |stretch| stretch.layer == layer)
            .map(move |stretch| SlotRun {
                pages: PageRun::between(stretch.parity, stretch.parity + stretch.pages),
                slot: slot_at(&run, stretch.page - run.pages.start.0),
            })
    };
    image.runs().iter().flat_map(in_layer).collect()
}

/// Returns the slots of parity pages, numbered by the pages of their layer.
fn by_layer_pages(parity: &[SlotRun], layer: usize, layers: usize) -> Vec<SlotRun> {
    let in_layer = |run: &SlotRun| {
        let run = *run;
        let all = stretches_of_parity(run.pages.start.0, run.pages.pages, layer, layers);
        all.map(move |stretch| SlotRun {
            pages: PageRun::between(stretch.page, stretch.page + stretch.pages),
            slot: slot_at(&run, stretch.parity - run.pages.start.0),
        })
    };
    parity.iter().flat_map(in_layer).collect()
}

/// Returns the pages that a survivor contributes to the reconstruction of a lost rank.
///
/// A contribution consists of two parts. The first part is the survivor's parity, which contains
/// layer number `layer` of the lost rank. The second part consists of those of the survivor's own
/// pages that a third rank has combined with pages of the lost rank: own layer n and layer
/// `layers[n]` of the lost rank are assigned to one rank. The pages are numbered by the lost rank's
/// pages. The exclusive or of all contributions is the lost rank's memory.
pub fn contribution(
    own: &Image,
    parity: &Image,
    layer: usize,
    layers: &[Option<usize>],
) -> Vec<SlotRun> {
    let count = layers.len();
    let mut runs = by_layer_pages(parity.runs(), layer, count);
    for (own_layer, lost_layer) in layers.iter().enumerate() {
        if let Some(lost_layer) = lost_layer {
            runs.extend(by_layer_pages(
                &pages_of_layer(own, own_layer, count),
                *lost_layer,
                count,
            ));
        }
    }
    runs
}

/// Allocates the changes of the parity that a delta of `image` causes, for each layer.
///
/// The change of a parity page is the exclusive or of old and new content of the changed pages. The
/// result is numbered by parity pages; its computation is added to `plan`.
///
/// # Errors
/// Fails if there is no room; slots of earlier layers stay allocated then.
pub fn parity_changes(
    delta: &Delta,
    image: &Image,
    layers: usize,
    plan: &mut XorPlan,
    store: &mut PageStore,
) -> Result<Vec<Delta>, StoreError> {
    let touched = pages::union(&delta.pages(), &delta.dropped);
    let before = image.slots_of(&touched);
    let mut sources = vec![PageSources::new(); layers];
    for run in delta.runs.iter().chain(&before) {
        for stretch in stretches(run.pages.start.0, run.pages.pages, layers) {
            let slot = slot_at(run, stretch.page - run.pages.start.0);
            let pages = PageRun::between(stretch.parity, stretch.parity + stretch.pages);
            add(&mut sources[stretch.layer], &SlotRun { pages, slot });
        }
    }
    let allocate = |mut sources: PageSources| {
        sources.sort_unstable();
        Ok(Delta {
            base: delta.base,
            epoch: delta.epoch,
            runs: plan.add(&sources, store)?,
            dropped: Vec::new(),
        })
    };
    sources.into_iter().map(allocate).collect()
}

/// Allocates the parity pages after these changes, as the delta that leads to `epoch`.
///
/// The computation of the pages is added to `plan`.
///
/// # Errors
/// Fails if there is no room.
pub fn fold_changes(
    parity: &Image,
    changes: &[Vec<SlotRun>],
    epoch: Epoch,
    plan: &mut XorPlan,
    store: &mut PageStore,
) -> Result<Delta, StoreError> {
    let mut sources = PageSources::new();
    changes
        .iter()
        .flatten()
        .for_each(|run| add(&mut sources, run));
    sources.sort_unstable();
    let before = parity.slots_of(&distinct_pages(&sources));
    before.iter().for_each(|run| add(&mut sources, run));
    sources.sort_unstable();
    Ok(Delta {
        base: parity.epoch(),
        epoch,
        runs: plan.add(&sources, store)?,
        dropped: Vec::new(),
    })
}

/// Removes pages of zeros from a delta of [`fold_changes`], since they need not be stored.
///
/// `is_nonzero` is the result of [`XorPlan::execute`] for the pages of the delta.
pub fn drop_zero_pages(delta: &mut Delta, is_nonzero: &[u64], store: &mut PageStore) {
    let mut all = PageSources::new();
    delta.runs.iter().for_each(|run| add(&mut all, run));
    let mut kept: Vec<SlotRun> = Vec::new();
    for ((page, slot), &is_nonzero) in all.into_iter().zip(is_nonzero) {
        let one = SlotRun {
            pages: PageRun::between(page, page + 1),
            slot,
        };
        match kept.last_mut() {
            _ if is_nonzero == 0 => {
                pages::push(&mut delta.dropped, one.pages);
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

/// Creates an image of these pages (sorted) that contains zeros.
///
/// [`accumulate`] can then combine other pages with the image's pages.
///
/// # Errors
/// Fails if there is no room.
pub fn zero_image(
    epoch: Epoch,
    pages: &[PageRun],
    store: &mut PageStore,
) -> Result<Image, StoreError> {
    let extents = store.alloc(pages::total(pages))?;
    for extent in &extents {
        // SAFETY: the slots have just been allocated, so no other code uses them.
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
