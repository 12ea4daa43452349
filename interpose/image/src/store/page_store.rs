//! Allocation of the slots of a store: used, free, or retained.
//!
//! A released slot is not free yet in three cases: another replica refers to the slot
//! ([`ShareCounts`]); a thread still reads the slot ([`PageStore::pin`]); or a record of the
//! persistent replica store refers to the slot ([`PageStore::protect`]), which another process
//! needs if this process dies. The memory is in [`Arena`].
#![allow(unsafe_code)]

use super::arena::{Arena, ArenaFiles, GROW_STEP};
use super::pins::Pins;
use super::shares::ShareCounts;
use super::slot::{Extent, Slot};
use super::store_config::StoreConfig;
use super::store_error::StoreError;
use crate::PAGE_SIZE;
use crate::pages::AddrRange;
use std::collections::BTreeMap;

/// Maximum number of free extents that an allocation prefers to new memory.
///
/// The number is low because each extent is copied and sent separately.
const MAX_FRAGMENTS: usize = 8;

/// An arena of page slots with a coalescing free list.
#[derive(Debug)]
pub struct PageStore {
    arena: Arena,
    /// End of the highest slot that is not free; all free extents lie below.
    top: u64,
    /// Number of used slots.
    live: u64,
    /// Maximum number of used slots since memory was last returned to the kernel.
    peak: u64,
    /// End of the slots that were accessed since memory was last returned to the kernel.
    touched: u64,
    /// Free extents: first slot → length.
    ///
    /// Neighbours are always joined, and no free extent touches `top`.
    free: BTreeMap<u64, u64>,
    shares: ShareCounts,
    pins: Pins,
    protected: Pins,
}

impl PageStore {
    /// Reserves an arena in private memory.
    ///
    /// # Errors
    /// [`StoreError::Reserve`] if the kernel refuses the range.
    pub fn new(config: StoreConfig) -> Result<Self, StoreError> {
        Ok(Self::with_arena(Arena::new(config, None)?))
    }

    /// Opens an arena in files whose slots `used` (sorted, disjoint) are in use.
    ///
    /// Another process may have written the files and used these slots.
    ///
    /// # Errors
    /// [`StoreError::Reserve`], [`StoreError::GiveBack`], or [`StoreError::Full`] if the files are
    /// too small for `used`.
    pub fn in_files(
        config: StoreConfig,
        files: ArenaFiles,
        used: &[Extent],
    ) -> Result<Self, StoreError> {
        let mut store = Self::with_arena(Arena::new(config, Some(files))?);
        for &Extent { first, len } in used {
            if first.0 < store.top || first.0.saturating_add(len) > store.arena.capacity {
                return Err(store.full(len));
            }
            if first.0 > store.top {
                store.free.insert(store.top, first.0 - store.top);
            }
            store.top = first.0 + len;
            store.live += len;
        }
        store.arena.open_up_to(store.top)?;
        store.peak = store.top;
        // Slots from `top` on may have memory of the earlier process, and are not in use.
        let unused = store.arena.capacity - store.top;
        if unused > 0 {
            store.arena.dont_need(Slot(store.top), unused)?;
        }
        Ok(store)
    }

    fn with_arena(arena: Arena) -> Self {
        Self {
            arena,
            top: 0,
            live: 0,
            peak: 0,
            touched: 0,
            free: BTreeMap::new(),
            shares: ShareCounts::default(),
            pins: Pins::default(),
            protected: Pins::default(),
        }
    }

    /// Returns the address of a slot; only allocated slots may be accessed.
    pub fn ptr(&self, slot: Slot) -> *mut u8 {
        self.arena.ptr(slot)
    }

    /// Copies whole pages into allocated, consecutive slots.
    pub(crate) fn fill(&mut self, first: Slot, content: &[u8]) {
        // SAFETY: the slots are allocated and consecutive; `content` lies outside of the arena.
        unsafe {
            self.ptr(first)
                .copy_from_nonoverlapping(content.as_ptr(), content.len())
        };
    }

    /// Returns the checksum of an allocated slot.
    pub(crate) fn sum(&self, slot: Slot) -> u64 {
        self.arena.sum(slot)
    }

    /// Sets the checksum of an allocated slot.
    pub(crate) fn set_sum(&mut self, slot: Slot, sum: u64) {
        self.arena.set_sum(slot, sum);
    }

    /// Returns the number of used slots.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Returns an estimate of the number of unused slots that have memory.
    pub fn idle(&self) -> u64 {
        self.peak - self.live
    }

    /// Returns the maximum number of used slots since memory was last returned to the kernel.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns all memory to the kernel; allocated slots then contain zeros.
    ///
    /// # Errors
    /// [`StoreError::GiveBack`].
    pub fn discard_content(&mut self) -> Result<(), StoreError> {
        self.arena.dont_need(Slot(0), self.arena.open)
    }

    /// Returns the number of free slots below the highest used one.
    pub fn free_slots(&self) -> u64 {
        self.free.values().sum()
    }

