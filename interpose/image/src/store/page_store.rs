//! Allocation of the slots of a store: used, free, or held back.
//!
//! Slots that another replica refers to as well ([`Shares`]), that are still being read
//! ([`Pins`]), or that the record of a dead process's replicas ([`PageStore::protect`]) would lead
//! to, are not handed out again, even if they are released. The memory is in [`Arena`].
#![allow(unsafe_code)]

use super::arena::{Arena, Files, GROW_STEP};
use super::pins::Pins;
use super::shares::Shares;
use super::slot::{Extent, Slot};
use super::store_config::StoreConfig;
use super::store_error::StoreError;
use crate::PAGE_SIZE;
use crate::runs::AddrRange;
use std::collections::BTreeMap;

/// An arena of page slots with a coalescing free list.
#[derive(Debug)]
pub struct PageStore {
    arena: Arena,
    /// Slots below this one were handed out at some time; the free list lies below it.
    top: u64,
    live: u64,
    /// The most that were in use at a time since memory was given back.
    peak: u64,
    /// First slot → length. Neighbours are always joined, and nothing free touches `top`.
    free: BTreeMap<u64, u64>,
    shares: Shares,
    pins: Pins,
    protected: Pins,
}

impl PageStore {
    /// Reserves the arena, in private memory.
    ///
    /// # Errors
    /// [`StoreError::Reserve`] when the kernel refuses the range.
    pub fn new(config: StoreConfig) -> Result<Self, StoreError> {
        Ok(Self::with(Arena::new(config, None)?))
    }

    /// The arena in files, in which these slots are in use (sorted and apart), as another process
    /// may have left them.
    ///
    /// # Errors
    /// [`StoreError::Reserve`], [`StoreError::GiveBack`], and [`StoreError::Full`] when the files
    /// have no room for what is in use.
    pub fn in_files(
        config: StoreConfig,
        files: Files,
        used: &[Extent],
    ) -> Result<Self, StoreError> {
        let mut store = Self::with(Arena::new(config, Some(files))?);
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
        // What else there is, nobody knows of.
        let unused = store.arena.capacity - store.top;
        store.arena.dont_need(Slot(store.top), unused)?;
        Ok(store)
    }

    fn with(arena: Arena) -> Self {
        Self {
            arena,
            top: 0,
            live: 0,
            peak: 0,
            free: BTreeMap::new(),
            shares: Shares::default(),
            pins: Pins::default(),
            protected: Pins::default(),
        }
    }

    /// The address of a slot. Access is allowed for slots that are allocated.
    pub fn ptr(&self, slot: Slot) -> *mut u8 {
        self.arena.ptr(slot)
    }

    /// Fills allocated slots from this one on with whole pages.
    pub(crate) fn fill(&mut self, first: Slot, content: &[u8]) {
        // SAFETY: allocated slots, which are next to each other, and memory from elsewhere.
        unsafe {
            self.ptr(first)
                .copy_from_nonoverlapping(content.as_ptr(), content.len())
        };
    }

    /// The checksum of what an allocated slot holds.
    pub(crate) fn sum(&self, slot: Slot) -> u64 {
        self.arena.sum(slot)
    }

    /// Notes the checksum of what an allocated slot holds.
    pub(crate) fn set_sum(&mut self, slot: Slot, sum: u64) {
        self.arena.set_sum(slot, sum);
    }

    pub fn live(&self) -> u64 {
        self.live
    }

    /// About how many slots have memory that nobody uses.
    pub fn idle(&self) -> u64 {
        self.peak - self.live
    }

    /// The most slots that were in use at a time since memory was given back.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Gives all memory back to the kernel: allocated slots hold zeros.
    ///
    /// # Errors
    /// [`StoreError::GiveBack`].
    pub fn discard(&mut self) -> Result<(), StoreError> {
        self.arena.dont_need(Slot(0), self.arena.open)
    }

    /// Slots that are free below the highest one in use.
    pub fn free_slots(&self) -> u64 {
        self.free.values().sum()
    }

    /// Allocates `n` slots, in one extent unless the arena would grow far beyond what is live.
    ///
    /// # Errors
    /// [`StoreError::Full`] or [`StoreError::Grow`]; nothing is allocated then.
    pub fn alloc(&mut self, n: u64) -> Result<Vec<Extent>, StoreError> {
        let plan = self.plan(n)?;
        self.take(&plan)?;
        Ok(plan)
    }

    /// Allocates `n` slots in one extent.
    ///
    /// # Errors
    /// [`StoreError::Full`] when no run of free addresses is long enough.
    pub fn alloc_contiguous(&mut self, n: u64) -> Result<Extent, StoreError> {
        let extent = match self.best_fit(n) {
            Some(extent) => extent,
            None if self.top + n <= self.arena.capacity => Extent {
                first: Slot(self.top),
                len: n,
            },
            None => return Err(self.full(n)),
        };
        self.take(&[extent])?;
        Ok(extent)
    }

