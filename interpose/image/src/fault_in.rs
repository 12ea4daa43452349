//! Faults pages in, so that the kernel reports their state.

#![allow(unsafe_code)]

use super::layout::{Area, Layout};
use super::opened::{NeededAccess, OpenedAreas};
use super::pages::{self, PageIndex, PageRun};
use super::prot::ProtError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Calls [`fault_in`] for pages of one area, regardless of its access rights.
pub(super) fn fault_in_area(area: &Area, list: &[PageRun]) -> Result<Vec<PageRun>, ProtError> {
    let opened = OpenedAreas::open(&Layout::single(area.clone()), list, NeededAccess::Read)?;
    let unreadable = fault_in(list);
    opened.close()?;
    Ok(unreadable)
}

/// Makes pages present by reading them, and returns those that cannot be read.
///
/// `MADV_POPULATE_READ` returns an error where a plain read would cause a SIGBUS, for example
/// behind the end of a truncated file.
fn fault_in(list: &[PageRun]) -> Vec<PageRun> {
    let mut unreadable = Vec::new();
    for &run in list {
        if populate_read(run) {
            continue;
        }
        for page in run.start.0..run.end() {
            let page = PageRun::between(page, page + 1);
            if !populate_read(page) {
                pages::push(&mut unreadable, page);
            }
        }
    }
    unreadable
}

/// Reads pages through `/proc/self/mem`, which causes no signal; returns the unreadable ones.
pub(super) fn read_in(list: &[PageRun]) -> Vec<PageRun> {
    let Ok(memory) = File::open("/proc/self/mem") else {
        return list.to_vec();
    };
    let mut unreadable = Vec::new();
    for page in list.iter().flat_map(|run| run.start.0..run.end()) {
        if memory
            .read_exact_at(&mut [0], PageIndex(page).addr())
            .is_err()
        {
            pages::push(&mut unreadable, PageRun::between(page, page + 1));
        }
    }
    unreadable
}

fn populate_read(run: PageRun) -> bool {
    let range = run.range();
    let start = range.start as *mut libc::c_void;
    // SAFETY: MADV_POPULATE_READ makes pages present, and changes no content.
    let rc = unsafe { libc::madvise(start, range.len() as usize, libc::MADV_POPULATE_READ) };
    // Kernels before 5.14 do not have the advice, and fail with EINVAL. The pages need not be made
    // present there: only newer kernels have markers for write protection, which look like swapped
    // pages.
    rc == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;
    use crate::kernel::Region;
    use crate::observe::PageScanner;
    use crate::pagemap_entries::read_entries;
    use crate::pages::AddrRange;
    use std::os::fd::AsRawFd;

    /// A mapping has four pages and its file two; two pages become present.
    ///
    /// The other two are reported as unreadable.
    #[test]
    fn pages_beyond_the_end_of_the_file_are_reported() {
        let name = std::env::temp_dir().join(format!("understudy-read-in-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&name)
            .unwrap();
        std::fs::remove_file(&name).unwrap();
        file.set_len(2 * PAGE_SIZE as u64).unwrap();
        let (length, fd) = (4 * PAGE_SIZE, file.as_raw_fd());
        // SAFETY: mmap(2) creates a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                fd,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let range = AddrRange::new(at as u64, at as u64 + length as u64);
        let first = range.pages().start.0;
        assert_eq!(
            read_in(&[range.pages()]),
            [PageRun::between(first + 2, first + 4)]
        );
        let mut regions = Vec::new();
        read_entries(
            PageScanner::open().unwrap().pagemap().file(),
            range,
            &mut regions,
        )
        .unwrap();
        let present = pages::normalise(regions.iter().map(Region::pages).collect());
        assert_eq!(present, [PageRun::between(first, first + 2)]);
        // SAFETY: unmaps the mapping of this test.
        unsafe { libc::munmap(range.start as *mut libc::c_void, range.len() as usize) };
    }
}
