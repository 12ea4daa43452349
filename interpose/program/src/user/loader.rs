//! Libraries that the program has opened since MPI_Init (dlopen(3)), and what ld.so knows of them.
//!
//! ld.so's state is outside of the image, since both sides share it: records of libraries, numbers
//! and blocks of thread-local data. After a rollback or a takeover it must be what it was at the
//! cut:
//!
//! ```text
//!   a survivor     puts its own copy of ld.so's memory back       (memory)
//!   an understudy  opens and closes what the dead rank had        (operations, replay)
//! ```
//!
//! The libraries' own mappings and pages belong to the image. A program of which this could not be
//! done is refused at the first cut after it has opened such a library.
#![allow(unsafe_code)]

mod list;
mod memory;
mod named;
mod operations;
mod replay;
mod tls_block;
mod vector;

use super::UserError;
use crate::cell::Field;
use crate::{role, told, unwinder};
use list::Library;
use memory::Snapshot;
use operations::{Call, Operation};
use std::cell::{Cell, RefMut};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::fs::MetadataExt;
use tls_block::Block;
use understudy_abi::{LD_HEAP_HEADER, LD_HEAP_SIZE, LIBRARY_PLACES, USER_LD_HEAP, effect};
use understudy_image::runs::AddrRange;
use understudy_image::vmas;

pub use list::{libraries, link_maps};
pub use memory::is_locked;
pub use named::names;

/// What is known of the loader's state.
pub(super) struct Loaded {
    before: Cell<Before>,
    kept: Field<Option<Kept>>,
    log: Field<Option<operations::Log>>,
    /// Where ld.so's state lies. Empty: it does not have the known form.
    places: Field<Vec<AddrRange>>,
}

impl Loaded {
    /// At the start of the process.
    pub(super) const fn new() -> Loaded {
        Loaded {
            before: Cell::new(Before {
                libraries: 0,
                namespaces: 0,
            }),
            kept: Field::new(None),
            log: Field::new(None),
            places: Field::new(Vec::new()),
        }
    }

    /// True if the state of ld.so has the known form.
    fn is_known(&self) -> bool {
        !self.places.borrow().is_empty()
    }
}

/// The libraries that the program has opened so far.
pub fn opened(loaded: &Loaded) -> Vec<Library> {
    libraries().split_off(loaded.before.get().libraries)
}

/// Which process's state it was, and which of its states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct Key {
    process: u64,
    version: u64,
}

/// ld.so's state at a cut.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Saved {
    key: Key,
    libraries: Vec<Library>,
    operations: Vec<Operation>,
    blocks: Vec<Block>,
}

/// What tells that ld.so's state has changed: calls of the program, and allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    calls: u64,
    changes: usize,
}

#[derive(Default)]
struct Kept {
    own: u64,
    versions: u64,
    /// The state that ld.so had at this mark.
    last: Option<(Key, Mark)>,
    /// Copies of the states of the last cuts.
    snapshots: VecDeque<(Key, Snapshot)>,
    /// Up to this mark everything can be opened again.
    checked: Mark,
}

/// So many states are kept. An epoch on disk may be older; it is loaded in processes that have been
/// started anew.
const MOST_STATES: usize = 16;
/// A program that opens and closes more than this would make every checkpoint long.
const MOST_OPERATIONS: usize = 5000;

/// What there was before the program opened anything.
#[derive(Clone, Copy)]
struct Before {
    /// Libraries at the start.
    libraries: usize,
    /// Link-map namespaces in MPI_Init.
    namespaces: usize,
}

fn kept(loaded: &Loaded) -> RefMut<'_, Kept> {
    RefMut::map(loaded.kept.borrow_mut(), Option::get_or_insert_default)
}

pub(super) fn mark(loaded: &Loaded) -> Mark {
    Mark {
        calls: operations::calls(&loaded.log),
        // SAFETY: the face's counter lives as long as the process.
        changes: unsafe { told::info().loader_heap.changes.read_volatile() },
    }
}

/// Finds ld.so's state, before the program runs.
pub fn find(loaded: &Loaded, first_heap: &[AddrRange]) {
    loaded.before.set(Before {
        libraries: list::modules().len(),
        ..loaded.before.get()
    });
    loaded.places.set(memory::find(first_heap));
}

/// The program is in MPI_Init. What it opens from here on is noted.
pub fn begin(loaded: &Loaded) {
    let mut random = [0; 8];
    // SAFETY: getrandom(2) fills the buffer; a name for this process is all that is wanted.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    *kept(loaded) = Kept {
        own: u64::from_ne_bytes(random),
        checked: mark(loaded),
        ..Kept::default()
    };
    loaded.before.set(Before {
        namespaces: list::namespaces(),
        ..loaded.before.get()
    });
    list::find_static_blocks(loaded.before.get().libraries);
    operations::begin(&loaded.log);
}

/// The program is about to open or close a library ([`effect`]).
///
/// # Safety
/// The string must be valid or null.
pub unsafe fn note(loaded: &Loaded, kind: u32, path: *const c_char, value: i64) {
    if !role::is_protected() {
        return;
    }
    match kind {
        effect::CLOSE_LIBRARY => operations::note(
            &loaded.log,
            Call::Close {
                handle: value as u64,
            },
        ),
        // Without a name it is the program itself.
        _ if path.is_null() => {}
        _ => {
            // SAFETY: the program's string.
            let path = unsafe { CStr::from_ptr(path) }
                .to_string_lossy()
                .into_owned();
            let is_relative = path.contains('/') && !path.starts_with('/');
            let here = || {
                std::env::current_dir()
                    .ok()?
                    .into_os_string()
                    .into_string()
                    .ok()
            };
            let directory = if is_relative { here() } else { None };
            let flags = value as i32;
            operations::note(
                &loaded.log,
                Call::Open {
                    path,
                    flags,
                    directory,
                },
            );
        }
    }
}

