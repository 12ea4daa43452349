//! Entries of `/proc/self/pagemap`, for kernels without `PAGEMAP_SCAN`.

use super::PAGE_SIZE;
use super::kernel::{Region, category as cat};
use super::pages::{AddrRange, PageIndex};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Appends the present and swapped pages of a range; every page counts as written.
pub(super) fn read_entries(file: &File, range: AddrRange, out: &mut Vec<Region>) -> io::Result<()> {
    const ENTRIES: usize = 8192;
    let mut buffer = vec![0_u8; ENTRIES * 8];
    let pages = range.pages();
    let mut at = pages.start.0;
    while at < pages.end() {
        let n = (pages.end() - at).min(ENTRIES as u64) as usize;
        file.read_exact_at(&mut buffer[..n * 8], at * 8)?;
        for (entry, page) in buffer[..n * 8].chunks_exact(8).zip(at..) {
            let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            let categories = categories_of_entry(entry);
            if categories & (cat::PRESENT | cat::SWAPPED) == 0 {
                continue;
            }
            let start = PageIndex(page).addr();
            let end = start + PAGE_SIZE as u64;
            match out.last_mut() {
                Some(r) if r.end == start && r.categories == categories => r.end = end,
                _ => out.push(Region {
                    start,
                    end,
                    categories,
                }),
            }
        }
        at += n as u64;
    }
    Ok(())
}

/// Converts the bits of an entry: <https://docs.kernel.org/admin-guide/mm/pagemap.html>.
fn categories_of_entry(entry: u64) -> u64 {
    let bits = [
        (63, cat::PRESENT),
        (62, cat::SWAPPED),
        (61, cat::FILE),
        (58, cat::GUARD),
    ];
    let set = bits.iter().filter(|(bit, _)| entry >> bit & 1 == 1);
    set.fold(cat::WRITTEN, |all, (_, category)| all | category)
}
