//! Pages of another worker's replica that are equal to pages of this process.

use super::replicas::Replicas;
use crate::{process_info, system_calls, world};
use understudy_job::Runtime;
use understudy_policy::query_policy::MIN_QUERIED_PAGES;
use understudy_settings::SharedPages;

/// Makes a replica that was received whole refer to the own image for equal pages.
///
/// The memory that the replica used for these pages is returned to the kernel.
pub fn share_equal_pages(rt: &Runtime, keep: &mut Replicas, layer: usize) {
    if process_info::config().shared_pages == SharedPages::Never
        || world::get(rt).redundancy.is_parity()
    {
        return;
    }
    let pages = keep.stored[layer]
        .image
        .share_equal_pages(&keep.own.image, &mut keep.store);
    let others = keep.store.idle().saturating_sub(pages);
    if pages >= MIN_QUERIED_PAGES
        && let Err(error) = keep.store.give_back(others)
    {
        log::debug!(
            "memory of replicas is not freed: {}",
            system_calls::error_chain(&error)
        );
    }
}
