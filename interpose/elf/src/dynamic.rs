//! Entry of a dynamic section.
#![allow(unsafe_code)]

use core::iter;

/// `Elf64_Dyn`
#[repr(C)]
#[derive(Debug)]
pub struct Dynamic {
    /// Kind of the entry, such as [`Dynamic::NEEDED`].
    pub tag: usize,
    /// Number, offset or address, depending on the kind.
    pub value: usize,
}

impl Dynamic {
    /// Name of a library that the object needs.
    pub const NEEDED: usize = 1;
    /// Size in bytes of the relocations of [`Dynamic::JMPREL`].
    pub const PLTRELSZ: usize = 2;
    pub const STRTAB: usize = 5;
    pub const SYMTAB: usize = 6;
    pub const RELA: usize = 7;
    /// Size in bytes of the relocations of [`Dynamic::RELA`].
    pub const RELASZ: usize = 8;
    pub const INIT: usize = 12;
    pub const FINI: usize = 13;
    /// Name of the object itself.
    pub const SONAME: usize = 14;
    /// Directories that are searched before LD_LIBRARY_PATH.
    pub const RPATH: usize = 15;
    /// Relocations of functions that are bound at their first call.
    pub const JMPREL: usize = 23;
    /// Size in bytes of the array of constructors.
    pub const INIT_ARRAYSZ: usize = 27;
    /// Size in bytes of the array of destructors.
    pub const FINI_ARRAYSZ: usize = 28;
    /// Directories that are searched after LD_LIBRARY_PATH.
    pub const RUNPATH: usize = 29;
    pub const FLAGS: usize = 30;
    /// Flag of [`Dynamic::FLAGS`]: the object uses static TLS.
    ///
    /// Offsets in static TLS are fixed when an object is loaded.
    pub const STATIC_TLS: usize = 0x10;
}

/// Returns the entries before the entry of kind 0, which ends a dynamic section.
///
/// # Safety
/// `first` must be null or the first entry of an object's dynamic section. The object must stay
/// loaded while the entries are used.
pub(crate) unsafe fn entries(
    first: *const Dynamic,
) -> impl Iterator<Item = &'static Dynamic> + Clone {
    let read = |entry: *const Dynamic| {
        // SAFETY: the caller guarantees that `first` begins a dynamic section or is null. The
        // entries of a section follow each other up to the one of kind 0.
        unsafe { entry.as_ref() }.filter(|entry| entry.tag != 0)
    };
    iter::successors(read(first), move |entry| {
        read(core::ptr::from_ref(*entry).wrapping_add(1))
    })
}
