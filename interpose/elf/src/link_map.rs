//! ld.so's record of a loaded object.
#![allow(unsafe_code)]

use crate::c_string::bytes;
use crate::dynamic::{Dynamic, entries};
use core::ffi::c_char;
use core::{iter, ptr, slice};

/// Public head of glibc's `struct link_map`.
///
/// A handle of dlopen(3) points to such a structure.
#[repr(C)]
#[derive(Debug)]
pub struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// `Elf64_Rela`
#[repr(C)]
struct Relocation {
    /// Address to be relocated, relative to the object's base.
    offset: usize,
    /// Index of the symbol in the upper 32 bits.
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    /// Index of the section that defines the symbol; zero if another object defines the symbol.
    section: u16,
    value: usize,
    size: u64,
}

impl LinkMap {
    /// Lists `first` and the records that follow in ld.so's list, in load order.
    ///
    /// # Safety
    /// `first` must be a record of ld.so, or null. No object of the list may be loaded or unloaded
    /// while the list is walked.
    pub unsafe fn list(first: *const LinkMap) -> impl Iterator<Item = &'static LinkMap> + Clone {
        // SAFETY: the caller guarantees that `first` is null or a record of ld.so, whose list does
        // not change.
        let read = |record: *const LinkMap| unsafe { record.as_ref() };
        iter::successors(read(first), move |record| read(record.next))
    }

    /// Returns the first record of the list that contains `record`.
    ///
    /// # Safety
    /// `record` must meet the requirements of [`LinkMap::list`] for `first`.
    pub unsafe fn first_of(record: *const LinkMap) -> *const LinkMap {
        // SAFETY: the caller guarantees that `record` is null or a record of ld.so, whose list
        // does not change.
        let read = |record: *const LinkMap| unsafe { record.as_ref() };
        let records = iter::successors(read(record), |record| read(record.previous));
        records.last().map_or(ptr::null(), ptr::from_ref)
    }

    /// Difference between addresses in the file and in memory.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Path of the file; empty for the program's executable.
    pub fn name(&self) -> &'static [u8] {
        // SAFETY: ld.so keeps the name as long as the record.
        unsafe { bytes(self.name) }
    }

    /// Returns the first entry of this kind in the dynamic section.
    pub fn entry(&self, tag: usize) -> Option<&'static Dynamic> {
        self.entries().find(|entry| entry.tag == tag)
    }

    /// Returns the strings of all entries of this kind.
    pub fn strings(&self, tag: usize) -> impl Iterator<Item = &'static [u8]> {
        let table = self.address(Dynamic::STRTAB);
        let text = move |entry: &Dynamic| {
            // SAFETY: the value is an offset into the object's string table.
            table.map(|table| unsafe { bytes((table + entry.value) as *const c_char) })
        };
        let entries = self.entries().filter(move |entry| entry.tag == tag);
        entries.filter_map(text)
    }

    /// True if the object needs the library of this name.
    pub fn needs(&self, soname: &[u8]) -> bool {
        self.strings(Dynamic::NEEDED).any(|name| name == soname)
    }

    /// Returns the names of symbols that other objects define.
    ///
    /// A symbol is listed once for each relocation that refers to the symbol.
    pub fn imports(&self) -> impl Iterator<Item = &'static [u8]> {
        let tables = self
            .address(Dynamic::SYMTAB)
            .zip(self.address(Dynamic::STRTAB));
        let relocations = [
            self.relocations(Dynamic::RELA, Dynamic::RELASZ),
            self.relocations(Dynamic::JMPREL, Dynamic::PLTRELSZ),
        ];
        let name = move |relocation: &Relocation| {
            let (symbols, text) = tables?;
            let index = (relocation.info >> 32) as usize;
            // SAFETY: the index belongs to the object's symbol table, and the name is an offset
            // into its string table.
            unsafe {
                let symbol = (symbols as *const Symbol).add(index).as_ref()?;
                let is_import = index != 0 && symbol.section == 0;
                is_import.then(|| bytes((text + symbol.name as usize) as *const c_char))
            }
        };
        relocations.into_iter().flatten().filter_map(name)
    }

    fn entries(&self) -> impl Iterator<Item = &'static Dynamic> + Clone {
        // SAFETY: ld.so's record contains the address of the object's dynamic section, or null.
        unsafe { entries(self.dynamic) }
    }

    /// Returns the address in the entry of this kind.
    fn address(&self, tag: usize) -> Option<usize> {
        let value = self.entry(tag)?.value;
        // ld.so adds the base to the entry in place, except in a read-only section (the vDSO's). A
        // value below the base is therefore an offset.
        Some(if value < self.base {
            value + self.base
        } else {
            value
        })
    }

    /// Returns the relocation table whose address and size are in the entries of these kinds.
    fn relocations(&self, table: usize, size: usize) -> &'static [Relocation] {
        let size = self.entry(size).map_or(0, |entry| entry.value);
        match self.address(table) {
            // SAFETY: the two entries of the dynamic section contain the table's address and size,
            // and the table stays mapped as long as the object.
            Some(first) if first != 0 => unsafe {
                slice::from_raw_parts(first as *const Relocation, size / size_of::<Relocation>())
            },
            _ => &[],
        }
    }
}
