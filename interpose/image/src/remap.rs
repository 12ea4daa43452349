//! Makes the process's mappings equal to a saved layout.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::layout::{Area, Backing, FileIdentity, Layout, MappedFile};
use super::observe::c_path;
use super::pages::AddrRange;
use super::prot::{self, ProtError};
use super::vmas::{ExcludedRanges, MapsError};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use understudy_catalogue::message;

/// Failed restore of the layout; the program side must not run afterwards.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The mappings could not be listed.
    #[error("cannot list the mappings")]
    List(#[source] MapsError),
    /// A mapping could not be removed.
    #[error("cannot unmap {range:x?}")]
    Unmap { range: AddrRange, source: io::Error },
    /// A saved mapping overlaps memory that does not belong to the program.
    #[error("a saved mapping at {range:x?} overlaps memory that does not belong to the program")]
    Conflict { range: AddrRange },
    /// A mapping could not be created.
    #[error("cannot map {range:x?} as {backing:?}")]
    Map {
        range: AddrRange,
        backing: Backing,
        source: io::Error,
    },
    /// A mapped file could not be opened.
    #[error("cannot open {path:?} to map it again")]
    OpenFile { path: String, source: io::Error },
    /// The name of a mapped file leads to another file now.
    #[error(
        "{}", message::mapped_file_replaced(.path))]
    Replaced { path: String },
    /// The mapping of an unnamed file was lost, and no image has its content.
    #[error(
        "{}", message::removed_file_too_large(.range))]
    Removed { range: AddrRange },
    /// The memory of a window could not be created.
    #[error("cannot map the shared memory of an MPI window again (a file in this node's /dev/shm)")]
    OpenWindow(#[source] io::Error),
    /// Access rights could not be set.
    #[error("cannot set access rights")]
    Protect(#[source] ProtError),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutStats {
    pub unmapped: usize,
    pub mapped: usize,
    /// Mappings whose access rights were changed.
    pub protected: usize,
    /// True if the program break is not at the end of the saved heap.
    ///
    /// This happens in a process whose heap starts at another address. The heap's memory is
    /// restored nevertheless, but `brk` cannot extend it.
    pub break_differs: bool,
}

/// Device and inode of a file without a name.
type UnnamedFile = ((u32, u32), u64);

/// New files in memory for mapped objects that another process could not open.
///
/// Each such object with more than one mapping gets one file.
struct UnnamedFiles<'a> {
    saved: &'a Layout,
    created: HashMap<UnnamedFile, OwnedFd>,
}

impl UnnamedFiles<'_> {
    /// Returns the file for a mapping and the mapping's offset in it.
    ///
    /// `None` if the mapping needs no common file.
    fn file_for(&mut self, area: &Area) -> Result<Option<(&OwnedFd, u64)>, LayoutError> {
        let shows_same_file = |other: &&Area| {
            area.unnamed_file().is_some() && other.unnamed_file() == area.unnamed_file()
        };
        let (Some(file), true) = (
            area.unnamed_file(),
            self.saved.areas().iter().filter(shows_same_file).count() > 1,
        ) else {
            return Ok(None);
        };
        let created = match self.created.entry(file) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let ends = self
                    .saved
                    .areas()
                    .iter()
                    .filter(shows_same_file)
                    .map(Area::end_in_file);
                let failed = |source| LayoutError::Map {
                    range: area.range,
                    backing: area.backing.clone(),
                    source,
                };
                entry.insert(memory_file(ends.max().unwrap_or(0)).map_err(failed)?)
            }
        };
        Ok(Some((created, area.end_in_file() - area.range.len())))
    }
}

