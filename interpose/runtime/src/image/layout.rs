//! The user side's mappings as a value: what a process must look like before pages are loaded.

use super::procmap;
use super::prot;
use super::runs::{AddrRange, PageRun};
use super::shared::Part;
use super::vmas::{self, MapsError, Owner, Prot, Vma, Zones};
use bincode::{Decode, Encode};

/// What is behind a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Backing {
    /// Private anonymous memory.
    Anonymous,
    /// The brk heap: private anonymous memory whose end the kernel knows.
    Heap,
    /// The initial thread's stack; not tracked, not mapped, only its live part is content.
    Stack,
    /// Shared memory without a file that could be opened again (anonymous, memfd, System V).
    SharedMemory {
        /// Device of the hidden file.
        dev: (u32, u32),
        /// Inode of the hidden file, which tells two segments apart.
        inode: u64,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A private mapping of a file: its unmodified pages come from the file.
    PrivateFile {
        /// The file's name.
        path: Vec<u8>,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A shared mapping of a file.
    SharedFile {
        /// The file's name.
        path: Vec<u8>,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A part of a window that workers of a node share.
    Window {
        /// Which.
        part: Part,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
}

/// One mapping of the user side.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Area {
    /// Addresses covered.
    pub range: AddrRange,
    /// Access rights.
    pub prot: Prot,
    /// What is behind it.
    pub backing: Backing,
    /// Whether the application can write it, if need be after a change of the access rights. Only
    /// a shared mapping of something opened for reading cannot be written ever; another worker's
    /// part of a window counts as such.
    pub may_write: bool,
}

impl Backing {
    fn of(vma: &Vma) -> Self {
        let path = vma.path.as_slice();
        let offset = vma.offset;
        if vma.shared {
            let (dev, inode) = (vma.dev, vma.inode);
            let hidden = path.ends_with(b" (deleted)") || !path.starts_with(b"/");
            return if let Some(part) = Part::of(path) {
                Self::Window { part, offset }
            } else if hidden || path.starts_with(b"/SYSV") {
                Self::SharedMemory { dev, inode, offset }
            } else {
                let path = vma.path.clone();
                Self::SharedFile { path, offset }
            };
        }
        match path {
            b"[heap]" => Self::Heap,
            b"[stack]" => Self::Stack,
            _ if vma.inode == 0 => Self::Anonymous,
            _ => Self::PrivateFile {
                path: vma.path.clone(),
                offset,
            },
        }
    }

    /// The backing as seen `by` bytes further.
    pub fn advanced(&self, by: u64) -> Self {
        let mut out = self.clone();
        match &mut out {
            Self::SharedMemory { offset, .. }
            | Self::PrivateFile { offset, .. }
            | Self::SharedFile { offset, .. }
            | Self::Window { offset, .. } => *offset += by,
            Self::Anonymous | Self::Heap | Self::Stack => {}
        }
        out
    }

    /// Whether two mappings at the same address hold the same thing.
    ///
    /// The heap is ordinary memory but for its end, which [`super::remap`] sets beforehand.
    pub fn same(&self, other: &Self) -> bool {
        let plain = |b: &Self| matches!(b, Self::Anonymous | Self::Heap);
        self == other || (plain(self) && plain(other))
    }

    /// `MAP_SHARED`: an absent page is not a zero page, and dropping a page does not reset it.
    pub fn is_shared(&self) -> bool {
        matches!(
            self,
            Self::SharedMemory { .. } | Self::SharedFile { .. } | Self::Window { .. }
        )
    }

    /// Another worker's, which puts it back itself.
    fn is_anothers(&self) -> bool {
        matches!(self, Self::Window { part, .. } if !part.is_own())
    }
}

impl Area {
    /// The pages covered.
    pub fn pages(&self) -> PageRun {
        self.range.pages()
    }

    /// The part of the area inside `range`.
    pub fn clipped(&self, range: AddrRange) -> Option<Self> {
        let range = self.range.intersect(range)?;
        Some(Self {
            range,
            prot: self.prot,
            backing: self.backing.advanced(range.start - self.range.start),
            may_write: self.may_write,
        })
    }

    /// Whether the area's pages are captured.
    ///
    /// Not the stack (its live part is copied always), nor shared mappings that cannot be
    /// written: their content belongs to somebody else.
    pub fn is_tracked(&self) -> bool {
        self.may_write && self.backing != Backing::Stack
    }

    /// Whether the kernel's write protection tells what changed in the area.
    ///
    /// It does not for shared mappings: they also change through other mappings, other processes
    /// and the file, which leaves no trace in this mapping's page table.
    pub fn is_watched(&self) -> bool {
        self.is_tracked() && !self.backing.is_shared()
    }

    fn continues(&self, before: &Self) -> bool {
        before.range.end == self.range.start
            && before.prot == self.prot
            && before.backing.advanced(before.range.len()) == self.backing
    }
}

/// The mappings of the user side, sorted, neighbours of one kind joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Layout {
    areas: Vec<Area>,
}

impl Layout {
    /// The user side of this process.
    ///
    /// # Errors
    /// When the mappings cannot be listed.
    pub fn read_self(zones: &Zones) -> Result<Self, MapsError> {
        let mut layout = Self::of(&procmap::read_outside(zones)?, zones);
        let undecided = |area: &&mut Area| !(area.may_write || area.backing.is_anothers());
        for area in layout.areas.iter_mut().filter(undecided) {
            area.may_write = prot::can_be_written(area.range, area.prot);
        }
        Ok(layout)
    }

    /// The user side of a list of mappings, as far as the list tells: shared mappings without
    /// write access count as never writable.
    pub fn of(all: &[Vma], zones: &Zones) -> Self {
        let mut layout = Self::default();
        for vma in all {
            if !matches!(vmas::owner_by_name(vma), Owner::User | Owner::Stack) {
                continue;
            }
            let backing = Backing::of(vma);
            let whole = Area {
                range: vma.range,
                prot: vma.prot,
                may_write: !backing.is_anothers() && (vma.prot.write || !vma.shared),
                backing,
            };
            for part in zones.user_parts(vma.range) {
                layout.areas.extend(whole.clipped(part));
            }
        }
        layout.join();
        layout
    }

    /// A layout of one area.
    pub(super) fn single(area: Area) -> Self {
        Self { areas: vec![area] }
    }

    /// The areas in order.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The areas the kernel can watch.
    pub fn watched(&self) -> impl Iterator<Item = &Area> {
        self.areas.iter().filter(|area| area.is_watched())
    }

    /// The areas whose pages are captured.
    pub fn tracked(&self) -> impl Iterator<Item = &Area> {
        self.areas.iter().filter(|area| area.is_tracked())
    }

    /// The end of the brk heap, if there is one.
    pub fn heap(&self) -> Option<AddrRange> {
        let mut heap = self.areas.iter().filter(|a| a.backing == Backing::Heap);
        let first = heap.next()?;
        let end = heap.next_back().map_or(first.range.end, |a| a.range.end);
        Some(AddrRange::new(first.range.start, end))
    }

    /// Joins neighbours the kernel keeps apart for reasons of its own, such as a part that is not
    /// registered with a userfaultfd yet.
    fn join(&mut self) {
        self.areas.dedup_by(|next, before| {
            let joined = next.continues(before);
            if joined {
                before.range.end = next.range.end;
            }
            joined
        });
    }
}
