//! Libraries that the program has opened since MPI_Init (dlopen(3)), and ld.so's state of them.
//!
//! ld.so's state consists of its records of libraries, and of numbers and blocks of thread-local
//! data. All three sides share one ld.so, so the image does not contain this state. A recovery
//! restores it in one of two ways:
//!
//! ```text
//!   surviving process   restores its own copy of ld.so's memory             (memory)
//!   replacement         opens and closes the libraries of the failed worker (operations, replay)
//! ```
//!
//! The libraries' own mappings and pages are part of the image. If a library of the program could
//! not be restored, the cuts after its opening are refused.
#![allow(unsafe_code)]

mod dtv;
mod imported_procedures;
mod loaded_libraries;
mod loader_memory;
mod operations;
mod replay;
mod tls_block;

use super::UserError;
use crate::runtime_state::StateCell;
use crate::{process_info, role, unwinder};
use loaded_libraries::Library;
use loader_memory::LoaderSnapshot;
use operations::{LoaderCall, Operation};
use std::cell::{Cell, RefMut};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::fs::MetadataExt;
use tls_block::TlsBlock;
use understudy_abi::{
    LD_HEAP_HEADER, LD_HEAP_SIZE, MAX_LIBRARY_ADDRESSES, PROGRAM_LD_HEAP, effect,
};
use understudy_image::pages::AddrRange;
use understudy_image::vmas;

pub use imported_procedures::imports_procedure;
pub use loaded_libraries::{libraries, link_maps};
pub use loader_memory::is_locked;

/// State of the loader that this process has recorded.
pub(super) struct LoaderState {
    start: Cell<LoaderStart>,
    snapshots: StateCell<Option<LoaderSnapshots>>,
    log: StateCell<Option<operations::OperationLog>>,
    /// Ranges of ld.so's state; empty if its format is unknown.
    ranges: StateCell<Vec<AddrRange>>,
}

impl LoaderState {
    /// State at the start of the process.
    pub(super) const fn new() -> LoaderState {
        LoaderState {
            start: Cell::new(LoaderStart {
                libraries: 0,
                namespaces: 0,
            }),
            snapshots: StateCell::new(None),
            log: StateCell::new(None),
            ranges: StateCell::new(Vec::new()),
        }
    }

    /// True if the format of ld.so's state is known.
    fn is_format_supported(&self) -> bool {
        !self.ranges.borrow().is_empty()
    }
}

/// Returns the libraries that the program has opened so far.
pub fn opened(loaded: &LoaderState) -> Vec<Library> {
    libraries().split_off(loaded.start.get().libraries)
}

/// Identity of a state of ld.so: a process, and a number in that process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct LoaderStateKey {
    process: u64,
    version: u64,
}

/// State of ld.so at a cut.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct LoaderAtCut {
    key: LoaderStateKey,
    libraries: Vec<Library>,
    operations: Vec<Operation>,
    blocks: Vec<TlsBlock>,
}

/// Counters of calls and allocations that show changes of ld.so's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoaderMark {
    calls: u64,
    changes: usize,
}

/// Copies of earlier states of ld.so in this process.
#[derive(Default)]
struct LoaderSnapshots {
    /// Random number that identifies this process.
    process: u64,
    /// Number of states so far.
    versions: u64,
    /// Key of the latest known state, and the counters at that time.
    last: Option<(LoaderStateKey, LoaderMark)>,
    /// Copies of the states at the latest cuts.
    snapshots: VecDeque<(LoaderStateKey, LoaderSnapshot)>,
    /// Counters up to which all opened libraries are known to be restorable.
    checked: LoaderMark,
}

/// Maximum number of kept states.
///
/// Older states belong to checkpoints on disk, which only new processes load.
const MAX_SNAPSHOTS: usize = 16;
/// Maximum number of operations; more would make every checkpoint large.
const MAX_OPERATIONS: usize = 5000;

/// Counts at the start and in MPI_Init, with which later states are compared.
#[derive(Clone, Copy)]
struct LoaderStart {
    /// Number of libraries at the start.
    libraries: usize,
    /// Number of link-map namespaces in MPI_Init.
    namespaces: usize,
}

fn snapshots(loaded: &LoaderState) -> RefMut<'_, LoaderSnapshots> {
    RefMut::map(loaded.snapshots.borrow_mut(), Option::get_or_insert_default)
}

