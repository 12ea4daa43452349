//! Pages that a replay has rebuilt, and their comparison with checksums.

use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::image_delta::Image;
use understudy_image::pages::PageIndex;
use understudy_image::store::PageStore;
use understudy_image::sums::page_sum;

/// Limit of replays of a phase if pages are wrong.
///
/// A page may depend on values that differ between runs, such as a thread's timing. The trial
/// replay may have proved such a page by chance. One of a few further replays will then probably
/// rebuild the page correctly.
const MAX_REPLAYS: u32 = 12;

/// Stores the pages that `replay` rebuilds in the image, once each has been rebuilt correctly.
///
/// A result of `replay` contains the pages one after the other. If some are wrong, the replay is
/// repeated, and the pages that are right in any of the replays are collected.
pub fn collect<Rebuilt: AsRef<[u8]>>(
    pages: &[PageSums],
    mut replay: impl FnMut() -> Result<Rebuilt, String>,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let mut collected: Option<Vec<u8>> = None;
    let mut replays = 0;
    loop {
        replays += 1;
        let rebuilt = replay()?;
        let wrong = match &mut collected {
            None => {
                let wrong = wrong_in(pages, rebuilt.as_ref());
                if wrong.is_empty() {
                    return add(pages, rebuilt.as_ref(), image, store);
                }
                collected = Some(rebuilt.as_ref().to_vec());
                wrong
            }
            Some(collected) => {
                copy_right(pages, rebuilt.as_ref(), collected);
                wrong_in(pages, collected)
            }
        };
        match (wrong.first(), &collected) {
            (None, Some(collected)) => return add(pages, collected, image, store),
            (Some(page), _) if replays == MAX_REPLAYS => {
                return Err(format!(
                    "a replay gives page {:#x} another content",
                    page.addr()
                ));
            }
            _ => log::info!(
                "a replay gives {} pages another content; it is repeated",
                wrong.len()
            ),
        }
    }
}

/// Stores pages from `bytes` in the image, if all are right.
pub fn take(
    pages: &[PageSums],
    bytes: &[u8],
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    match wrong_in(pages, bytes).first() {
        Some(page) => Err(format!("page {:#x} is damaged", page.addr())),
        None => add(pages, bytes, image, store),
    }
}

/// Compares the pages in `bytes`, one after the other, with their checksums.
///
/// The result is true for a page that is right.
fn compared<'a>(
    pages: &'a [PageSums],
    bytes: &'a [u8],
) -> impl Iterator<Item = (PageIndex, bool)> + 'a {
    let contents = bytes
        .chunks_exact(PAGE_SIZE)
        .map(Some)
        .chain(std::iter::repeat(None));
    let pages = pages.iter().flat_map(PageSums::each).zip(contents);
    pages.map(|((page, sum), content)| {
        (
            page,
            content.is_some_and(|content| page_sum(page, content) == sum),
        )
    })
}

fn wrong_in(pages: &[PageSums], bytes: &[u8]) -> Vec<PageIndex> {
    let wrong = compared(pages, bytes).filter(|(_, is_right)| !is_right);
    wrong.map(|(page, _)| page).collect()
}

/// Copies the pages that are right.
fn copy_right(pages: &[PageSums], from: &[u8], to: &mut [u8]) {
    let contents = from
        .chunks_exact(PAGE_SIZE)
        .zip(to.chunks_exact_mut(PAGE_SIZE));
    for ((from, to), (_, is_right)) in contents.zip(compared(pages, from)) {
        if is_right {
            to.copy_from_slice(from);
        }
    }
}

/// Adds right pages to the image.
pub fn add(
    pages: &[PageSums],
    bytes: &[u8],
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let sums: Vec<u64> = pages.iter().flat_map(|run| &run.sums).copied().collect();
    let inserted = image.store_absent(&absent_pages::pages_of(pages), bytes, &sums, store);
    inserted.map_err(|error| error.to_string())
}
