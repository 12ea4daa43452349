//! The user side's mappings as a value: what a process must look like before pages are loaded.

use super::procmap;
use super::prot;
use super::runs::{AddrRange, PageRun};
use super::shared::Part;
use super::vmas::{self, MapsError, Owner, Prot, REMOVED, Vma, Zones};
use bincode::{Decode, Encode};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// Longer mappings of removed files for reading, and private ones, are not brought into copies: all
/// of their pages would be.
const MOST: u64 = 1 << 30;

/// A file as the list of mappings tells it: its name may be another file's by and by.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Mapped {
    pub path: Vec<u8>,
    /// Device as (major, minor).
    pub dev: (u32, u32),
    pub inode: u64,
}

impl Mapped {
    fn of(vma: &Vma) -> Self {
        Self {
            path: vma.path.clone(),
            dev: vma.dev,
            inode: vma.inode,
        }
    }

    /// The name that it has, or has had.
    pub fn name(&self) -> &[u8] {
        self.path.strip_suffix(REMOVED).unwrap_or(&self.path)
    }
}

/// By what the file of a mapping is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// By device and inode: on one host a name may lead elsewhere meanwhile.
    ByInode,
    /// By these, or by its name: what a process has had from its start was compared in another way.
    ByEither,
    /// By its name: inodes are those of another host.
    ByName,
}

