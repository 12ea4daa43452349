//! Static data in a worker's own memory, which its own replica omits until they change.

use super::rebuild::{ReducedReplicaPlan, collect};
use super::rebuilt_pages;
use crate::Runtime;
use crate::copies::ReplayPlan;
use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::image_delta::Image;
use understudy_image::pages;
use understudy_image::process_memory;
use understudy_image::store::PageStore;
use understudy_image::sums::page_sum;

/// Rebuilds missing pages, and stores them in the image.
pub fn rebuild(
    rt: &Runtime,
    missing: &[PageSums],
    plan: &ReplayPlan,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    let pages = absent_pages::pages_of(missing);
    log::debug!("{} pages of static data are rebuilt", pages::total(&pages));
    let request = rt.static_data.template.request_pages(plan, &pages)?;
    collect(rt, missing, plan, request, image, store)
}

/// Adds the pages that the received image omits.
///
/// Pages that this process has not changed since the phase are copied from its memory.
pub fn from_own_memory(
    rt: &Runtime,
    offer: &ReducedReplicaPlan,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    image.add_absent(offer.absent());
    let changed = store_unchanged(offer.absent(), image, store)?;
    rebuild(rt, &changed, offer.plan(), image, store)
}

/// Stores the pages that are unchanged since the epoch; returns all other pages.
pub fn store_unchanged(
    absent: &[PageSums],
    image: &mut Image,
    store: &mut PageStore,
) -> Result<Vec<PageSums>, String> {
    let (mut equal, mut changed, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut content = [0u8; PAGE_SIZE];
    for (page, sum) in absent.iter().flat_map(PageSums::each) {
        if process_memory::read_own_memory(page.addr(), &mut content)
            && page_sum(page, &content) == sum
        {
            bytes.extend_from_slice(&content);
            absent_pages::push(&mut equal, page, &[sum]);
        } else {
            absent_pages::push(&mut changed, page, &[sum]);
        }
    }
    rebuilt_pages::add(&equal, &bytes, image, store)?;
    Ok(changed)
}
