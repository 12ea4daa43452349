//! Replay of the library operations of a failed worker in its replacement.
//!
//! The replay opens and closes the libraries that the worker has opened and closed since MPI_Init,
//! without running constructors and destructors: their effects are part of the pages.
//!
//! Three things get the addresses that they had in the worker: the libraries; ld.so's records of
//! them, which are the program's handles; and the blocks of their thread-local data, to which the
//! program may have pointers.
#![allow(unsafe_code)]

use super::loaded_libraries::{self, Library};
use super::operations::{LoaderCall, Operation, is_named};
use super::tls_block::TlsBlock;
use crate::arch::call_user;
use crate::process_info;
use crate::user::{UserError, zones};
use std::ffi::CString;
use understudy_abi::MAX_LIBRARY_ADDRESSES;
use understudy_image::pages::AddrRange;
use understudy_image::vmas::{self, Owner};

/// Replays `operations`, which lead to these libraries and blocks.
pub fn run(
    libraries: &[Library],
    blocks: &[TlsBlock],
    operations: &[Operation],
) -> Result<(), UserError> {
    let now = loaded_libraries::libraries();
    let missing = || libraries.iter().filter(|library| !now.contains(library));
    let unallocated = || blocks.iter().filter(|block| block.current().is_none());
    // These addresses are reserved first, so that ld.so uses them for no other allocation.
    let records = missing().map(|library| library.handle);
    let mut reserved: Vec<u64> = records
        .chain(unallocated().map(|block| block.allocated))
        .collect();
    reserved.retain(|&address| reserve(address));
    for operation in operations {
        perform(operation, &mut reserved)?;
    }
    for block in unallocated() {
        block.allocate()?;
    }
    let now = loaded_libraries::libraries();
    if now == libraries {
        return Ok(());
    }
    log::debug!("wanted {:x?}, have {now:x?}", libraries);
    let differs = |(saved, now): &(&Library, &Library)| saved != now;
    let first = libraries.iter().zip(&now).find(differs);
    let first = first.map_or_else(|| "a library".into(), |(saved, _)| saved.path.clone());
    Err(UserError::Library(first))
}

/// Reserves a block of ld.so's heap. Returns false if the block is in use.
fn reserve(address: u64) -> bool {
    // SAFETY: the preload library's heap, which only this thread uses.
    unsafe { (process_info::info().loader_heap.reserve)(address as usize) }
}

/// Performs one operation.
///
/// `reserved` lists blocks that are free except for their reservation.
fn perform(operation: &Operation, reserved: &mut Vec<u64>) -> Result<(), UserError> {
    // SAFETY: records of loaded libraries.
    let hide = |&handle: &u64| unsafe {
        (process_info::info().program_hide_destructors)(handle as *const _)
    };
    operation.removed.iter().for_each(hide);
    let added = &operation.added;
    let start_of = |(index, library)| make_room(library, &added[..index]);
    let starts = added
        .iter()
        .enumerate()
        .map(start_of)
        .collect::<Result<Vec<u64>, _>>()?;
    for library in &operation.added {
        let before = reserved.len();
        reserved.retain(|&address| address != library.handle);
        if reserved.len() == before && !reserve(library.handle) {
            return Err(UserError::Library(library.path.clone()));
        }
    }
    prescribe(&operation.added, &starts);
    match &operation.call {
        // The worker may have found the library in another library's search path. So the library
        // is opened by the path at which the worker found it.
        LoaderCall::Open {
            path,
            flags,
            directory,
        } => {
            let found = operation
                .added
                .first()
                .filter(|library| is_named(library, path));
            open(
                found.map_or(path, |library| &library.path),
                *flags,
                directory.as_deref(),
            );
        }
        LoaderCall::Close { handle } => close(*handle),
        LoaderCall::Nothing => {}
    }
    for library in &operation.added {
        if !loaded_libraries::libraries().contains(library) {
            open(&library.path, libc::RTLD_NOW, None);
        }
        if !loaded_libraries::libraries().contains(library) {
            log::debug!(
                "wanted {library:x?} among {:x?}",
                loaded_libraries::libraries()
            );
            return Err(UserError::Library(library.path.clone()));
        }
    }
    prescribe(&[], &[]);
    Ok(())
}

