//! Requests of the program after a rollback.

use super::failure_class::failure;
use super::partitioned;
use crate::Runtime;
use crate::abi;
use crate::errors::SUCCESS;
use crate::gather::everybodys;
use crate::objects::comm::freed;
use crate::requests::{self, Identity, Kind, State};
use crate::{copies, fault, posting, world};
use std::collections::HashMap;
use std::ffi::c_int;
use understudy_mpi as mpi;

/// Recreates the real requests of the restored records.
///
/// Receives are posted in their original order.
///
/// # Errors
/// The failure of a process. Other errors are ignored: these calls have succeeded before.
pub fn repost(rt: &Runtime) -> mpi::Result<()> {
    let check = |rc: c_int| mpi::check(failure(rc).unwrap_or(SUCCESS));
    let indices = requests::table(rt).by_age();
    for index in indices {
        let Some((kind, state)) =
            requests::get(rt, index).map(|request| (request.kind, request.state))
        else {
            continue;
        };
        fault::point("repost.begin", copies::epoch(rt));
        match kind {
            Kind::Receive(envelope) if state == State::Active => {
                let (state, real_request, rc) = posting::receive(rt, envelope);
                check(rc)?;
                requests::set_real(rt, index, real_request);
                requests::set_state(rt, index, state);
            }
            Kind::PersistentSend(..) | Kind::PersistentReceive(_) => {
                let (real_request, rc) = posting::persistent(rt, &kind);
                check(rc)?;
                requests::set_real(rt, index, real_request);
                // The request is a receive, since all sends have completed at a cut.
                if state == State::Active {
                    check(posting::start_again(rt, index))?;
                }
            }
            _ => {}
        }
    }
    freed::free_again(rt, |comm| requests::are_on(rt, comm));
    Ok(())
}

/// Recreates requests with recipes, none of which is active at a cut.
///
/// A request is recreated if no participant has freed it. The order is that of the calls that made
/// them.
///
/// # Errors
/// The error of a real procedure.
pub fn make_recorded(rt: &Runtime) -> mpi::Result<()> {
    let mut wanted: Vec<(u64, u32)> = {
        let table = requests::table(rt);
        let requests = table.iter();
        let number = |kind: &Kind| match kind {
            Kind::Recorded(number) => Some(*number),
            _ => None,
        };
        requests
            .filter_map(|(index, request)| Some((number(&request.kind)?, index)))
            .collect()
    };
    wanted.sort_unstable();
    let identity = |number: u64| requests::recipe(rt, number).map(|recipe| recipe.identity);
    let own: Vec<Identity> = wanted
        .iter()
        .filter_map(|&(number, _)| identity(number))
        .collect();
    let mut holders: HashMap<Identity, usize> = HashMap::new();
    for theirs in everybodys(world::get(rt).private, &own)? {
        for identity in theirs {
            *holders.entry(identity).or_default() += 1;
        }
    }
    let mut made = Vec::new();
    for (number, index) in wanted {
        let Some(recipe) = requests::recipe(rt, number).map(|recipe| recipe.clone()) else {
            continue;
        };
        let held = holders.get(&recipe.identity).copied().unwrap_or(0);
        if held < recipe.members as usize {
            log::debug!("request {index} is not created again: it was freed");
            continue;
        }
        let (real, kept, rc) = posting::make(rt, &recipe);
        mpi::check(rc)?;
        requests::set_real(rt, index, real);
        requests::keep_for(rt, index, kept);
        made.push((real, recipe));
    }
    match abi::is_foreign() {
        true => Ok(()),
        false => partitioned::use_once(rt, &made),
    }
}