/// Returns the current counters.
pub(super) fn mark(loaded: &LoaderState) -> LoaderMark {
    LoaderMark {
        calls: operations::calls(&loaded.log),
        // SAFETY: the preload library's counter lives as long as the process.
        changes: unsafe { process_info::info().loader_heap.changes.read_volatile() },
    }
}

/// Locates ld.so's state, before the program runs.
pub fn find(loaded: &LoaderState, first_heap: &[AddrRange]) {
    loaded.start.set(LoaderStart {
        libraries: loaded_libraries::modules().len(),
        ..loaded.start.get()
    });
    loaded.ranges.set(loader_memory::find(first_heap));
}

/// Starts to record the libraries that the program opens; called in MPI_Init.
pub fn begin(loaded: &LoaderState) {
    let mut random = [0; 8];
    // SAFETY: getrandom(2) fills the buffer. The number only distinguishes processes.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    *snapshots(loaded) = LoaderSnapshots {
        process: u64::from_ne_bytes(random),
        checked: mark(loaded),
        ..LoaderSnapshots::default()
    };
    loaded.start.set(LoaderStart {
        namespaces: loaded_libraries::namespaces(),
        ..loaded.start.get()
    });
    loaded_libraries::record_static_blocks(loaded.start.get().libraries);
    operations::begin(&loaded.log);
}

/// Records that the program is about to open or close a library ([`effect`]).
///
/// # Safety
/// The string must be valid or null.
pub unsafe fn record_operation(loaded: &LoaderState, kind: u32, path: *const c_char, value: i64) {
    if !role::is_protected() {
        return;
    }
    match kind {
        effect::CLOSE_LIBRARY => operations::record(
            &loaded.log,
            LoaderCall::Close {
                handle: value as u64,
            },
        ),
        // Without a name the call refers to the program itself.
        _ if path.is_null() => {}
        _ => {
            // SAFETY: the caller guarantees that a string that is not null is valid.
            let path = unsafe { CStr::from_ptr(path) }
                .to_string_lossy()
                .into_owned();
            let is_relative = path.contains('/') && !path.starts_with('/');
            let working_directory = || {
                std::env::current_dir()
                    .ok()?
                    .into_os_string()
                    .into_string()
                    .ok()
            };
            let directory = if is_relative {
                working_directory()
            } else {
                None
            };
            let flags = value as i32;
            operations::record(
                &loaded.log,
                LoaderCall::Open {
                    path,
                    flags,
                    directory,
                },
            );
        }
    }
}

/// Refuses a library of the program that a replacement could not open.
pub fn check(loaded: &LoaderState) -> Result<(), UserError> {
    let mark = mark(loaded);
    if snapshots(loaded).checked == mark {
        return Ok(());
    }
    let operations = operations::operations(&loaded.log);
    let added = || operations.iter().flat_map(|operation| &operation.added);
    let refuse = |path: &str, reason| Err(UserError::LateLibrary(path.to_owned(), reason));
    if let Some(first) = added().next()
        && !loaded.is_format_supported()
    {
        return refuse(&first.path, "this C library's loader is not known");
    }
    if loaded_libraries::namespaces() != loaded.start.get().namespaces {
        return refuse(
            "a library",
            "the program has opened it in a namespace of its own, by dlmopen",
        );
    }
    if operations.len() > MAX_OPERATIONS
        || operations
            .iter()
            .any(|operation| operation.added.len() >= MAX_LIBRARY_ADDRESSES)
    {
        return refuse(
            "too many libraries",
            "their list would be in every checkpoint",
        );
    }
    let mapped = vmas::read_self()?;
    let now = libraries();
    for library in added().filter(|library| now.contains(library)) {
        let mapping = mapped
            .iter()
            .find(|vma| vma.range.contains(library.base) && vma.inode != 0);
        let inode = mapping.map(|vma| vma.inode);
        let file =
            mapping.and_then(|vma| std::fs::metadata(std::str::from_utf8(&vma.path).ok()?).ok());
        if inode.is_none() || file.map(|file| file.ino()) != inode {
            return refuse(&library.path, "its file has been removed or replaced since");
        }
        if !is_record(library.handle) {
            return refuse(&library.path, "this C library's loader is not known");
        }
    }
    snapshots(loaded).checked = mark;
    Ok(())
}