/// Returns the start address of ld.so's mapping for this library, and frees the address range.
///
/// Unmaps memory of the program side in that range: the restore replaces all of it anyway.
///
/// For a library with an alignment of more than a page, ld.so (glibc 2.35 and later,
/// `_dl_map_segment`) reserves the alignment in addition, and unmaps the excess on both sides.
/// `before` lists the libraries that are opened before `library`.
fn make_room(library: &Library, before: &[Library]) -> Result<u64, UserError> {
    const PAGE: u64 = understudy_image::PAGE_SIZE as u64;
    let (base, length, alignment) = (library.base, library.end - library.base, library.alignment);
    let (lowest, window_length) =
        if alignment > PAGE && base.is_multiple_of(alignment) && is_aligning() {
            (base - alignment + PAGE, length.max(alignment) + alignment)
        } else {
            (base & !(PAGE - 1), length)
        };
    let mapped = vmas::read_self()?;
    let loaded = loaded_libraries::libraries();
    let is_loaded = |range: AddrRange| {
        let mut others = loaded
            .iter()
            .chain(before)
            .map(|other| AddrRange::new(other.base, other.end.max(other.base + 1)));
        others.any(|other| other.intersect(range).is_some())
    };
    let is_plain = |vma: &&vmas::Vma| {
        vmas::owner_by_name(vma) == Owner::User
            && vma.path != b"[heap]"
            && !zones().touches_excluded(vma.range)
    };
    for start in (lowest..=base).rev().step_by(PAGE as usize) {
        let window = AddrRange::new(start, (start + window_length).next_multiple_of(PAGE));
        let mut inside = mapped
            .iter()
            .filter(|vma| vma.range.intersect(window).is_some());
        if is_loaded(window) || !inside.clone().all(|vma| is_plain(&vma)) {
            continue;
        }
        for range in inside
            .by_ref()
            .filter_map(|vma| vma.range.intersect(window))
        {
            // SAFETY: memory of the program side, which the restore replaces.
            unsafe { libc::munmap(range.start as *mut _, range.len() as usize) };
        }
        return Ok(start);
    }
    Err(UserError::Library(library.path.clone()))
}

/// True if ld.so aligns libraries to more than a page (glibc 2.35 and later).
fn is_aligning() -> bool {
    // SAFETY: a static string of libc.
    let version =
        unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy();
    let minor = version
        .split('.')
        .nth(1)
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 35)
}

/// Sets the addresses of the next libraries, and of their records, for ld.so.
fn prescribe(libraries: &[Library], starts: &[u64]) {
    let (mut addresses, mut records) = ([0; MAX_LIBRARY_ADDRESSES], [0; MAX_LIBRARY_ADDRESSES]);
    for (index, (library, &start)) in libraries
        .iter()
        .zip(starts)
        .enumerate()
        .take(MAX_LIBRARY_ADDRESSES - 1)
    {
        addresses[index] = start as usize;
        records[index] = library.handle as usize;
    }
    // SAFETY: the preload library's lists, which only ld.so's calls of this thread use. The blocks
    // were reserved.
    unsafe {
        process_info::info()
            .library_addresses
            .write_volatile(addresses);
        process_info::info()
            .loader_heap
            .link_maps
            .write_volatile(records);
    }
}

/// Calls the program's dlopen(3) in `directory`.
fn open(path: &str, flags: i32, directory: Option<&str>) {
    let Ok(path) = CString::new(path) else { return };
    let former_directory = directory.and_then(|directory| {
        let current = std::env::current_dir().ok();
        std::env::set_current_dir(directory).ok().and(current)
    });
    let (open, path) = (
        process_info::info().program_dlopen as *const _,
        path.as_ptr() as u64,
    );
    // SAFETY: dlopen(3) on the program's stack; the library's constructors are not run.
    unsafe { call_user(open, path, flags as u64, 0, 0, 0) };
    if let Some(directory) = former_directory {
        std::env::set_current_dir(directory).unwrap_or_default();
    }
}

fn close(handle: u64) {
    // SAFETY: dlclose(3) on the program's stack; the library's destructors are not run.
    unsafe {
        call_user(
            process_info::info().program_dlclose as *const _,
            handle,
            0,
            0,
            0,
            0,
        )
    };
}
