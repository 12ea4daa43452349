//! Description of a loaded object by dl_iterate_phdr(3).
#![allow(unsafe_code)]

use crate::c_string::bytes;
use crate::dynamic::{Dynamic, entries};
use crate::program_header::ProgramHeader;
use core::ffi::{c_char, c_int, c_void};
use core::{ptr, slice};

/// `struct dl_phdr_info`
#[repr(C)]
#[derive(Debug)]
pub struct LoadedModule {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
    /// Number of objects that the process has loaded (field dlpi_adds).
    adds: u64,
    /// Number of objects that the process has unloaded (field dlpi_subs).
    subs: u64,
    /// Number of the object's thread-local data block; zero if the object has none.
    pub tls_module: usize,
    /// Thread-local data of the calling thread; null if not allocated yet.
    pub tls_block: *const c_void,
}

/// Type of the function that dl_iterate_phdr(3) calls.
pub type Callback = unsafe extern "C" fn(*const LoadedModule, usize, *mut c_void) -> c_int;

impl LoadedModule {
    /// Difference between addresses in the file and in memory.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Path of the file; empty for the program's executable.
    pub fn name(&self) -> &[u8] {
        // SAFETY: ld.so keeps the name as long as the object.
        unsafe { bytes(self.name) }
    }

    pub fn headers(&self) -> &[ProgramHeader] {
        // SAFETY: the fields describe the object's program headers, which stay mapped as long as
        // the object.
        unsafe { slice::from_raw_parts(self.headers, usize::from(self.header_count)) }
    }

    /// Returns the program headers of one kind.
    pub fn headers_of_kind(&self, kind: u32) -> impl Iterator<Item = &ProgramHeader> + Clone {
        self.headers()
            .iter()
            .filter(move |header| header.kind == kind)
    }

    /// Returns the memory that a program header of the object describes.
    ///
    /// # Safety
    /// The segment must be readable, and must not change.
    pub unsafe fn memory(&self, header: &ProgramHeader) -> &[u8] {
        let start = ptr::with_exposed_provenance(self.base + header.address);
        // SAFETY: the caller guarantees that the segment is readable and does not change.
        unsafe { slice::from_raw_parts(start, header.size) }
    }

    /// True if the object uses static TLS: thread-local data at a fixed offset.
    ///
    /// The thread-local data may be those of another object, such as libc's errno.
    pub fn has_static_tls(&self) -> bool {
        let section = self.headers_of_kind(ProgramHeader::DYNAMIC).next();
        let first = section.map_or(ptr::null(), |header| {
            ptr::with_exposed_provenance(self.base + header.address)
        });
        // SAFETY: `first` begins the dynamic section of a loaded object, or is null.
        let mut entries = unsafe { entries(first) };
        entries.any(|entry| entry.tag == Dynamic::FLAGS && entry.value & Dynamic::STATIC_TLS != 0)
    }
}

/// Calls `visit` for every object, in load order.
///
/// # Safety
/// `iterate` must pass its arguments to dl_iterate_phdr(3) of some namespace.
pub unsafe fn for_each_module<Visit: FnMut(&LoadedModule)>(
    iterate: impl FnOnce(Callback, *mut c_void),
    mut visit: Visit,
) {
    unsafe extern "C" fn call<Visit: FnMut(&LoadedModule)>(
        module: *const LoadedModule,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr(3) passes a valid structure, and the address of `visit` that
        // `iterate` has passed to dl_iterate_phdr(3) below.
        unsafe { (*visit.cast::<Visit>())(&*module) };
        0
    }
    iterate(call::<Visit>, (&raw mut visit).cast());
}