    /// Allocates `n` slots, if possible in one extent.
    ///
    /// # Errors
    /// [`StoreError::Full`] or [`StoreError::Grow`]; no slot is allocated then.
    pub fn alloc(&mut self, n: u64) -> Result<Vec<Extent>, StoreError> {
        let plan = self.plan(n)?;
        self.allocate_planned(&plan)?;
        Ok(plan)
    }

    /// Allocates `n` slots in one extent.
    ///
    /// # Errors
    /// [`StoreError::Full`] if no free extent is long enough and the arena cannot grow enough, or
    /// [`StoreError::Grow`].
    pub fn alloc_contiguous(&mut self, n: u64) -> Result<Extent, StoreError> {
        let extent = match self.best_fit(n) {
            Some(extent) => extent,
            None if self.top + n <= self.arena.capacity => Extent {
                first: Slot(self.top),
                len: n,
            },
            None => return Err(self.full(n)),
        };
        self.allocate_planned(&[extent])?;
        Ok(extent)
    }

    /// Allocates one extent for each length, adjacent to each other if possible.
    ///
    /// # Errors
    /// Errors of [`PageStore::alloc_contiguous`]. After an error no slot is allocated.
    pub fn alloc_extents(&mut self, lengths: &[u64]) -> Result<Vec<Extent>, StoreError> {
        let above = Extent {
            first: Slot(self.top),
            len: self.arena.capacity - self.top,
        };
        let free = self.plan(lengths.iter().sum())?.into_iter();
        let free = free.filter(|extent| extent.first.0 < self.top);
        if let Some(extents) = divide(free.chain([above]), lengths) {
            self.allocate_planned(&extents)?;
            return Ok(extents);
        }
        let mut out = Vec::with_capacity(lengths.len());
        for &len in lengths {
            match self.alloc_contiguous(len) {
                Ok(extent) => out.push(extent),
                Err(error) => {
                    self.release(out);
                    return Err(error);
                }
            }
        }
        Ok(out)
    }

    /// Drops one reference to these slots, and frees slots without further references.
    pub fn release(&mut self, extents: impl IntoIterator<Item = Extent>) {
        for extent in extents {
            for unshared in self.shares.drop_reference(extent) {
                self.release_unshared(unshared);
            }
        }
    }

    fn release_unshared(&mut self, extent: Extent) {
        for unpinned in self.pins.retain(extent) {
            for Extent { first, len } in self.protected.retain(unpinned) {
                self.free_extent(first.0, len);
            }
        }
    }

    /// Adds one reference to these allocated slots, which a further [`PageStore::release`] drops.
    pub fn share(&mut self, extents: impl IntoIterator<Item = Extent>) {
        extents
            .into_iter()
            .for_each(|extent| self.shares.add(extent));
    }

    /// Replaces all reference counts by those of a complete list of references.
    pub fn count_shares(&mut self, references: impl IntoIterator<Item = Extent>) {
        self.shares = ShareCounts::count(references);
    }

    /// Keeps these allocated slots unchanged until [`PageStore::unpin`], even if they are released.
    ///
    /// Earlier pins end.
    pub fn pin(&mut self, extents: impl IntoIterator<Item = Extent>) {
        self.unpin();
        self.pins = Pins::new(extents);
    }

    /// Ends [`PageStore::pin`] and frees the slots that were released while they were pinned.
    pub fn unpin(&mut self) {
        let released = std::mem::take(&mut self.pins).released();
        released
            .into_iter()
            .for_each(|extent| self.release_unshared(extent));
    }

    /// Keeps these slots unchanged until the next call, even if they are released.
    ///
    /// The slots of the previous call are not protected any more.
    pub fn protect(&mut self, extents: impl IntoIterator<Item = Extent>) {
        let protected = Pins::new(extents);
        let released = std::mem::replace(&mut self.protected, protected).released();
        released
            .into_iter()
            .for_each(|extent| self.release_unshared(extent));
    }

    /// Returns memory of the next `alloc(n)` that has probably never been accessed.
    ///
    /// The caller makes the memory present.
    pub fn take_untouched(&mut self, n: u64) -> Vec<AddrRange> {
        let plan = self.plan(n).unwrap_or_default();
        let end = plan
            .iter()
            .map(|extent| extent.end())
            .max()
            .unwrap_or_default();
        if end <= self.touched || self.arena.open_up_to(end).is_err() {
            return Vec::new();
        }
        let touched = std::mem::replace(&mut self.touched, end);
        self.peak = self.peak.max(self.live + n);
        let untouched = |extent: &Extent| {
            let first = extent.first.0.max(touched);
            (first < extent.end()).then(|| self.range(first, extent.end()))
        };
        plan.iter().filter_map(untouched).collect()
    }

    /// Returns the addresses of slots.
    fn range(&self, first: u64, end: u64) -> AddrRange {
        let start = self.ptr(Slot(first)) as u64;
        AddrRange::new(start, start + (end - first) * PAGE_SIZE as u64)
    }

