//! Enumerates mappings by `PROCMAP_QUERY` (Linux 6.11), which answers for one address.
//!
//! Most mappings of a rank belong to the runtime. A list made from queries skips the address range
//! of the runtime in one step, whereas `/proc/self/maps` has a line for each of its mappings.

#![allow(unsafe_code)]

use super::pages::AddrRange;
use super::vmas::{self, ExcludedRanges, MapsError, Prot, Vma};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

const READABLE: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const EXECUTABLE: u64 = 1 << 2;
const SHARED: u64 = 1 << 3;
const COVERING_OR_NEXT: u64 = 1 << 4;

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    flags: u64,
    addr: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u64 =
    (3 << 30) | ((size_of::<ProcmapQuery>() as u64) << 16) | (0x66 << 8) | 17;

const _: () = assert!(size_of::<ProcmapQuery>() == 104 && PROCMAP_QUERY == 0xc068_6611);

/// Size of the buffer for a name: `PATH_MAX`, and a suffix of the kernel.
const MAX_NAME_BYTES: usize = 4096 + 64;

/// Lists the mappings that do not lie inside of an excluded range.
///
/// Without the kernel's query, the list contains all mappings.
///
/// # Errors
/// Fails if the mappings cannot be listed.
pub fn read_outside(zones: &ExcludedRanges) -> Result<Vec<Vma>, MapsError> {
    match with_own_maps(|file| query_all(file, zones)).map_err(MapsError::Read)? {
        Ok(list) => Ok(list),
        // The query fails on an old kernel, in a sandbox, or if a name is too long. The text of
        // `/proc/self/maps` does not have these limits.
        Err(_) => vmas::read_self(),
    }
}

/// Calls `run` with this process's open `maps` file.
///
/// The file is opened once per process. The file shows the current mappings of the process that
/// has opened it, so a forked child opens its own file.
pub(super) fn with_own_maps<T>(run: impl FnOnce(&File) -> T) -> io::Result<T> {
    static MAPS: Mutex<Option<(u32, File)>> = Mutex::new(None);
    let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let file = match maps.take() {
        Some((owner, file)) if owner == process => file,
        _ => File::open("/proc/self/maps")?,
    };
    Ok(run(&maps.insert((process, file)).1))
}

fn query_all(file: &File, zones: &ExcludedRanges) -> io::Result<Vec<Vma>> {
    let mut list = Vec::new();
    let mut name = vec![0_u8; MAX_NAME_BYTES];
    let mut at = 0;
    while let Some(vma) = query(file, at, &mut name)? {
        at = vma.range.end;
        match zones.around(vma.range) {
            Some(zone) => at = zone.end,
            None => list.push(vma),
        }
    }
    Ok(list)
}

/// Returns the mapping that contains `addr`, or the next one; `None` after the last one.
fn query(file: &File, addr: u64, name: &mut [u8]) -> io::Result<Option<Vma>> {
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        flags: COVERING_OR_NEXT,
        addr,
        name_size: name.len() as u32,
        name_addr: name.as_mut_ptr() as u64,
        ..ProcmapQuery::default()
    };
    // SAFETY: the argument and the buffer in it live across the call, and have the layout and
    // length that the kernel receives.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &mut query) };
    if rc < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOENT) {
            Ok(None)
        } else {
            Err(error)
        };
    }
    let has = |bit| query.vma_flags & bit != 0;
    // The length includes the final zero byte.
    let length = (query.name_size as usize).saturating_sub(1).min(name.len());
    Ok(Some(Vma {
        range: AddrRange::new(query.start, query.end),
        prot: Prot {
            read: has(READABLE),
            write: has(WRITABLE),
            exec: has(EXECUTABLE),
        },
        shared: has(SHARED),
        offset: query.offset,
        dev: (query.major, query.minor),
        inode: query.inode,
        path: name[..length].to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::tests::support::skip;
    use crate::vmas::Owner;

    #[test]
    fn queries_and_the_text_agree() {
        let text = vmas::read_self().unwrap();
        let mut zones = ExcludedRanges::with_runtime_zone();
        // Excludes three adjacent mappings, and an address range without a mapping.
        let some = text[text.len() / 2].range;
        zones.exclude(
            AddrRange::new(some.start, text[text.len() / 2 + 2].range.end),
            Owner::Loader,
        );
        zones.exclude(AddrRange::new(0x1000, 0x2000), Owner::Loader);
        let file = File::open("/proc/self/maps").unwrap();
        let Ok(list) = query_all(&file, &zones) else {
            return skip("the kernel has no PROCMAP_QUERY");
        };
        assert!(!list.is_empty() && list.iter().all(|vma| zones.around(vma.range).is_none()));
        // Other tests map and unmap memory concurrently, so only mappings in both lists are
        // compared.
        let named = |list: &[Vma]| {
            list.iter()
                .filter(|vma| vma.path.starts_with(b"/"))
                .cloned()
                .collect::<Vec<_>>()
        };
        for vma in named(&list) {
            if let Some(other) = text
                .iter()
                .find(|other| other.range == vma.range && other.path == vma.path)
            {
                assert_eq!(&vma, other);
            }
        }
        let program = |list: &[Vma]| {
            let name = std::env::current_exe()
                .unwrap()
                .into_os_string()
                .into_encoded_bytes();
            let areas = Layout::from_vmas(list, &zones).areas().to_vec();
            let of_program = |area: &&crate::layout::Area| {
                format!("{:?}", area.backing).contains(&format!("{name:?}"))
            };
            areas.iter().filter(of_program).cloned().collect::<Vec<_>>()
        };
        assert!(!program(&list).is_empty());
        assert_eq!(program(&list), program(&text));
    }
}
