//! Making the process's mappings equal to a saved layout.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::layout::{Area, Backing, Layout};
use super::observe::c_path;
use super::prot::{self, ProtError};
use super::runs::AddrRange;
use super::vmas::{MapsError, Zones};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The layout could not be restored; the user side must not run then.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The mappings could not be listed.
    #[error("cannot list the mappings")]
    List(#[source] MapsError),
    /// A mapping could not be removed.
    #[error("cannot unmap {range:x?}")]
    Unmap {
        /// Where.
        range: AddrRange,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A saved mapping lies where something else is that must stay.
    #[error("a saved mapping at {range:x?} is in the way of memory that is not the user's")]
    Conflict {
        /// Where.
        range: AddrRange,
    },
    /// A mapping could not be made.
    #[error("cannot map {range:x?} as {backing:?}")]
    Map {
        /// Where.
        range: AddrRange,
        /// What.
        backing: Backing,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A mapped file could not be opened.
    #[error("cannot open {path:?} to map it again")]
    OpenFile {
        /// The file.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Memory of a window could not be had.
    #[error("cannot map the memory of a window again that workers share, on this node's /dev/shm")]
    OpenWindow(#[source] io::Error),
    /// Access rights could not be set.
    #[error("cannot set access rights")]
    Protect(#[source] ProtError),
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutStats {
    /// Mappings removed.
    pub unmapped: usize,
    /// Mappings made.
    pub mapped: usize,
    /// Mappings whose access rights were changed.
    pub protected: usize,
    /// The program break is not where the saved heap ends, as in a process whose heap starts
    /// elsewhere. The heap's memory is there all the same, but `brk` cannot extend it.
    pub break_differs: bool,
}

/// A range in which both layouts are uniform.
#[derive(Debug)]
struct Step {
    now: Option<Area>,
    want: Option<Area>,
}

/// Gives the process the user-side mappings of `saved`; what `zones` excludes is not touched.
///
/// Contents come afterwards, see [`super::restore`]. A mapping that is of the right kind stays,
/// so that a survivor's unchanged pages need not be copied.
///
/// # Errors
/// See [`LayoutError`].
pub fn restore_layout(saved: &Layout, zones: &Zones) -> Result<LayoutStats, LayoutError> {
    for area in saved.areas() {
        if zones.touches_excluded(area.range) {
            return Err(LayoutError::Conflict { range: area.range });
        }
    }
    let mut stats = LayoutStats::default();
    let now = Layout::read_self(zones).map_err(LayoutError::List)?;
    for step in compare(&now, saved) {
        // The kernel moves the break only while the old heap is mapped up to its end.
        let heap = matches!(&step.now, Some(area) if area.backing == Backing::Heap);
        if !heap {
            stats.unmapped += usize::from(unmap_step(&step)?);
        }
    }
    stats.break_differs = !restore_break(&now, saved);
    let now = Layout::read_self(zones).map_err(LayoutError::List)?;
    let steps = compare(&now, saved);
    for step in &steps {
        stats.unmapped += usize::from(unmap_step(step)?);
    }
    for (index, step) in steps.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &steps[index]);
        let is_grown = before.is_some_and(|before| grow(before, step));
        stats.mapped += usize::from(is_grown || map_step(step)?);
    }
    for step in &steps {
        stats.protected += usize::from(protect_step(step)?);
    }
    Ok(stats)
}

/// Cuts both layouts at each other's borders.
fn compare(now: &Layout, saved: &Layout) -> Vec<Step> {
    let both = || now.areas().iter().chain(saved.areas());
    let mut borders: Vec<u64> = both().flat_map(|area| [area.range.start, area.range.end]).collect();
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
            steps.push(Step { now, want });
        }
    }
    steps
}

impl Step {
    fn is_stack(&self) -> bool {
        let stack = |area: &Option<Area>| matches!(area, Some(a) if a.backing == Backing::Stack);
        stack(&self.now) || stack(&self.want)
    }

    fn same_backing(&self) -> bool {
        matches!((&self.now, &self.want), (Some(a), Some(b)) if a.backing.same(&b.backing))
    }
}

fn unmap_step(step: &Step) -> Result<bool, LayoutError> {
    let Some(now) = &step.now else {
        return Ok(false);
    };
    if step.is_stack() || step.same_backing() {
        return Ok(false);
    }
    let range = now.range;
    // SAFETY: user-side memory, whose users stand still and which is not part of the saved state.
    let rc = unsafe { libc::munmap(range.start as *mut libc::c_void, range.len() as usize) };
    if rc != 0 {
        let source = io::Error::last_os_error();
        return Err(LayoutError::Unmap { range, source });
    }
    Ok(true)
}

/// Sets the program break to the end of the saved heap; the user's `malloc` relies on it.
fn restore_break(now: &Layout, saved: &Layout) -> bool {
    let target = match (now.heap(), saved.heap()) {
        (None, None) => return true,
        (_, Some(heap)) => heap.end,
        // The heap was empty then: its start is where the break was.
        (Some(heap), None) => heap.start,
    };
    // SAFETY: moves the end of the user's heap, which nobody uses now. The raw call does not
    // involve the user's libc, whose idea of the break comes back with its data.
    unsafe { libc::syscall(libc::SYS_brk, target) as u64 == target }
}

/// Makes anonymous memory that is missing at the end of a mapping by making that longer. A new mapping beside one that has
/// been moved before stays one of its own to the kernel, and mremap(2) would refuse to work on both.
fn grow(before: &Step, step: &Step) -> bool {
    let (Some(left), Some(kept), None, Some(want)) = (&before.now, &before.want, &step.now, &step.want) else {
        return false;
    };
    let is_plain = |area: &Area| area.backing == Backing::Anonymous;
    let continues = left.range.end == want.range.start && left.prot == want.prot;
    if !(is_plain(left) && is_plain(kept) && is_plain(want) && continues) {
        return false;
    }
    let page = PAGE_SIZE as u64;
    let (last, length) = (want.range.start - page, page + want.range.len());
    // SAFETY: the last page of a mapping of the user side; without MREMAP_MAYMOVE nothing is moved or replaced.
    unsafe { libc::mremap(last as *mut libc::c_void, PAGE_SIZE, length as usize, 0) != libc::MAP_FAILED }
}

fn map_step(step: &Step) -> Result<bool, LayoutError> {
    let Some(want) = &step.want else {
        return Ok(false);
    };
    if step.is_stack() || step.same_backing() {
        return Ok(false);
    }
    let (flags, file, offset) = match &want.backing {
        Backing::SharedMemory { .. } => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, None, 0),
        Backing::PrivateFile { path, offset } => {
            let file = open(path, libc::O_RDONLY)?;
            (libc::MAP_PRIVATE, Some(file), *offset)
        }
        Backing::SharedFile { path, offset } => {
            let rw = if want.may_write { libc::O_RDWR } else { libc::O_RDONLY };
            (libc::MAP_SHARED, Some(open(path, rw)?), *offset)
        }
        Backing::Window { part, offset } => {
            let file = part.open(offset + want.range.len()).map_err(LayoutError::OpenWindow)?;
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
    // SAFETY: FIXED_NOREPLACE makes a new mapping or none, it never replaces one.
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

fn open(path: &[u8], flags: i32) -> Result<OwnedFd, LayoutError> {
    let name = c_path(path);
    // SAFETY: the name is a C string that lives across the call.
    let fd = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(LayoutError::OpenFile {
            path: String::from_utf8_lossy(path).into_owned(),
            source: io::Error::last_os_error(),
        });
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn protect_step(step: &Step) -> Result<bool, LayoutError> {
    match (&step.now, &step.want) {
        (Some(now), Some(want)) if now.prot != want.prot && step.same_backing() && !step.is_stack() => {
            prot::protect(want.range, want.prot).map_err(LayoutError::Protect)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
