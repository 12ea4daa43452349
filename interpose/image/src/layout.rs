//! Mappings of the program side as a value, restored before pages are loaded.

use super::pages::{AddrRange, PageRun};
use super::procmap;
use super::prot;
use super::vmas::{self, ExcludedRanges, MapsError, Owner, Prot, REMOVED, Vma};
use super::window_memory::WindowPart;
use bincode::{Decode, Encode};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum size of a mapping of an unnamed file whose content is captured.
///
/// The limit applies to private and to read-only shared mappings. All pages of a smaller mapping
/// count as content, because the file has no name by which another process could open the file.
const MAX_CAPTURED_FILE_BYTES: u64 = 1 << 30;

/// File of a mapping, as the kernel lists it.
///
/// The name of the file can belong to another file later.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MappedFile {
    pub path: Vec<u8>,
    /// Device as (major, minor).
    pub dev: (u32, u32),
    pub inode: u64,
}

impl MappedFile {
    fn from_vma(vma: &Vma) -> Self {
        Self {
            path: vma.path.clone(),
            dev: vma.dev,
            inode: vma.inode,
        }
    }

    /// Returns the current or former name of the file.
    pub fn name(&self) -> &[u8] {
        self.path.strip_suffix(REMOVED).unwrap_or(&self.path)
    }
}

/// Criterion by which the file of a mapping is identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIdentity {
    /// Device and inode, because the name may belong to another file by now.
    ByInode,
    /// Device and inode, or the name, for the program and its libraries.
    ///
    /// A process in another container may see other devices and inodes. An equal name suffices,
    /// because the job has compared these files at its start.
    ByEither,
    /// Name, because the inodes are those of another host.
    ByName,
}

/// Object that a mapping shows.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Backing {
    Anonymous,
    /// The brk heap: private anonymous memory whose end the kernel maintains.
    Heap,
    /// Stack of the initial thread, which is neither tracked nor mapped again.
    ///
    /// Only the live part of the stack is content.
    Stack,
    /// Shared memory without a file to open again (anonymous, memfd, System V, removed file).
    SharedMemory {
        /// Device of the hidden file.
        dev: (u32, u32),
        /// Inode of the hidden file, which distinguishes segments.
        inode: u64,
        /// True if the file is stored on disk.
        ///
        /// Pages of a stored file need not all be in memory.
        stored: bool,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// Private mapping of a file, which provides the unmodified pages.
    PrivateFile {
        file: MappedFile,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// Private mapping of a file that has lost its name.
    ///
    /// All of its pages are content. A restore in another process maps anonymous memory instead.
    /// A mapping of more than `MAX_CAPTURED_FILE_BYTES` counts as [`Backing::PrivateFile`].
    RemovedFile {
        file: MappedFile,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// Shared mapping of a file.
    SharedFile {
        file: MappedFile,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
    /// Part of a window that workers of a node share.
    Window {
        part: WindowPart,
        /// Offset of the mapping's first byte.
        offset: u64,
    },
}

/// Position in a file that the first byte of a mapping shows.
///
/// Mappings with equal positions show equal pages.
#[derive(PartialEq)]
struct FilePosition {
    /// Device as (major, minor).
    dev: (u32, u32),
    inode: u64,
    shared: bool,
    offset: u64,
}

/// Position in a file as [`FilePosition`], but with the name of the file.
#[derive(PartialEq)]
struct NamedFilePosition<'a> {
    name: &'a [u8],
    shared: bool,
    offset: u64,
}

fn is_some_and_equal<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.is_some() && one == other
}

/// Mapping of the program side.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Area {
    pub range: AddrRange,
    pub prot: Prot,
    pub backing: Backing,
    /// True if the program can write to the area.
    ///
    /// The program may have to change the access rights before it writes. False only for shared
    /// mappings of a file that was opened for reading, and for another worker's part of a window.
    pub may_write: bool,
}

impl Backing {
    fn from_vma(vma: &Vma) -> Self {
        let path = vma.path.as_slice();
        let offset = vma.offset;
        if vma.shared {
            let (dev, inode) = (vma.dev, vma.inode);
            let hidden = path.ends_with(REMOVED) || !path.starts_with(b"/");
            return if let Some(part) = WindowPart::from_path(path) {
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
                let file = MappedFile::from_vma(vma);
                Self::SharedFile { file, offset }
            };
        }
        match path {
            b"[heap]" => Self::Heap,
            b"[stack]" => Self::Stack,
            _ if vma.inode == 0 => Self::Anonymous,
            _ if path.ends_with(REMOVED) && vma.range.len() <= MAX_CAPTURED_FILE_BYTES => {
                Self::RemovedFile {
                    file: MappedFile::from_vma(vma),
                    offset,
                }
            }
            _ => Self::PrivateFile {
                file: MappedFile::from_vma(vma),
                offset,
            },
        }
    }