/// Creates a file in memory that contains zeros.
pub fn memory_file(bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: memfd_create(2) returns a new descriptor, which has no other owner.
    let fd = unsafe { libc::memfd_create(c"shared".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor has just been created and has no other owner.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(bytes)?;
    Ok(file.into())
}

/// Process in which a layout was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutOrigin {
    /// This process.
    Own,
    /// Another process of the job.
    OtherProcess,
    /// A process of the job before its restart, perhaps on other hosts.
    EarlierRun,
}

/// Address range that has at most one mapping in each layout.
#[derive(Debug)]
struct RemapStep {
    /// Current mapping.
    now: Option<Area>,
    /// Saved mapping.
    want: Option<Area>,
    identity: FileIdentity,
    /// True if the mapping shows an unnamed file of which another mapping was lost.
    ///
    /// The lost mapping needs a new file, so all mappings of the file must get the new one.
    is_replaced: bool,
}

/// Gives the process the program-side mappings of `saved`, outside of excluded ranges.
///
/// The content is restored afterwards ([`super::restore`]). A mapping that already shows the saved
/// object is kept, so that a survivor's unchanged pages need not be copied.
///
/// The mappings are compared twice, because the heap must be treated first: brk(2) moves the end
/// of the heap only while the old heap is mapped up to its end, and if no other mapping is in the
/// way. So the first pass unmaps all mappings outside of the heap that are not kept. Then the
/// break is set. The second pass unmaps the parts of the heap that are not kept, creates the
/// missing mappings, and sets the access rights.
///
/// # Errors
/// See [`LayoutError`].
pub fn restore_layout(
    saved: &Layout,
    zones: &ExcludedRanges,
    origin: LayoutOrigin,
) -> Result<LayoutStats, LayoutError> {
    for area in saved.areas() {
        if zones.touches_excluded(area.range) {
            return Err(LayoutError::Conflict { range: area.range });
        }
    }
    let mut stats = LayoutStats::default();
    let now = Layout::read_self(zones).map_err(LayoutError::List)?;
    for step in compare(&now, saved, origin) {
        let is_heap = matches!(&step.now, Some(area) if area.backing == Backing::Heap);
        if !is_heap {
            stats.unmapped += usize::from(unmap_step(&step)?);
        }
    }
    stats.break_differs = !restore_break(&now, saved);
    let now = Layout::read_self(zones).map_err(LayoutError::List)?;
    let steps = compare(&now, saved, origin);
    for step in &steps {
        stats.unmapped += usize::from(unmap_step(step)?);
    }
    let mut objects = UnnamedFiles {
        saved,
        created: HashMap::new(),
    };
    for (index, step) in steps.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &steps[index]);
        let is_grown = before.is_some_and(|before| extend_mapping(before, step));
        stats.mapped += usize::from(is_grown || map_step(step, &mut objects)?);
    }
    for step in &steps {
        stats.protected += usize::from(protect_step(step)?);
    }
    let opened: Vec<&Area> = steps.iter().filter_map(RemapStep::opens_file).collect();
    if !opened.is_empty() && origin != LayoutOrigin::EarlierRun && saved.is_of_this_host() {
        check_files(
            &opened,
            &Layout::read_self(zones).map_err(LayoutError::List)?,
        )?;
    }
    Ok(stats)
}

/// Verifies that files which were opened by their names are those of the saved mappings.
///
/// A different device number proves nothing, because processes may run in separate containers.
fn check_files(opened: &[&Area], now: &Layout) -> Result<(), LayoutError> {
    for want in opened {
        let found = now
            .areas()
            .iter()
            .find(|area| area.range.contains(want.range.start));
        if let (Some(old), Some(new)) = (want.file(), found.and_then(Area::file))
            && old.dev == new.dev
            && old.inode != new.inode
        {
            let path = String::from_utf8_lossy(&old.path).into_owned();
            return Err(LayoutError::Replaced { path });
        }
    }
    Ok(())
}