    /// Returns the memory of free slots, except the lowest `keep`, to the kernel.
    ///
    /// # Errors
    /// [`StoreError::GiveBack`].
    pub fn give_back(&mut self, keep: u64) -> Result<(), StoreError> {
        self.peak = self.live + keep.min(self.idle());
        self.touched = 0;
        let mut kept = 0;
        let above = self.arena.open - self.top;
        let top = (above > 0).then_some((self.top, above));
        for (first, len) in self.free.iter().map(|(&f, &l)| (f, l)).chain(top) {
            let skip = len.min(keep - kept);
            kept += skip;
            if len > skip {
                self.arena.dont_need(Slot(first + skip), len - skip)?;
            }
        }
        Ok(())
    }

    fn full(&self, wanted: u64) -> StoreError {
        StoreError::Full {
            wanted,
            live: self.live,
            capacity: self.arena.capacity,
        }
    }

    /// Selects the slots for an allocation of `n`.
    ///
    /// A single free extent of sufficient length is best for copying and sending. Otherwise the
    /// slots are taken from at most [`MAX_FRAGMENTS`] long free extents, and the rest above `top`,
    /// where the first access to each page takes longer than the copy. All free extents are used
    /// if the arena would otherwise be more than twice as long as its used slots.
    fn plan(&self, n: u64) -> Result<Vec<Extent>, StoreError> {
        if n == 0 {
            return Ok(Vec::new());
        }
        if let Some(extent) = self.best_fit(n) {
            return Ok(vec![extent]);
        }
        let room = self.arena.capacity - self.top;
        if n > self.free_slots() + room {
            return Err(self.full(n));
        }
        let is_too_sparse = self.top + n > 2 * (self.live + n) + GROW_STEP;
        let mut fragments: Vec<(u64, u64)> = self.free.iter().map(|(&f, &l)| (l, f)).collect();
        fragments.sort_unstable_by(|a, b| b.cmp(a));
        if !is_too_sparse && n <= room {
            fragments.truncate(MAX_FRAGMENTS);
            fragments.retain(|&(len, _)| len * 2 * MAX_FRAGMENTS as u64 >= n);
        }
        fragments.push((room, self.top));
        Ok(first_slots(&fragments, n))
    }

    /// Returns the first `n` slots of the smallest sufficient free extent.
    ///
    /// The lowest is used if several are equally long.
    fn best_fit(&self, n: u64) -> Option<Extent> {
        let fits = self.free.iter().filter(|&(_, &len)| len >= n);
        let (&first, _) = fits.min_by_key(|&(&first, &len)| (len, first))?;
        Some(Extent {
            first: Slot(first),
            len: n,
        })
    }

    /// Removes planned extents from the free list or takes them from above `top`.
    fn allocate_planned(&mut self, plan: &[Extent]) -> Result<(), StoreError> {
        if let Some(end) = plan.iter().map(|e| e.first.0 + e.len).max() {
            self.arena.open_up_to(end)?;
            self.touched = self.touched.max(end);
        }
        self.peak = self
            .peak
            .max(self.live + plan.iter().map(|extent| extent.len).sum::<u64>());
        for &Extent { first, len } in plan {
            self.live += len;
            if first.0 >= self.top {
                self.top = first.0 + len;
                continue;
            }
            let free_len = self.free.remove(&first.0).expect("planned extent is free");
            if free_len > len {
                self.free.insert(first.0 + len, free_len - len);
            }
        }
        Ok(())
    }

    /// Adds an extent to the free list, joined with its neighbours.
    fn free_extent(&mut self, first: u64, len: u64) {
        let (mut first, mut end) = (first, first + len);
        assert!(end <= self.top, "released slots were never allocated");
        self.live -= len;
        if let Some((&before, &n)) = self.free.range(..first).next_back() {
            assert!(before + n <= first, "slots released twice");
            if before + n == first {
                self.free.remove(&before);
                first = before;
            }
        }
        if let Some((&after, &n)) = self.free.range(first..).next() {
            assert!(after >= end, "slots released twice");
            if after == end {
                self.free.remove(&after);
                end += n;
            }
        }
        if end == self.top {
            self.top = first;
        } else {
            self.free.insert(first, end - first);
        }
    }
}

/// Returns the first `n` slots of extents (length, first slot), sorted by slot.
fn first_slots(extents: &[(u64, u64)], n: u64) -> Vec<Extent> {
    let mut missing = n;
    let mut out = Vec::new();
    for &(len, first) in extents {
        let len = len.min(missing);
        if len > 0 {
            let first = Slot(first);
            out.push(Extent { first, len });
            missing -= len;
        }
    }
    out.sort_unstable_by_key(|extent| extent.first);
    out
}

/// Returns an extent of each length, in the order of `regions`.
///
/// `None` if the regions are too short.
fn divide(mut regions: impl Iterator<Item = Extent>, lengths: &[u64]) -> Option<Vec<Extent>> {
    let mut region = regions.next()?;
    let mut place = |len| {
        while region.len < len {
            region = regions.next()?;
        }
        let first = region.first;
        region = Extent {
            first: Slot(first.0 + len),
            len: region.len - len,
        };
        Some(Extent { first, len })
    };
    lengths.iter().map(|&len| place(len)).collect()
}
