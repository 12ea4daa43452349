//! Program headers.
#![allow(unsafe_code)]

use core::{ptr, slice};

/// `Elf64_Phdr`
#[repr(C)]
#[derive(Debug)]
pub struct ProgramHeader {
    /// Kind, such as [`ProgramHeader::LOAD`].
    pub kind: u32,
    flags: u32,
    offset: u64,
    /// Address as written in the file, without the load offset.
    pub address: usize,
    physical_address: u64,
    file_size: u64,
    /// Size in memory in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub alignment: u64,
}

impl ProgramHeader {
    /// Segment that is mapped.
    pub const LOAD: u32 = 1;
    pub const DYNAMIC: u32 = 2;
    pub const NOTE: u32 = 4;
    pub const TLS: u32 = 7;

    /// True if the segment may be executed.
    pub fn is_code(&self) -> bool {
        self.flags & 1 != 0
    }

    /// True if the segment may be written.
    pub fn is_data(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// Start of `Elf64_Ehdr`, up to the number of program headers.
#[repr(C)]
struct FileHeader {
    identification: [u64; 2],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    headers: usize,
    sections: u64,
    flags: u32,
    size: u16,
    header_size: u16,
    header_count: u16,
}

/// Returns the program headers of a mapped object.
///
/// # Safety
/// `base` must be the address of the object's first byte, and the object must stay mapped.
pub unsafe fn program_headers(base: usize) -> &'static [ProgramHeader] {
    // SAFETY: the caller guarantees that `base` is the address of an ELF header that stays mapped.
    unsafe {
        let file = ptr::with_exposed_provenance::<FileHeader>(base).read();
        let headers = ptr::with_exposed_provenance(base + file.headers);
        slice::from_raw_parts(headers, usize::from(file.header_count))
    }
}