/// Divides both layouts at all borders of areas in either of them.
fn compare(now: &Layout, saved: &Layout, origin: LayoutOrigin) -> Vec<RemapStep> {
    let both = || now.areas().iter().chain(saved.areas());
    let mut borders: Vec<u64> = both()
        .flat_map(|area| [area.range.start, area.range.end])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    let mut now = now.areas().iter().peekable();
    let mut want = saved.areas().iter().peekable();
    let mut steps = Vec::new();
    for pair in borders.windows(2) {
        let range = AddrRange::new(pair[0], pair[1]);
        let cut = |areas: &mut std::iter::Peekable<std::slice::Iter<'_, Area>>| {
            while areas.next_if(|a| a.range.end <= range.start).is_some() {}
            areas.peek().and_then(|area| area.clipped(range))
        };
        let (now, want) = (cut(&mut now), cut(&mut want));
        if now.is_some() || want.is_some() {
            let identity = match &want {
                Some(want) if origin != LayoutOrigin::Own => saved.file_identity(want),
                _ => FileIdentity::ByInode,
            };
            steps.push(RemapStep {
                now,
                want,
                identity,
                is_replaced: false,
            });
        }
    }
    mark_replaced(&mut steps);
    steps
}

/// Marks all mappings of an unnamed file for replacement if one of them is lost.
fn mark_replaced(steps: &mut [RemapStep]) {
    let lost = steps.iter().filter(|step| !step.has_saved_backing());
    let lost: HashSet<UnnamedFile> = lost.filter_map(RemapStep::unnamed_file).collect();
    for step in steps {
        step.is_replaced = step.unnamed_file().is_some_and(|file| lost.contains(&file));
    }
}

impl RemapStep {
    fn is_stack(&self) -> bool {
        let stack = |area: &Option<Area>| matches!(area, Some(a) if a.backing == Backing::Stack);
        stack(&self.now) || stack(&self.want)
    }

    fn unnamed_file(&self) -> Option<UnnamedFile> {
        self.want.as_ref()?.unnamed_file()
    }

    fn has_saved_backing(&self) -> bool {
        !self.is_replaced
            && matches!((&self.now, &self.want), (Some(a), Some(b)) if a.backing.is_same_object(&b.backing, self.identity))
    }

    /// Returns the saved area if its file must be opened by name.
    fn opens_file(&self) -> Option<&Area> {
        let want = self.want.as_ref().filter(|_| !self.has_saved_backing())?;
        want.file().map(|_| want)
    }
}

/// Unmaps the current mapping unless it is kept; returns true if it was unmapped.
fn unmap_step(step: &RemapStep) -> Result<bool, LayoutError> {
    let Some(now) = &step.now else {
        return Ok(false);
    };
    if step.is_stack() || step.has_saved_backing() {
        return Ok(false);
    }
    let range = now.range;
    // SAFETY: memory of the program side, which is stopped. The saved layout has another mapping in
    // this range, or none.
    let rc = unsafe { libc::munmap(range.start as *mut libc::c_void, range.len() as usize) };
    if rc != 0 {
        let source = io::Error::last_os_error();
        return Err(LayoutError::Unmap { range, source });
    }
    Ok(true)
}

/// Sets the program break to the end of the saved heap.
///
/// The program's malloc(3) relies on this. Returns false if the kernel refuses.
fn restore_break(now: &Layout, saved: &Layout) -> bool {
    let target = match (now.heap(), saved.heap()) {
        (None, None) => return true,
        (_, Some(heap)) => heap.end,
        // The saved heap was empty: its break was at the start of the current heap.
        (Some(heap), None) => heap.start,
    };
    // SAFETY: moves the end of the program's heap, which is not used meanwhile. The raw call does
    // not involve the program's libc, whose own record of the break is restored with its data.
    unsafe { libc::syscall(libc::SYS_brk, target) as u64 == target }
}

