//! Copies after a failure: those that died with a rank are fetched or made again.

use super::load;
use super::plan::{Held, NONE, Plan};
use crate::cell::Main;
use crate::checkpoint::{self, Transfer};
use crate::disk;
use crate::errors::SUCCESS;
use crate::image::prefault::Prefault;
use crate::image::restore::Ready;
use crate::image::wire::SendOptions;
use crate::world::{self, succeeded};
use std::ffi::c_int;

static HELD: Main<Held> = Main::new(Held::NOTHING);

/// What this spare has got in an attempt that came to nothing.
pub fn held() -> Held {
    *HELD.get()
}

/// Holder and partner of a worker.
fn buddies(me: u32) -> (u32, u32) {
    let holders = &world::get().holders;
    (holders.holder_of(me), holders.partner_of(me))
}

/// Drives a transfer to its end; `poll` is called again and again meanwhile.
fn drive(
    transfer: &mut Transfer,
    to: Option<u32>,
    from: Option<u32>,
    mut poll: impl FnMut(&Transfer),
) -> Result<(), c_int> {
    let mut rc = transfer.start(world::private(), to, from);
    while rc == SUCCESS && !transfer.is_done() {
        rc = transfer.poll(&mut checkpoint::keep().store);
        poll(transfer);
    }
    if rc != SUCCESS {
        super::attempt::revoke_all();
        transfer.quiesce(super::DRAIN_LIMIT);
    }
    succeeded(rc)
}

/// The holders send the dead workers' copies to those who take their parts and do not have them. Such a process makes
/// memory ready for it meanwhile.
pub fn fetch(plan: &Plan, me: u32) -> Result<Option<Ready>, c_int> {
    let (holder, partner) = buddies(me);
    let keep = checkpoint::keep();
    let mut ready = None;
    if plan.takeover(me).is_some_and(|takeover| !takeover.has_own) {
        *HELD.get() = Held::NOTHING;
        let mut transfer = Transfer::receive_only();
        drive(&mut transfer, None, Some(holder), |transfer| {
            if let (None, Some((header, state))) = (&ready, transfer.head()) {
                ready = Some(load::prepare(header, state));
            }
        })?;
        if let Some(payload) = transfer.take_received() {
            payload
                .apply(&mut keep.own, &mut keep.store)
                .unwrap_or_else(|error| checkpoint::fail("the copy of the dead rank is damaged", &error));
        }
        *HELD.get() = Held {
            own: u64::from(me),
            partner: NONE,
            epoch: plan.epoch,
        };
    }
    if plan.takeover(partner).is_some_and(|takeover| !takeover.has_own) {
        let outgoing = keep.partner.image.outgoing(&keep.store, SendOptions::default());
        let mut transfer = Transfer::new(outgoing, keep.partner.state.clone());
        drive(&mut transfer, Some(partner), None, |_| ())?;
    }
    Ok(ready)
}

/// Begins to make memory present for the copy that a new player will keep for its partner, which is about as long as its
/// own.
pub fn expect_partner(plan: &Plan, me: u32) -> Option<Prefault> {
    plan.takeover(me).filter(|takeover| !takeover.has_partner)?;
    let keep = checkpoint::keep();
    let pages = keep.own.image.page_count();
    Some(Prefault::start(keep.store.upcoming(pages)))
}

/// What was read from the disk is this rank's own epoch.
pub fn fetch_from_disk() {
    *HELD.get() = Held::NOTHING;
    if let Some(loaded) = disk::take_chosen() {
        checkpoint::replace_own(loaded.image, loaded.state);
    }
}

/// Copies that died with their holder are made again: the partner of each understudy sends it its own.
pub fn protect_again(plan: &Plan, me: u32) -> Result<(), c_int> {
    // What is kept for partners is of another epoch if that is one from the disk.
    let lacks_it = |worker| plan.lost.is_some() || plan.takeover(worker).is_some_and(|takeover| !takeover.has_partner);
    protect(lacks_it, me)
}

/// Sends the own copy to the holder if it lacks it, and receives the partner's likewise.
pub fn protect(lacks_it: impl Fn(u32) -> bool, me: u32) -> Result<(), c_int> {
    let (holder, partner) = buddies(me);
    let to = lacks_it(holder).then_some(holder);
    let from = lacks_it(me).then_some(partner);
    if to.is_none() && from.is_none() {
        return Ok(());
    }
    let keep = checkpoint::keep();
    let mut transfer = match to {
        Some(_) => Transfer::new(
            keep.own.image.outgoing(&keep.store, SendOptions::default()),
            keep.own.state.clone(),
        ),
        None => Transfer::receive_only(),
    };
    drive(&mut transfer, to, from, |_| ())?;
    if let Some(payload) = transfer.take_received() {
        payload
            .apply(&mut keep.partner, &mut keep.store)
            .unwrap_or_else(|error| checkpoint::fail("the partner's copy is damaged", &error));
        HELD.get().partner = u64::from(partner);
    }
    Ok(())
}