    /// Returns the position in the mapped file; `None` without a file, and for windows.
    fn file_position(&self) -> Option<FilePosition> {
        let (dev, inode, offset) = match self {
            Self::SharedMemory {
                dev, inode, offset, ..
            } => (*dev, *inode, *offset),
            Self::SharedFile { file, offset }
            | Self::PrivateFile { file, offset }
            | Self::RemovedFile { file, offset } => (file.dev, file.inode, *offset),
            _ => return None,
        };
        let shared = self.is_shared();
        Some(FilePosition {
            dev,
            inode,
            shared,
            offset,
        })
    }

    /// Returns the position in the mapped file; `None` unless the mapping has a [`MappedFile`].
    fn named_file_position(&self) -> Option<NamedFilePosition<'_>> {
        match self {
            Self::SharedFile { file, offset }
            | Self::PrivateFile { file, offset }
            | Self::RemovedFile { file, offset } => Some(NamedFilePosition {
                name: file.name(),
                shared: self.is_shared(),
                offset: *offset,
            }),
            _ => None,
        }
    }

    /// Returns the backing of an area that starts `by` bytes later.
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

    /// True if two mappings at one address show the same object.
    ///
    /// The heap counts as anonymous memory. The two differ in the program break only, which
    /// [`super::remap::restore_layout`] has set before it decides on mappings of a heap.
    pub fn is_same_object(&self, other: &Self, identity: FileIdentity) -> bool {
        let is_plain = |b: &Self| matches!(b, Self::Anonymous | Self::Heap);
        let by_inode = || {
            identity != FileIdentity::ByName
                && is_some_and_equal(self.file_position(), other.file_position())
        };
        let by_name = || {
            identity != FileIdentity::ByInode
                && is_some_and_equal(self.named_file_position(), other.named_file_position())
        };
        match self.file_position() {
            Some(_) => by_inode() || by_name(),
            None => self == other || (is_plain(self) && is_plain(other)),
        }
    }

    /// True for `MAP_SHARED`.
    ///
    /// An absent page of such a mapping may have content, and dropping a page does not reset its
    /// content.
    pub fn is_shared(&self) -> bool {
        matches!(
            self,
            Self::SharedMemory { .. } | Self::SharedFile { .. } | Self::Window { .. }
        )
    }

    /// True for another worker's part of a window, which that worker restores.
    fn belongs_to_other_worker(&self) -> bool {
        matches!(self, Self::Window { part, .. } if !part.is_own())
    }
}

impl Area {
    /// Returns the pages of the area.
    pub fn pages(&self) -> PageRun {
        self.range.pages()
    }

    fn name(&self) -> Option<&[u8]> {
        self.backing
            .named_file_position()
            .map(|position| position.name)
    }

    /// Returns the file from which the area would be mapped again.
    pub fn file(&self) -> Option<&MappedFile> {
        match &self.backing {
            Backing::PrivateFile { file, .. } | Backing::SharedFile { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns the part of the area inside `range`.
    pub fn clipped(&self, range: AddrRange) -> Option<Self> {
        let range = self.range.intersect(range)?;
        Some(Self {
            range,
            prot: self.prot,
            backing: self.backing.advanced(range.start - self.range.start),
            may_write: self.may_write,
        })
    }

    /// True if the area's pages are captured.
    ///
    /// False for the stack, whose live part is always copied, and for shared mappings without write
    /// access, whose content is that of a file. A mapping of unnamed memory is captured even
    /// without write access, up to `MAX_CAPTURED_FILE_BYTES`, because another process could not
    /// open that memory.
    pub fn is_tracked(&self) -> bool {
        let is_unnamed =
            || self.unnamed_file().is_some() && self.range.len() <= MAX_CAPTURED_FILE_BYTES;
        (self.may_write || is_unnamed()) && self.backing != Backing::Stack
    }

    /// Returns device and inode of an unnamed file, of which several mappings may exist.
    pub fn unnamed_file(&self) -> Option<((u32, u32), u64)> {
        match self.backing {
            Backing::SharedMemory { dev, inode, .. } => Some((dev, inode)),
            _ => None,
        }
    }

    /// Returns the offset of the area's end in its file.
    pub fn end_in_file(&self) -> u64 {
        let position = self.backing.file_position();
        position.map_or(0, |position| position.offset) + self.range.len()
    }

    /// True if the kernel's write protection detects all changes in the area.
    ///
    /// False for shared mappings: a write through another mapping, by another process or to the
    /// file leaves no trace in this mapping's page table.
    pub fn is_watched(&self) -> bool {
        self.is_tracked() && !self.backing.is_shared()
    }

    /// True if the area continues `before` in addresses, rights and backing.
    fn continues(&self, before: &Self) -> bool {
        before.range.end == self.range.start
            && before.prot == self.prot
            && before.backing.advanced(before.range.len()) == self.backing
    }
}

/// Mappings of the program side, sorted; adjacent mappings with equal attributes are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Layout {
    /// Host to which the devices and inodes belong.
    host: u64,
    areas: Vec<Area>,
}

/// Number of a host that cannot be identified.
const UNKNOWN_HOST: u64 = 0;

/// Returns a number that identifies this host since its boot.
fn this_host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => xxh3_64(&id).max(1),
        Err(_) => UNKNOWN_HOST,
    })
}

