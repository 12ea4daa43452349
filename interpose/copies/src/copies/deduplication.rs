//! Pages of another worker's replica that are equal to pages of this process.

use super::replicas::Replicas;
use crate::{sys, told, world};
use understudy_job::Runtime;
use understudy_policy::habit::FEW;
use understudy_settings::SharedPages;

/// Makes a replica that was received whole refer to the own image for equal pages.
///
/// The memory of these pages is returned to the kernel.
pub fn share(rt: &Runtime, keep: &mut Replicas, layer: usize) {
    if told::config().shared_pages == SharedPages::Never || world::get(rt).redundancy.is_parity() {
        return;
    }
    let pages = keep.partners[layer]
        .image
        .refer_to(&keep.own.image, &mut keep.store);
    let others = keep.store.idle().saturating_sub(pages);
    if pages >= FEW
        && let Err(error) = keep.store.give_back(others)
    {
        log::debug!("memory of replicas is not freed: {}", sys::chain(&error));
    }
}
