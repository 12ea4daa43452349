//! Requests of the program after a rollback.

use super::failure_class::failure_class;
use super::partitioned;
use crate::Runtime;
use crate::abi;
use crate::errors::SUCCESS;
use crate::gather::gather_from_all;
use crate::objects::comm::freed;
use crate::requests::{self, RequestIdentity, RequestKind, RequestState};
use crate::{copies, fault, posting, world};
use std::collections::HashMap;
use std::ffi::c_int;
use understudy_mpi as mpi;

/// Recreates the real requests of the restored records.
///
/// Receives are posted in their original order.
///
/// # Errors
/// Fails if a process has failed. Other errors are ignored: these calls have succeeded before.
pub fn repost(rt: &Runtime) -> mpi::Result<()> {
    let check = |rc: c_int| mpi::check(failure_class(rc).unwrap_or(SUCCESS));
    let indices = requests::table(rt).by_age();
    for index in indices {
        let Some((kind, state)) =
            requests::get(rt, index).map(|request| (request.kind, request.state))
        else {
            continue;
        };
        fault::point("repost.begin", copies::committed_epoch(rt));
        match kind {
            RequestKind::Receive(message_arguments) if state == RequestState::Active => {
                let (state, real_request, rc) = posting::receive(rt, message_arguments);
                check(rc)?;
                requests::set_real(rt, index, real_request);
                requests::set_state(rt, index, state);
            }
            RequestKind::PersistentSend(..) | RequestKind::PersistentReceive(_) => {
                let (real_request, rc) = posting::create_persistent(rt, &kind);
                check(rc)?;
                requests::set_real(rt, index, real_request);
                // The request is a receive, since all sends have completed at a cut.
                if state == RequestState::Active {
                    check(posting::start_in_place(rt, index))?;
                }
            }
            _ => {}
        }
    }
    freed::free_after_recovery(rt, |comm| requests::has_requests_on(rt, comm));
    Ok(())
}

/// Recreates requests with recipes, none of which is active at a cut.
///
/// A request is recreated if no participant has freed it. The order is that of the calls that made
/// the requests.
///
/// # Errors
/// Fails with the error of a real procedure.
pub fn recreate_recorded(rt: &Runtime) -> mpi::Result<()> {
    let mut wanted: Vec<(u64, u32)> = {
        let table = requests::table(rt);
        let requests = table.iter();
        let number = |kind: &RequestKind| match kind {
            RequestKind::Recorded(number) => Some(*number),
            _ => None,
        };
        requests
            .filter_map(|(index, request)| Some((number(&request.kind)?, index)))
            .collect()
    };
    wanted.sort_unstable();
    let identity = |number: u64| requests::recipe(rt, number).map(|recipe| recipe.identity);
    let own: Vec<RequestIdentity> = wanted
        .iter()
        .filter_map(|&(number, _)| identity(number))
        .collect();
    let mut counts: HashMap<RequestIdentity, usize> = HashMap::new();
    for theirs in gather_from_all(world::get(rt).private, &own)? {
        for identity in theirs {
            *counts.entry(identity).or_default() += 1;
        }
    }
    let mut made = Vec::new();
    for (number, index) in wanted {
        let Some(recipe) = requests::recipe(rt, number).map(|recipe| recipe.clone()) else {
            continue;
        };
        let owners = counts.get(&recipe.identity).copied().unwrap_or(0);
        if owners < recipe.members as usize {
            log::debug!("request {index} is not created again: it was freed");
            continue;
        }
        let (real, kept, rc) = posting::create_recorded(rt, &recipe);
        mpi::check(rc)?;
        requests::set_real(rt, index, real);
        requests::keep_for(rt, index, kept);
        made.push((real, recipe));
    }
    match abi::is_foreign_abi() {
        true => Ok(()),
        false => partitioned::use_once(rt, &made),
    }
}
