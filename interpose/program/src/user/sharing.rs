//! Memory that the program shares, and memory that no other process can have.
//!
//! A rank's image contains shared memory as it was when this rank was saved. The images of two
//! ranks may therefore contain different states of the memory that they share. So memory that ranks
//! share must not be rolled back.
#![allow(unsafe_code)]

use super::open_descriptors::{descriptors, path_of, stat};
use super::process_names::host_name;
use super::{UserError, zones};
use crate::shim;
use std::os::unix::ffi::OsStrExt;
use understudy_image::procmap;
use understudy_image::vmas::{Owner, REMOVED, Vma};
use understudy_image::window_memory::WindowPart;
use xxhash_rust::xxh3::xxh3_64;

/// Writable shared mapping of a file or another object with an inode, except MPI windows.
pub struct SharedMapping {
    /// Hash that identifies the mapped object on all hosts; never zero.
    pub identity: u64,
    pub path: String,
}

/// Returns the number of requests of the program for shared memory or huge pages.
pub fn count() -> u64 {
    // SAFETY: the preload library's counter lives as long as the process.
    unsafe {
        crate::process_info::info()
            .program_shared_maps
            .read_volatile()
    }
    .into()
}

/// Returns the program's mappings of objects.
///
/// Empty if the program has never requested shared memory or huge pages.
fn mapped() -> Vec<Vma> {
    if count() == 0 {
        return Vec::new();
    }
    let mut all = procmap::read_outside(zones()).unwrap_or_default();
    all.retain(|vma| vma.inode != 0 && zones().owner_at(vma, vma.range.start) == Owner::User);
    all
}

/// Returns the mappings that other processes may share.
///
/// # Errors
/// Fails if the program has memory that another process cannot have.
pub fn check() -> Result<Vec<SharedMapping>, UserError> {
    let all = mapped();
    if all.iter().any(is_huge) {
        return Err(UserError::HugePages);
    }
    if let Some(path) = open_and_mapped(&all) {
        return Err(UserError::OpenAndMapped(path));
    }
    Ok(shared(&all))
}

/// True for huge pages, which belong to a pool of limited size.
fn is_huge(vma: &Vma) -> bool {
    vma.path.starts_with(b"/anon_hugepage") || vma.path.starts_with(b"/dev/hugepages/")
}

/// Returns a nameless file that is mapped for sharing and has a descriptor.
fn open_and_mapped(all: &[Vma]) -> Option<String> {
    let is_hidden = |vma: &&Vma| vma.shared && vma.path.ends_with(REMOVED);
    let hidden: Vec<&Vma> = all.iter().filter(is_hidden).collect();
    if hidden.is_empty() {
        return None;
    }
    let _right = shim::acquire_descriptor_right();
    let open = descriptors();
    let found = hidden
        .into_iter()
        .find(|vma| open.iter().any(|&fd| is_open_at(fd, vma)))?;
    Some(String::from_utf8_lossy(&found.path).into_owned())
}

/// True if the descriptor refers to the mapped file.
///
/// The device that fstat(2) reports may differ from the device in the list of mappings.
fn is_open_at(fd: i32, vma: &Vma) -> bool {
    let Some(file_stat) = stat(fd) else {
        return false;
    };
    let has_device = || (libc::major(file_stat.st_dev), libc::minor(file_stat.st_dev)) == vma.dev;
    let has_path = || path_of(fd).as_os_str().as_bytes() == vma.path;
    file_stat.st_ino == vma.inode && (has_device() || has_path())
}

/// Returns the mappings that other processes may share, without a check.
pub fn mappings() -> Vec<SharedMapping> {
    shared(&mapped())
}

fn shared(all: &[Vma]) -> Vec<SharedMapping> {
    let is_shared =
        |vma: &&Vma| vma.shared && vma.prot.write && WindowPart::from_path(&vma.path).is_none();
    let host = host_name();
    let mut found: Vec<SharedMapping> = all
        .iter()
        .filter(is_shared)
        .map(|vma| SharedMapping {
            identity: xxh3_64(format!("{host} {:?} {}", vma.dev, vma.inode).as_bytes()).max(1),
            path: String::from_utf8_lossy(&vma.path).into_owned(),
        })
        .collect();
    found.sort_unstable_by_key(|mapping| mapping.identity);
    found.dedup_by_key(|mapping| mapping.identity);
    found
}