    /// Allocates one contiguous extent per length in `parts`, all neighbours if possible.
    ///
    /// # Errors
    /// As [`PageStore::alloc_contiguous`]; nothing stays allocated then.
    pub fn alloc_parts(&mut self, parts: &[u64]) -> Result<Vec<Extent>, StoreError> {
        let whole = self.plan(parts.iter().sum())?;
        let mut out = Vec::with_capacity(parts.len());
        if let [whole] = whole[..] {
            self.take(&[whole])?;
            let mut at = whole.first.0;
            for &len in parts {
                let first = Slot(at);
                out.push(Extent { first, len });
                at += len;
            }
            return Ok(out);
        }
        for &len in parts {
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

    /// Takes a reference off these slots; those that had no other return to the free list.
    pub fn release(&mut self, extents: impl IntoIterator<Item = Extent>) {
        for extent in extents {
            for unshared in self.shares.take_off(extent) {
                self.release_last(unshared);
            }
        }
    }

    fn release_last(&mut self, extent: Extent) {
        for unpinned in self.pins.hold_back(extent) {
            for Extent { first, len } in self.protected.hold_back(unpinned) {
                self.release_one(first.0, len);
            }
        }
    }

    /// One more copy refers to these slots, which are allocated: each reference has a release of
    /// its own.
    pub fn share(&mut self, extents: impl IntoIterator<Item = Extent>) {
        extents
            .into_iter()
            .for_each(|extent| self.shares.add(extent));
    }

    /// Counts the references to all slots anew: these, and no others. Without any, one release
    /// frees a slot.
    pub fn count_shares(&mut self, references: impl IntoIterator<Item = Extent>) {
        self.shares = Shares::count(references);
    }

    /// Keeps these slots, which are allocated, as they are until [`PageStore::unpin`], even if they
    /// are released.
    pub fn pin(&mut self, extents: impl IntoIterator<Item = Extent>) {
        self.unpin();
        self.pins = Pins::new(extents);
    }

    /// Ends [`PageStore::pin`]: slots that were released since become free.
    pub fn unpin(&mut self) {
        let held = std::mem::take(&mut self.pins).held();
        held.into_iter()
            .for_each(|extent| self.release_last(extent));
    }

    /// Keeps these slots as they are until the next call, even if they are released; those of the
    /// last call no longer.
    pub fn protect(&mut self, extents: impl IntoIterator<Item = Extent>) {
        let held = std::mem::replace(&mut self.protected, Pins::new(extents)).held();
        held.into_iter()
            .for_each(|extent| self.release_last(extent));
    }

    /// Touches the memory the next `alloc(n)` will use, outside of the pause.
    ///
    /// # Errors
    /// As [`PageStore::alloc`], and [`StoreError::Populate`].
    pub fn reserve(&mut self, n: u64) -> Result<(), StoreError> {
        for extent in self.plan(n)? {
            self.arena.open_up_to(extent.end())?;
            self.arena.populate(extent)?;
        }
        Ok(())
    }

    /// The memory that the next `alloc(n)` will use, as far as that can be told; to be made
    /// present.
    pub fn upcoming(&mut self, n: u64) -> Vec<AddrRange> {
        let plan = self.plan(n).unwrap_or_default();
        let opened = plan
            .iter()
            .all(|extent| self.arena.open_up_to(extent.end()).is_ok());
        let range = |extent: &Extent| {
            let start = self.ptr(extent.first) as u64;
            AddrRange::new(start, start + extent.len * PAGE_SIZE as u64)
        };
        if opened {
            plan.iter().map(range).collect()
        } else {
            Vec::new()
        }
    }

    /// Gives memory of free slots back to the kernel, except for the lowest `keep` of them.
    ///
    /// # Errors
    /// [`StoreError::GiveBack`].
    pub fn give_back(&mut self, keep: u64) -> Result<(), StoreError> {
        self.peak = self.live + keep.min(self.idle());
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

    /// Which slots an allocation of `n` takes.
    ///
    /// One extent is best for copying and sending, so the arena rather grows than splits; but it
    /// must not creep upwards for ever, so beyond twice the live pages the fragments are used.
    fn plan(&self, n: u64) -> Result<Vec<Extent>, StoreError> {
        if n == 0 {
            return Ok(Vec::new());
        }
        if let Some(extent) = self.best_fit(n) {
            return Ok(vec![extent]);
        }
        let free = self.free_slots();
        let sprawl = self.top + n > 2 * (self.live + n) + GROW_STEP;
        let room = self.arena.capacity - self.top;
        if n <= room && !(sprawl && free >= n) {
            return Ok(vec![Extent {
                first: Slot(self.top),
                len: n,
            }]);
        }
        if n > free + room {
            return Err(self.full(n));
        }
        Ok(self.gather(n))
    }

    /// The largest fragments that make up `n` slots, then the room above `top`.
    fn gather(&self, n: u64) -> Vec<Extent> {
        let mut fragments: Vec<(u64, u64)> = self.free.iter().map(|(&f, &l)| (l, f)).collect();
        fragments.sort_unstable_by(|a, b| b.cmp(a));
        fragments.push((self.arena.capacity - self.top, self.top));
        let mut missing = n;
        let mut out = Vec::new();
        for (len, first) in fragments {
            let len = len.min(missing);
            if len == 0 {
                break;
            }
            let first = Slot(first);
            out.push(Extent { first, len });
            missing -= len;
        }
        out.sort_unstable_by_key(|extent| extent.first);
        out
    }

    /// The smallest free extent that holds `n` slots, the lowest one of equals.
    fn best_fit(&self, n: u64) -> Option<Extent> {
        let fits = self.free.iter().filter(|&(_, &len)| len >= n);
        let (&first, _) = fits.min_by_key(|&(&first, &len)| (len, first))?;
        Some(Extent {
            first: Slot(first),
            len: n,
        })
    }

    /// Takes planned extents out of the free list or from above `top`.
    fn take(&mut self, plan: &[Extent]) -> Result<(), StoreError> {
        if let Some(end) = plan.iter().map(|e| e.first.0 + e.len).max() {
            self.arena.open_up_to(end)?;
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
            let had = self.free.remove(&first.0).expect("planned extent is free");
            if had > len {
                self.free.insert(first.0 + len, had - len);
            }
        }
        Ok(())
    }

    fn release_one(&mut self, first: u64, len: u64) {
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
