//! Names of addresses in the program: function, offset and file.

use crate::journal::names::readable;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use understudy_image::vmas::{self, Vma};

/// Address to name, and its index in the result.
///
/// [`name_in_file`] subtracts the base from the address if the file is position-independent.
type FileOffset = (u64, usize);
/// Start, length and name of a function.
type Function<'a> = (u64, u64, &'a str);

/// A file and the address at which it is loaded.
type LoadedFile<'a> = (&'a [u8], u64);

/// Returns the names of addresses, by the files that are mapped there now.
///
/// Large libraries have many functions, so only the functions that contain an address are resolved.
pub fn names(addresses: &[u64]) -> Vec<String> {
    let vmas = vmas::read_self().unwrap_or_default();
    let mut names: Vec<String> = addresses
        .iter()
        .map(|address| format!("{address:#x}"))
        .collect();
    let mut by_file: BTreeMap<LoadedFile, Vec<FileOffset>> = BTreeMap::new();
    for (index, &address) in addresses.iter().enumerate() {
        if let Some(file) = loaded_file(&vmas, address) {
            by_file.entry(file).or_default().push((address, index));
        }
    }
    for ((path, base), wanted) in by_file {
        name_in_file(path, base, wanted, &mut names);
    }
    names
}

/// Returns the file that is mapped at an address.
///
/// A library may be loaded twice, by the program and by the MPI library. Its code follows the
/// mapping of the file's beginning in the same copy.
fn loaded_file(vmas: &[Vma], address: u64) -> Option<LoadedFile<'_>> {
    let path = &vmas.iter().find(|vma| vma.range.contains(address))?.path[..];
    let parts = || vmas.iter().filter(|vma| vma.path == path);
    let begins = |vma: &&Vma| vma.offset == 0 && vma.range.start <= address;
    let first = parts().rfind(begins).or_else(|| parts().next())?;
    Some((path, first.range.start))
}

/// Names addresses that are mapped from one file.
fn name_in_file(path: &[u8], base: u64, mut wanted: Vec<FileOffset>, names: &mut [String]) {
    let bytes = std::fs::read(OsStr::from_bytes(path)).unwrap_or_default();
    let file = object::File::parse(&*bytes).ok();
    // Executables that are not position-independent are mapped at the addresses of their symbols.
    let is_fixed = file
        .as_ref()
        .is_some_and(|file| file.kind() == object::ObjectKind::Executable);
    if !is_fixed {
        wanted.iter_mut().for_each(|(address, _)| *address -= base);
    }
    wanted.sort_unstable();
    let functions = file
        .as_ref()
        .map_or_else(Vec::new, |file| functions(file, &wanted));
    let file_name = Path::new(OsStr::from_bytes(path))
        .file_name()
        .unwrap_or_default();
    for (position, (offset, index)) in wanted.into_iter().enumerate() {
        let name = match functions.get(position).copied().flatten() {
            Some((start, _, name)) => format!("{}+{:#x}", readable(name), offset - start),
            None => format!("{offset:#x}"),
        };
        names[index] = format!("{name} ({})", file_name.display());
    }
}

/// Finds the function around each of these sorted offsets.
///
/// The function that begins last is returned if functions overlap.
fn functions<'a>(file: &'a object::File<'a>, wanted: &[FileOffset]) -> Vec<Option<Function<'a>>> {
    let mut found: Vec<Option<Function<'a>>> = vec![None; wanted.len()];
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let (start, length) = (symbol.address(), symbol.size().max(1));
        let first = wanted.partition_point(|(offset, _)| *offset < start);
        let covers = |&&(offset, _): &&FileOffset| offset - start < length;
        let count = wanted[first..].iter().take_while(covers).count();
        if count == 0 || symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        for function in &mut found[first..first + count] {
            *function = (*function).max(Some((start, length, name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn somewhere() -> u64 {
        std::hint::black_box(somewhere as fn() -> u64 as usize as u64)
    }

    #[test]
    fn addresses_belong_to_the_nearest_copy_of_a_file() {
        let text = "1000-2000 r--p 00000000 00:01 7 /libc.so\n\
                    2000-3000 r-xp 00001000 00:01 7 /libc.so\n\
                    5000-6000 r--p 00000000 00:01 7 /libc.so\n\
                    6000-7000 r-xp 00001000 00:01 7 /libc.so\n\
                    8000-9000 r-xp 00001000 00:01 8 /memfd:code\n";
        let vmas = vmas::parse(text.as_bytes()).expect("lines of maps");
        let base = |address| loaded_file(&vmas, address).map(|(_, base)| base);
        assert_eq!(base(0x2010), Some(0x1000));
        assert_eq!(base(0x6010), Some(0x5000));
        assert_eq!(base(0x8010), Some(0x8000));
        assert_eq!(base(0x4000), None);
    }

    #[test]
    fn functions_are_found_by_addresses_inside() {
        let start = somewhere();
        let names = names(&[start + 3, 16, start]);
        assert!(
            names[0].contains("somewhere") && names[0].contains("+0x3 ("),
            "{names:?}"
        );
        assert_eq!(names[1], "0x10");
        assert!(
            names[2].contains("somewhere") && names[2].contains("+0x0 ("),
            "{names:?}"
        );
    }
}
