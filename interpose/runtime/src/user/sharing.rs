//! Memory that the program shares with other processes. A rank's image holds it as it was when that rank was saved, so it
//! must not be rolled back if another rank has it too.
#![allow(unsafe_code)]

use super::zones;
use crate::image::shared::Part;
use crate::image::vmas::{self, Owner};
use xxhash_rust::xxh3::xxh3_64;

/// A writable shared mapping of something that has a name.
pub struct Mapping {
    /// What is mapped: equal in all processes of this host that map the same; never 0.
    pub identity: u64,
    /// Its name.
    pub path: String,
}

/// The mappings that other processes may have too. Looked for only if the program has made any.
pub fn mappings() -> Vec<Mapping> {
    // SAFETY: the face's counter lives as long as the process.
    if unsafe { crate::told::info().user_shared_maps.read_volatile() } == 0 {
        return Vec::new();
    }
    let all = vmas::read_self().unwrap_or_default();
    let host = super::host_name();
    let mut found: Vec<Mapping> = all
        .iter()
        .filter(|vma| vma.shared && vma.prot.write && vma.inode != 0 && Part::of(&vma.path).is_none())
        .filter(|vma| zones().owner_at(vma, vma.range.start) == Owner::User)
        .map(|vma| Mapping {
            identity: xxh3_64(format!("{host} {:?} {}", vma.dev, vma.inode).as_bytes()).max(1),
            path: String::from_utf8_lossy(&vma.path).into_owned(),
        })
        .collect();
    found.sort_unstable_by_key(|mapping| mapping.identity);
    found.dedup_by_key(|mapping| mapping.identity);
    found
}
