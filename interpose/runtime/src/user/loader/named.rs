//! Which procedures of MPI the program's own code names.
#![allow(unsafe_code)]

use super::list::{LinkMap, link_maps};
use std::ffi::{CStr, c_char};
use std::path::Path;

const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;

/// `Elf64_Rela`
#[repr(C)]
struct Relocation {
    place: u64,
    /// The symbol's number in the upper half.
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    /// 0: it is defined elsewhere.
    section: u16,
    value: u64,
    size: u64,
}

/// Whether the program or a library that is loaded, but none of MPI itself, names a procedure (in C or Fortran), whose name in lower case
/// begins so. To be called while the program does not run.
pub fn names(start: &str) -> bool {
    let is_it = |name: &CStr| {
        let name = name.to_bytes().to_ascii_lowercase();
        name.strip_prefix(b"p")
            .unwrap_or(&name)
            .starts_with(start.as_bytes())
    };
    // SAFETY: a loaded library, whose name ld.so keeps.
    link_maps().any(|map| unsafe { !is_of_mpi(CStr::from_ptr(map.name)) && names_in(map, is_it) })
}

/// The library, its bindings for other languages, and ours.
fn is_of_mpi(path: &CStr) -> bool {
    let path = path.to_string_lossy();
    let file = Path::new(path.as_ref())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    ["libmpi", "libunderstudy"]
        .iter()
        .any(|start| file.starts_with(start))
}

/// # Safety
/// A loaded library.
unsafe fn names_in(map: &LinkMap, is_it: impl Fn(&CStr) -> bool) -> bool {
    let entry = |wanted: u64| {
        let mut at = map.dynamic.cast::<[u64; 2]>();
        // SAFETY: the dynamic section ends with an entry of 0; a library without one has a null pointer.
        while let Some(&[tag, value]) = unsafe { at.as_ref() }.filter(|entry| entry[0] != 0) {
            if tag == wanted {
                return value;
            }
            at = at.wrapping_add(1);
        }
        0
    };
    // ld.so relocates addresses in place, but in the vDSO.
    let [symbols, text] = [DT_SYMTAB, DT_STRTAB].map(entry);
    if symbols < map.base || text < map.base {
        return false;
    }
    [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)]
        .iter()
        .any(|&(table, bytes)| {
            let (table, count) = (
                entry(table),
                entry(bytes) as usize / size_of::<Relocation>(),
            );
            if table == 0 {
                return false;
            }
            // SAFETY: the library's relocations, and the symbols and names to which they lead.
            unsafe {
                let relocations = std::slice::from_raw_parts(table as *const Relocation, count);
                relocations
                    .iter()
                    .filter(|relocation| relocation.info >> 32 != 0)
                    .any(|relocation| {
                        let symbol =
                            &*(symbols as *const Symbol).add((relocation.info >> 32) as usize);
                        symbol.section == 0
                            && is_it(CStr::from_ptr(
                                (text + u64::from(symbol.name)) as *const c_char,
                            ))
                    })
            }
        })
}
