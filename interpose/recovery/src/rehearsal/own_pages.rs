//! Static data in a worker's own memory, which its own replica omits until they change.

use super::rebuild::{Offer, collect};
use super::wanted;
use crate::Runtime;
use crate::copies::Script;
use understudy_image::PAGE_SIZE;
use understudy_image::absent::{self, Sums};
use understudy_image::epoch::Image;
use understudy_image::own_memory;
use understudy_image::runs;
use understudy_image::store::PageStore;
use understudy_image::sums::of_page;

/// Rebuilds missing pages, and stores them in the image.
pub fn put_back(
    rt: &Runtime,
    missing: &[Sums],
    script: &Script,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    let pages = absent::pages_of(missing);
    log::debug!("{} pages of static data are rebuilt", runs::total(&pages));
    let asked = rt.rehearsal.seed.make(script, &pages)?;
    collect(rt, missing, script, asked, image, store)
}

/// Adds the pages that the received image omits.
///
/// Pages that this process has not changed since the phase are copied from its memory.
pub fn from_own_memory(
    rt: &Runtime,
    offer: &Offer,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    image.lack(offer.absent());
    let changed = keep_unchanged(offer.absent(), image, store)?;
    put_back(rt, &changed, offer.script(), image, store)
}

/// Stores the pages that are as in the epoch in this process; returns the others.
pub fn keep_unchanged(
    absent: &[Sums],
    image: &mut Image,
    store: &mut PageStore,
) -> Result<Vec<Sums>, String> {
    let (mut equal, mut changed, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut content = [0u8; PAGE_SIZE];
    for (page, sum) in absent.iter().flat_map(Sums::each) {
        if own_memory::read(page.addr(), &mut content) && of_page(page, &content) == sum {
            bytes.extend_from_slice(&content);
            absent::push(&mut equal, page, &[sum]);
        } else {
            absent::push(&mut changed, page, &[sum]);
        }
    }
    wanted::add(&equal, &bytes, image, store)?;
    Ok(changed)
}