/// Refuses if an understudy could not open what the program has opened.
pub fn check(loaded: &Loaded) -> Result<(), UserError> {
    let mark = mark(loaded);
    if kept(loaded).checked == mark {
        return Ok(());
    }
    let operations = operations::operations(&loaded.log);
    let made = || operations.iter().flat_map(|operation| &operation.made);
    let refuse = |path: &str, why| Err(UserError::LateLibrary(path.to_owned(), why));
    if let Some(first) = made().next()
        && !loaded.is_known()
    {
        return refuse(&first.path, "this C library's loader is not known");
    }
    if list::namespaces() != loaded.before.get().namespaces {
        return refuse(
            "a library",
            "it has done so in a namespace of its own, by dlmopen",
        );
    }
    if operations.len() > MOST_OPERATIONS
        || operations
            .iter()
            .any(|operation| operation.made.len() >= LIBRARY_PLACES)
    {
        return refuse(
            "too many libraries",
            "their list would be in every checkpoint",
        );
    }
    let mapped = vmas::read_self()?;
    let now = libraries();
    for library in made().filter(|library| now.contains(library)) {
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
    kept(loaded).checked = mark;
    Ok(())
}

/// Whether the face knows this block as ld.so's record of a library, so that an understudy's can be
/// put there.
fn is_record(handle: u64) -> bool {
    let heap = USER_LD_HEAP as u64..(USER_LD_HEAP + LD_HEAP_SIZE) as u64;
    // SAFETY: the header of a block of that heap.
    heap.contains(&handle)
        && unsafe { ((handle as usize - LD_HEAP_HEADER) as *const [usize; 2]).read()[1] == 1 }
}

/// Copies ld.so's state, unless it is as it was at the last cut.
pub fn capture(loaded: &Loaded) -> Saved {
    let operations = operations::operations(&loaded.log);
    if !kept(loaded)
        .last
        .is_some_and(|(_, last)| last == mark(loaded))
    {
        list::find_static_blocks(loaded.before.get().libraries);
    }
    let mut kept = kept(loaded);
    let mark = mark(loaded);
    let key = match kept.last {
        Some((key, last)) if last == mark => key,
        _ => {
            kept.versions += 1;
            let key = Key {
                process: kept.own,
                version: kept.versions,
            };
            kept.keep(loaded, key, mark);
            key
        }
    };
    let libraries = libraries();
    Saved {
        key,
        blocks: if loaded.is_known() {
            tls_block::all(&libraries)
        } else {
            Vec::new()
        },
        libraries,
        operations,
    }
}

impl Kept {
    /// ld.so's state has this key.
    fn keep(&mut self, loaded: &Loaded, key: Key, mark: Mark) {
        self.last = Some((key, mark));
        if loaded.is_known() {
            self.snapshots.retain(|(other, _)| *other != key);
            self.snapshots.truncate(MOST_STATES - 1);
            self.snapshots
                .push_front((key, Snapshot::take(&loaded.places.borrow())));
        }
    }
}

/// Makes ld.so's state that of the cut; to be called before mappings and pages are put back.
pub fn restore(loaded: &Loaded, saved: &Saved) -> Result<(), UserError> {
    if kept(loaded).last == Some((saved.key, mark(loaded))) {
        return Ok(());
    }
    let is_back = {
        let kept = kept(loaded);
        let snapshot = kept.snapshots.iter().find(|(key, _)| *key == saved.key);
        snapshot.map(|(_, snapshot)| snapshot.put_back())
    };
    let refused = || UserError::Library("what the program has opened since".into());
    match is_back {
        Some(true) => {}
        Some(false) => return Err(refused()),
        None => {
            let own = operations::operations(&loaded.log);
            let rest = saved
                .operations
                .strip_prefix(&own[..])
                .ok_or_else(refused)?;
            // Constructors of the libraries run.
            replay::run(&saved.libraries, &saved.blocks, rest)?;
            let now = mark(loaded);
            kept(loaded).keep(loaded, saved.key, now);
        }
    }
    operations::replace(&loaded.log, &saved.operations, &saved.libraries);
    let mut kept = kept(loaded);
    kept.last = Some((saved.key, mark(loaded)));
    kept.checked = mark(loaded);
    Ok(())
}

/// Whether the program is inside of ld.so: the constructor of a library that is being opened has
/// called MPI. It cannot be saved there, for ld.so would not be where the program is.
pub fn is_loading() -> bool {
    let mut found = false;
    // SAFETY: the unwinder calls with this argument, on this stack.
    unsafe { unwinder::_Unwind_Backtrace(look_for_loader, (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look_for_loader(context: *mut c_void, found: *mut c_void) -> c_int {
    let info = told::info();
    // SAFETY: the unwinder passes a valid context, and the argument is that of `is_loading`.
    unsafe {
        let is_in =
            unwinder::_Unwind_GetIP(context).wrapping_sub(info.loader_base) < info.loader_length;
        found.cast::<bool>().write(is_in);
        if is_in {
            unwinder::END_OF_STACK
        } else {
            unwinder::NO_REASON
        }
    }
}