/// What is behind a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Backing {
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
        /// The file is not one in memory only, so that it may have pages that are not in memory.
        stored: bool,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A private mapping of a file: its unmodified pages come from the file.
    PrivateFile {
        file: Mapped,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// The same of a file that has lost its name. All of its pages are content, and elsewhere it is
    /// anonymous memory.
    RemovedFile {
        file: Mapped,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A shared mapping of a file.
    SharedFile {
        file: Mapped,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// A part of a window that workers of a node share.
    Window {
        part: Part,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
}

fn is_one<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.is_some() && one == other
}

/// One mapping of the user side.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Area {
    pub range: AddrRange,
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
            let hidden = path.ends_with(REMOVED) || !path.starts_with(b"/");
            return if let Some(part) = Part::of(path) {
                Self::Window { part, offset }
            } else if hidden || path.starts_with(b"/SYSV") {
                let in_memory: [&[u8]; 5] = [
                    b"/SYSV",
                    b"/memfd:",
                    b"/dev/zero",
                    b"/dev/shm/",
                    b"/anon_hugepage",
                ];
                let stored =
                    path.starts_with(b"/") && !in_memory.iter().any(|name| path.starts_with(name));
                Self::SharedMemory {
                    dev,
                    inode,
                    stored,
                    offset,
                }
            } else {
                let file = Mapped::of(vma);
                Self::SharedFile { file, offset }
            };
        }
        match path {
            b"[heap]" => Self::Heap,
            b"[stack]" => Self::Stack,
            _ if vma.inode == 0 => Self::Anonymous,
            _ if path.ends_with(REMOVED) && vma.range.len() <= MOST => Self::RemovedFile {
                file: Mapped::of(vma),
                offset,
            },
            _ => Self::PrivateFile {
                file: Mapped::of(vma),
                offset,
            },
        }
    }

    /// What tells whether two mappings hold the same pages of one file: device and inode, if the
    /// mapping is shared, and the offset.
    fn pages_of_file(&self) -> Option<((u32, u32), u64, bool, u64)> {
        Some(match self {
            Self::SharedMemory {
                dev, inode, offset, ..
            } => (*dev, *inode, true, *offset),
            Self::SharedFile { file, offset } => (file.dev, file.inode, true, *offset),
            Self::PrivateFile { file, offset } | Self::RemovedFile { file, offset } => {
                (file.dev, file.inode, false, *offset)
            }
            _ => return None,
        })
    }

    /// The file's name, if the mapping is shared, and the offset.
    fn pages_by_name(&self) -> Option<(&[u8], bool, u64)> {
        match self {
            Self::SharedFile { file, offset } => Some((file.name(), true, *offset)),
            Self::PrivateFile { file, offset } | Self::RemovedFile { file, offset } => {
                Some((file.name(), false, *offset))
            }
            _ => None,
        }
    }

    /// The backing as seen `by` bytes further.
    pub fn advanced(&self, by: u64) -> Self {
        let mut out = self.clone();
        match &mut out {
            Self::SharedMemory { offset, .. }
            | Self::PrivateFile { offset, .. }
            | Self::RemovedFile { offset, .. }
            | Self::SharedFile { offset, .. }
            | Self::Window { offset, .. } => *offset += by,
            Self::Anonymous | Self::Heap | Self::Stack => {}
        }
        out
    }

    /// Whether two mappings at the same address hold the same thing.
    ///
    /// The heap is ordinary memory but for its end, which [`super::remap`] sets beforehand.
    pub fn same(&self, other: &Self, known: Known) -> bool {
        let plain = |b: &Self| matches!(b, Self::Anonymous | Self::Heap);
        let by_inode =
            || known != Known::ByName && is_one(self.pages_of_file(), other.pages_of_file());
        let by_name =
            || known != Known::ByInode && is_one(self.pages_by_name(), other.pages_by_name());
        match self.pages_of_file() {
            Some(_) => by_inode() || by_name(),
            None => self == other || (plain(self) && plain(other)),
        }
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

    fn name(&self) -> Option<&[u8]> {
        self.backing.pages_by_name().map(|(name, ..)| name)
    }

    /// The file that it would be mapped from again.
    pub fn file(&self) -> Option<&Mapped> {
        match &self.backing {
            Backing::PrivateFile { file, .. } | Backing::SharedFile { file, .. } => Some(file),
            _ => None,
        }
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
    /// Not the stack (its live part is copied always), nor shared mappings of files that cannot be
    /// written: their content belongs to somebody else. Without a name nobody else has it for
    /// another process.
    pub fn is_tracked(&self) -> bool {
        let is_kept = || self.hidden().is_some() && self.range.len() <= MOST;
        (self.may_write || is_kept()) && self.backing != Backing::Stack
    }

    /// The file without a name that other mappings may show, too: device and inode.
    pub fn hidden(&self) -> Option<((u32, u32), u64)> {
        match self.backing {
            Backing::SharedMemory { dev, inode, .. } => Some((dev, inode)),
            _ => None,
        }
    }

    /// Where it ends in its file.
    pub fn end_in_file(&self) -> u64 {
        self.backing
            .pages_of_file()
            .map_or(0, |(.., offset)| offset)
            + self.range.len()
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
    /// Of which host devices and inodes are.
    host: u64,
    areas: Vec<Area>,
}

/// A host that does not tell which it is.
const UNKNOWN: u64 = 0;

/// What tells this host, since it was started, from others.
fn this_host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => xxh3_64(&id).max(1),
        Err(_) => UNKNOWN,
    })
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
        let mut layout = Self {
            host: this_host(),
            areas: Vec::new(),
        };
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
        Self {
            host: this_host(),
            areas: vec![area],
        }
    }

    /// By what the file of an area is known in a process that was not the saved one. Only libraries
    /// are compared at the start.
    pub(super) fn known(&self, area: &Area) -> Known {
        let name = area.name();
        let is_library = |other: &Area| other.prot.exec && other.name() == name;
        match self.is_of_this_host() {
            false => Known::ByName,
            true if name.is_some() && self.areas.iter().any(is_library) => Known::ByEither,
            true => Known::ByInode,
        }
    }

    /// Whether devices and inodes are those of this host.
    pub(super) fn is_of_this_host(&self) -> bool {
        self.host != UNKNOWN && self.host == this_host()
    }

    /// Whether the area that `part` is of is not in the image, and has no file that could be
    /// opened.
    pub(super) fn has_lost(&self, part: &Area) -> bool {
        let of = |area: &&Area| area.range.contains(part.range.start);
        part.hidden().is_some() && !self.areas.iter().find(of).is_some_and(Area::is_tracked)
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
