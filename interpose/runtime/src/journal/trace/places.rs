//! Names of addresses in the program: function and offset, and the file that they are in.

use crate::image::vmas::{self, Vma};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Functions of a file: address, length, name; sorted.
type Functions = Vec<(u64, u64, String)>;

/// The program's files.
pub struct Places {
    vmas: Vec<Vma>,
    files: HashMap<Vec<u8>, (bool, Functions)>,
}

impl Places {
    /// As they are mapped now.
    pub fn read() -> Places {
        Places {
            vmas: vmas::read_self().unwrap_or_default(),
            files: HashMap::new(),
        }
    }

    /// The name of an address.
    pub fn name(&mut self, address: u64) -> String {
        let Some(vma) = self.vmas.iter().find(|vma| vma.range.contains(address)) else {
            return format!("{address:#x}");
        };
        let path = vma.path.clone();
        let first = self.vmas.iter().find(|vma| vma.path == path);
        let base = first.map_or(0, |vma| vma.range.start);
        let file = Path::new(OsStr::from_bytes(&path)).file_name().unwrap_or_default();
        let (is_fixed, functions) = self.files.entry(path.clone()).or_insert_with(|| functions(&path));
        let offset = if *is_fixed { address } else { address - base };
        let at = functions.partition_point(|(start, ..)| *start <= offset);
        let function = at.checked_sub(1).and_then(|index| functions.get(index));
        let within = |(start, length, name): &(u64, u64, String)| {
            (offset - start < (*length).max(1)).then(|| format!("{name}+{:#x}", offset - start))
        };
        let shown = function.and_then(within).unwrap_or_else(|| format!("{offset:#x}"));
        format!("{shown} ({})", file.display())
    }
}

/// Whether a file is always mapped at its own addresses, and its functions.
fn functions(path: &[u8]) -> (bool, Functions) {
    let Ok(bytes) = std::fs::read(OsStr::from_bytes(path)) else {
        return (false, Vec::new());
    };
    let Ok(file) = object::File::parse(&*bytes) else {
        return (false, Vec::new());
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let mut found: Functions = symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect();
    found.sort_unstable();
    (file.kind() == object::ObjectKind::Executable, found)
}