/// Creates missing anonymous memory at the end of a mapping by extending that mapping.
///
/// Returns true on success.
///
/// The kernel could keep a new mapping separate from the existing one (if that was moved before).
/// A later mremap(2) of the program over both mappings would then fail.
fn extend_mapping(before: &RemapStep, step: &RemapStep) -> bool {
    let (Some(left), Some(kept), None, Some(want)) =
        (&before.now, &before.want, &step.now, &step.want)
    else {
        return false;
    };
    let is_plain = |area: &Area| area.backing == Backing::Anonymous;
    let continues = left.range.end == want.range.start && left.prot == want.prot;
    if !(is_plain(left) && is_plain(kept) && is_plain(want) && continues) {
        return false;
    }
    let page = PAGE_SIZE as u64;
    let (last, length) = (want.range.start - page, page + want.range.len());
    // SAFETY: the range begins with the last page of a program-side mapping. Without MREMAP_MAYMOVE
    // the call moves and replaces nothing.
    unsafe {
        libc::mremap(last as *mut libc::c_void, PAGE_SIZE, length as usize, 0) != libc::MAP_FAILED
    }
}

/// Creates the saved mapping unless the current one is kept.
///
/// Returns true if it was created.
fn map_step(step: &RemapStep, objects: &mut UnnamedFiles<'_>) -> Result<bool, LayoutError> {
    let Some(want) = &step.want else {
        return Ok(false);
    };
    if step.is_stack() || step.has_saved_backing() {
        return Ok(false);
    }
    if objects.saved.is_lost(want) {
        return Err(LayoutError::Removed { range: want.range });
    }
    if let Some((file, offset)) = objects.file_for(want)? {
        map_at(want, libc::MAP_SHARED, file.as_raw_fd(), offset)?;
        return Ok(true);
    }
    let (flags, file, offset) = match &want.backing {
        Backing::SharedMemory { .. } => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, None, 0),
        Backing::PrivateFile { file, offset } => {
            let file = open(file, libc::O_RDONLY)?;
            (libc::MAP_PRIVATE, Some(file), *offset)
        }
        Backing::SharedFile { file, offset } => {
            let rw = if want.may_write {
                libc::O_RDWR
            } else {
                libc::O_RDONLY
            };
            (libc::MAP_SHARED, Some(open(file, rw)?), *offset)
        }
        Backing::Window { part, offset } => {
            let file = part
                .open(offset + want.range.len())
                .map_err(LayoutError::OpenWindow)?;
            (libc::MAP_SHARED, Some(file.into()), *offset)
        }
        _ => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None, 0),
    };
    let fd = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    map_at(want, flags, fd, offset)?;
    Ok(true)
}

fn map_at(want: &Area, flags: i32, fd: i32, offset: u64) -> Result<(), LayoutError> {
    let range = want.range;
    let (start, bytes) = (range.start as *mut libc::c_void, range.len() as usize);
    let flags = flags | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    // SAFETY: FIXED_NOREPLACE creates a new mapping or none; it never replaces one.
    let at = unsafe { libc::mmap(start, bytes, want.prot.bits(), flags, fd, offset as i64) };
    if at == libc::MAP_FAILED {
        let source = io::Error::last_os_error();
        if source.raw_os_error() == Some(libc::EEXIST) {
            return Err(LayoutError::Conflict { range });
        }
        return Err(LayoutError::Map {
            range,
            backing: want.backing.clone(),
            source,
        });
    }
    Ok(())
}

fn open(file: &MappedFile, flags: i32) -> Result<OwnedFd, LayoutError> {
    let name = c_path(&file.path);
    // SAFETY: the name is a C string that lives across the call.
    let fd = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(LayoutError::OpenFile {
            path: String::from_utf8_lossy(&file.path).into_owned(),
            source: io::Error::last_os_error(),
        });
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn protect_step(step: &RemapStep) -> Result<bool, LayoutError> {
    match (&step.now, &step.want) {
        (Some(now), Some(want))
            if now.prot != want.prot && step.has_saved_backing() && !step.is_stack() =>
        {
            prot::protect(want.range, want.prot).map_err(LayoutError::Protect)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