/// True if the preload library has recorded this block as ld.so's record of a library.
///
/// Only then can ld.so of a replacement place its own record at this address.
fn is_record(handle: u64) -> bool {
    let heap = PROGRAM_LD_HEAP as u64..(PROGRAM_LD_HEAP + LD_HEAP_SIZE) as u64;
    // SAFETY: the handle is the address of a block of ld.so's heap, in which the preload library
    // places a header before each block.
    heap.contains(&handle)
        && unsafe { ((handle as usize - LD_HEAP_HEADER) as *const [usize; 2]).read()[1] == 1 }
}

/// Records ld.so's state; copies it only if it has changed since the last cut.
pub fn capture(loaded: &LoaderState) -> LoaderAtCut {
    let operations = operations::operations(&loaded.log);
    if !snapshots(loaded)
        .last
        .is_some_and(|(_, last)| last == mark(loaded))
    {
        loaded_libraries::record_static_blocks(loaded.start.get().libraries);
    }
    let mut snapshots = snapshots(loaded);
    let mark = mark(loaded);
    let key = match snapshots.last {
        Some((key, last)) if last == mark => key,
        _ => {
            snapshots.versions += 1;
            let key = LoaderStateKey {
                process: snapshots.process,
                version: snapshots.versions,
            };
            snapshots.add(loaded, key, mark);
            key
        }
    };
    let libraries = libraries();
    LoaderAtCut {
        key,
        blocks: if loaded.is_format_supported() {
            tls_block::all(&libraries)
        } else {
            Vec::new()
        },
        libraries,
        operations,
    }
}

impl LoaderSnapshots {
    /// Stores a copy of ld.so's current state under this key.
    fn add(&mut self, loaded: &LoaderState, key: LoaderStateKey, mark: LoaderMark) {
        self.last = Some((key, mark));
        if loaded.is_format_supported() {
            self.snapshots.retain(|(other, _)| *other != key);
            self.snapshots.truncate(MAX_SNAPSHOTS - 1);
            self.snapshots
                .push_front((key, LoaderSnapshot::take(&loaded.ranges.borrow())));
        }
    }
}

/// Restores ld.so's state of the cut. Must be called before mappings and pages are restored.
pub fn restore(loaded: &LoaderState, saved: &LoaderAtCut) -> Result<(), UserError> {
    if snapshots(loaded).last == Some((saved.key, mark(loaded))) {
        return Ok(());
    }
    let restored = {
        let snapshots = snapshots(loaded);
        let snapshot = snapshots
            .snapshots
            .iter()
            .find(|(key, _)| *key == saved.key);
        snapshot.map(|(_, snapshot)| snapshot.restore())
    };
    let refused = || UserError::Library("a library".into());
    match restored {
        Some(true) => {}
        Some(false) => return Err(refused()),
        // A replacement has no copy of this state.
        None => {
            let own = operations::operations(&loaded.log);
            let rest = saved
                .operations
                .strip_prefix(&own[..])
                .ok_or_else(refused)?;
            replay::run(&saved.libraries, &saved.blocks, rest)?;
            let now = mark(loaded);
            snapshots(loaded).add(loaded, saved.key, now);
        }
    }
    operations::replace(&loaded.log, &saved.operations, &saved.libraries);
    let mut snapshots = snapshots(loaded);
    snapshots.last = Some((saved.key, mark(loaded)));
    snapshots.checked = mark(loaded);
    Ok(())
}

/// True if the program is in a call of ld.so.
///
/// An example is a library that is being opened, and whose constructor calls MPI. No checkpoint
/// can be taken in such a call, because the restored state of ld.so would not include the call.
pub fn is_loading() -> bool {
    let mut found = false;
    // SAFETY: the unwinder passes this argument to `find_loader_frame` only during this call, while
    // `found` exists.
    unsafe { unwinder::_Unwind_Backtrace(find_loader_frame, (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn find_loader_frame(context: *mut c_void, found: *mut c_void) -> c_int {
    let info = process_info::info();
    // SAFETY: the unwinder passes a valid context and the argument of `is_loading`.
    unsafe {
        let is_loader =
            unwinder::_Unwind_GetIP(context).wrapping_sub(info.loader_base) < info.loader_length;
        found.cast::<bool>().write(is_loader);
        if is_loader {
            unwinder::END_OF_STACK
        } else {
            unwinder::CONTINUE_WALK
        }
    }
}