impl Layout {
    /// Reads the program side of this process.
    ///
    /// # Errors
    /// Fails if the mappings cannot be listed.
    pub fn read_self(zones: &ExcludedRanges) -> Result<Self, MapsError> {
        let mut layout = Self::from_vmas(&procmap::read_outside(zones)?, zones);
        let is_undecided =
            |area: &&mut Area| !(area.may_write || area.backing.belongs_to_other_worker());
        for area in layout.areas.iter_mut().filter(is_undecided) {
            area.may_write = prot::probe_write_access(area.range, area.prot);
        }
        Ok(layout)
    }

    /// Selects the program side from a list of mappings.
    ///
    /// The list does not show whether the access rights could be changed. Therefore shared mappings
    /// without write access count as never writable.
    pub fn from_vmas(all: &[Vma], zones: &ExcludedRanges) -> Self {
        let mut layout = Self {
            host: this_host(),
            areas: Vec::new(),
        };
        for vma in all {
            if !matches!(vmas::owner_by_name(vma), Owner::User | Owner::Stack) {
                continue;
            }
            let backing = Backing::from_vma(vma);
            let whole = Area {
                range: vma.range,
                prot: vma.prot,
                may_write: !backing.belongs_to_other_worker() && (vma.prot.write || !vma.shared),
                backing,
            };
            for part in zones.user_parts(vma.range) {
                layout.areas.extend(whole.clipped(part));
            }
        }
        layout.join();
        layout
    }

    /// Creates a layout of one area.
    pub(super) fn single(area: Area) -> Self {
        Self {
            host: this_host(),
            areas: vec![area],
        }
    }

    /// Returns the criterion for an area's file in a process other than the saved one.
    pub(super) fn file_identity(&self, area: &Area) -> FileIdentity {
        let name = area.name();
        let is_library = |other: &Area| other.prot.exec && other.name() == name;
        match self.is_of_this_host() {
            false => FileIdentity::ByName,
            true if name.is_some() && self.areas.iter().any(is_library) => FileIdentity::ByEither,
            true => FileIdentity::ByInode,
        }
    }

    /// True if devices and inodes are those of this host.
    pub(super) fn is_of_this_host(&self) -> bool {
        self.host != UNKNOWN_HOST && self.host == this_host()
    }

    /// True if the content of `part` cannot be restored.
    ///
    /// The content is lost if the file is unnamed and the area is not captured.
    pub(super) fn is_lost(&self, part: &Area) -> bool {
        let contains = |area: &&Area| area.range.contains(part.range.start);
        let area = self.areas.iter().find(contains);
        part.unnamed_file().is_some() && !area.is_some_and(Area::is_tracked)
    }

    /// Returns the areas in address order.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Iterates over the areas that the kernel can watch.
    pub fn watched(&self) -> impl Iterator<Item = &Area> {
        self.areas.iter().filter(|area| area.is_watched())
    }

    /// Iterates over the areas whose pages are captured.
    pub fn tracked(&self) -> impl Iterator<Item = &Area> {
        self.areas.iter().filter(|area| area.is_tracked())
    }

    /// Returns the range of the brk heap, if it exists.
    pub fn heap(&self) -> Option<AddrRange> {
        let mut heap = self.areas.iter().filter(|a| a.backing == Backing::Heap);
        let first = heap.next()?;
        let end = heap.next_back().map_or(first.range.end, |a| a.range.end);
        Some(AddrRange::new(first.range.start, end))
    }

    /// Joins adjacent areas that only the kernel distinguishes.
    ///
    /// For example, the kernel splits a mapping if a part of it is registered with a userfaultfd.
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
