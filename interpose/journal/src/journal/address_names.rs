//! Names of addresses in the program: function, offset and file.

use object::Object;
use std::collections::BTreeMap;
use std::path::Path;
use understudy_formats::function_names::functions_at;
use understudy_formats::proc_maps::MappedFiles;

/// Address to name, and its index in the result.
///
/// [`name_in_file`] subtracts the base from the address if the file is position-independent.
type FileOffset = (u64, usize);

/// A file and the address at which it is loaded.
type LoadedFile<'a> = (&'a Path, u64);

/// Returns the names of addresses, by the files that are mapped there now.
///
/// Large libraries have many functions, so only the functions that contain an address are resolved.
pub fn names(addresses: &[u64]) -> Vec<String> {
    let files = MappedFiles::read(std::process::id());
    let mut names: Vec<String> = addresses
        .iter()
        .map(|address| format!("{address:#x}"))
        .collect();
    let mut by_file: BTreeMap<LoadedFile, Vec<FileOffset>> = BTreeMap::new();
    for (index, &address) in addresses.iter().enumerate() {
        if let Some(file) = files.at(address) {
            let loaded = by_file.entry((file.path, file.start)).or_default();
            loaded.push((address, index));
        }
    }
    for ((path, base), wanted) in by_file {
        name_in_file(path, base, wanted, &mut names);
    }
    names
}

/// Names addresses that are mapped from one file.
fn name_in_file(path: &Path, base: u64, mut wanted: Vec<FileOffset>, names: &mut [String]) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let file = object::File::parse(&*bytes).ok();
    // Executables that are not position-independent are mapped at the addresses of their symbols.
    let is_fixed = file
        .as_ref()
        .is_some_and(|file| file.kind() == object::ObjectKind::Executable);
    if !is_fixed {
        wanted.iter_mut().for_each(|(address, _)| *address -= base);
    }
    wanted.sort_unstable();
    let offsets: Vec<u64> = wanted.iter().map(|&(offset, _)| offset).collect();
    let functions = file
        .as_ref()
        .map_or_else(Vec::new, |file| functions_at(file, &offsets));
    let file_name = path.file_name().unwrap_or_default();
    for (position, (offset, index)) in wanted.into_iter().enumerate() {
        let name = match functions.get(position).copied().flatten() {
            Some(function) => format!("{}+{:#x}", function.name(), offset - function.start),
            None => format!("{offset:#x}"),
        };
        names[index] = format!("{name} ({})", file_name.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn somewhere() -> u64 {
        std::hint::black_box(somewhere as fn() -> u64 as usize as u64)
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
