//! Pages that a replay makes, and their comparison with checksums.

use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::image_delta::Image;
use understudy_image::pages::PageIndex;
use understudy_image::store::PageStore;
use understudy_image::sums::page_sum;

/// Limit of replays of a phase if pages are wrong.
///
/// A page that depends on values which differ between runs may have been proved by chance, and may
/// be right by chance in another replay.
const MAX_REPLAYS: u32 = 12;

/// Stores pages that `replay` makes in the image, if all are right.
///
/// The results have the pages one after the other.
pub fn collect<Made: AsRef<[u8]>>(
    pages: &[PageSums],
    mut replay: impl FnMut() -> Result<Made, String>,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let mut collected: Option<Vec<u8>> = None;
    let mut number = 0;
    loop {
        number += 1;
        let made = replay()?;
        let wrong = match &mut collected {
            None => {
                let wrong = wrong_in(pages, made.as_ref());
                if wrong.is_empty() {
                    return add(pages, made.as_ref(), image, store);
                }
                collected = Some(made.as_ref().to_vec());
                wrong
            }
            Some(collected) => {
                take_right(pages, made.as_ref(), collected);
                wrong_in(pages, collected)
            }
        };
        match (wrong.first(), &collected) {
            (None, Some(collected)) => return add(pages, collected, image, store),
            (Some(page), _) if number == MAX_REPLAYS => {
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

/// Compares pages with their checksums, in contents that have one after the other.
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
fn take_right(pages: &[PageSums], from: &[u8], to: &mut [u8]) {
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
