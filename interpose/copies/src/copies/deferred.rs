//! Replicas that a recovery leaves to the next checkpoint, after the program has resumed.
//!
//! A buddy that has died with its node leaves its workers without a replica. The next checkpoint
//! sends their whole images to the replacement of the buddy. Until the commit of that checkpoint
//! the replacement reports that it lacks these replicas, and so does every record of its store.

use super::own_replica::replicas;
use super::replica::Replica;
use crate::{Runtime, process_info, world};
use understudy_settings::{Interval, StaticData};

/// Returns the layers (`1 << layer`) of which `stored` lacks the replica of the epoch of `own`.
///
/// Parity lacks nothing, because it is never deferred.
pub fn lacking(rt: &Runtime, own: &Replica, stored: &[Replica]) -> u64 {
    if world::get(rt).redundancy.is_parity() {
        return 0;
    }
    let epoch = own.image.epoch();
    let bit = |(layer, copy): (usize, &Replica)| u64::from(copy.image.epoch() != epoch) << layer;
    stored.iter().enumerate().map(bit).sum()
}

/// Returns the layers (`1 << layer`) whose replica this worker does not store.
pub fn lacking_layers(rt: &Runtime) -> u64 {
    let keep = rt.copies.keep.borrow();
    keep.as_ref()
        .map_or(0, |keep| lacking(rt, &keep.own, &keep.stored))
}

/// True if this process permits that lost replicas are deferred.
///
/// The next checkpoint then comes at the next call, and the worker's own replica has all pages.
pub fn can_defer(rt: &Runtime) -> bool {
    let config = process_info::config();
    let has_interval = matches!(config.interval, Interval::Time(_) | Interval::Auto);
    let is_whole = |own: &Replica| own.replay_plan.is_none() && own.image.absent().is_empty();
    has_interval
        && config.static_data == StaticData::Image
        && rt
            .copies
            .keep
            .borrow()
            .as_ref()
            .is_none_or(|keep| is_whole(&keep.own))
}

/// Makes the next checkpoint send whole images to these layers, and receive others (`1 << layer`).
pub fn defer(rt: &Runtime, [sent, received]: [u64; 2]) {
    let keep = &mut *replicas(rt);
    keep.whole_layers = sent;
    for (layer, copy) in keep.stored.iter_mut().enumerate() {
        if received & (1 << layer) != 0 {
            copy.replace(Replica::default(), &mut keep.store);
        }
    }
}

/// True if a buddy lacks the replica of this worker.
///
/// False while a pending checkpoint sends it.
pub fn needs_checkpoint(rt: &Runtime) -> bool {
    let keep = rt.copies.keep.borrow();
    keep.as_ref()
        .is_some_and(|keep| keep.whole_layers != 0 && keep.pending.is_none())
}
