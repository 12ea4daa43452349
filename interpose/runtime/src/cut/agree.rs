//! Agreement of all workers at a cut, as in [`understudy_policy::cut_agreement`].

use super::shared_mappings::first_sharer;
use crate::arch::Rewound;
use crate::disk;
use crate::gather::gather_from_all;
use crate::headroom;
use crate::objects::comm::freed;
use crate::static_data::new_phases;
use crate::{Runtime, recovery};
use crate::{copies, drained, journal, reinit, requested_checkpoint, requests, user, world};
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_policy::cut_agreement::{
    CutAbility, CutAction, CutAgreement, CutDecision, CutEvent, CutSums, CutVote, JointVote,
    VOTE_NUMBERS,
};
use understudy_policy::memory_demand::{MemoryClaim, MemoryShortage, shortage};

/// Message for a failed exchange.
const NO_AGREEMENT: &str = "the workers cannot agree on a checkpoint";

/// Agrees with all workers on whether a checkpoint is taken here.
///
/// `is_regular` is as in [`journal::may_end`]. `None` at a cut that is not at a cut point, where no
/// set-up phase ends or begins. The votes contain the requests of all workers.
pub fn agree(
    rt: &Runtime,
    ability: CutAbility,
    is_regular: Option<bool>,
) -> Result<(CutDecision, JointVote), Rewound> {
    recovery::end_if_directory_is_lost(rt, false);
    let mappings = user::shared_mappings(rt);
    let claim = match ability {
        CutAbility::Now => copies::claim(rt),
        _ => MemoryClaim::NONE,
    };
    let own = own_vote(rt, ability, is_regular, mappings.len() as u64, &claim);
    let (freed_here, freed) =
        freed::freed_within(rt, None, |comm| drained::is_comm_in_use(rt, comm));
    let started = requests::sum_of_started(rt);
    let reduced = reduce(rt, &own, CutSums { started, freed });
    let (votes, sums) = recovery::check_own(rt, reduced, NO_AGREEMENT)?;
    let (agreement, mut action) = CutAgreement::begin(votes, sums);
    let decision = loop {
        let event = match action {
            CutAction::CompareMappings { most } => {
                first_sharer(rt, &mappings, most).map(CutEvent::Mappings)
            }
            CutAction::GatherClaims => gather_claims(rt, &claim).map(CutEvent::Claims),
            CutAction::End(decision) => break decision,
        };
        action = agreement.step(recovery::check_own(rt, event, NO_AGREEMENT)?);
    };
    if decision == CutDecision::Take {
        if sums.freed == 0 {
            freed::remove(rt, &freed_here);
        }
        let (worker, world) = (world::worker(rt), world::get(rt));
        let epoch = copies::next_epoch(rt);
        disk::evaluate_reports(
            rt,
            votes.disk,
            worker,
            epoch,
            world.recoveries,
            votes.request.is_some(),
        );
        journal::set_agreed(rt, votes.may_end_phase);
        new_phases::set_agreed(rt, votes.may_begin_phase);
    }
    Ok((decision, votes))
}

fn own_vote(
    rt: &Runtime,
    ability: CutAbility,
    is_regular: Option<bool>,
    shared_mappings: u64,
    claim: &MemoryClaim,
) -> CutVote {
    let (epoch, world) = (copies::next_epoch(rt), world::get(rt));
    CutVote {
        ability,
        may_end_phase: is_regular.is_some_and(|is_regular| journal::may_end(rt, is_regular)),
        may_begin_phase: is_regular.is_some() && new_phases::may_begin(rt),
        shared_mappings,
        disk: disk::report(rt, &mut copies::replicas(rt).store, epoch),
        request: requested_checkpoint::pending(),
        leave_order: reinit::order_to_leave().unwrap_or(0),
        captured_pages: claim.captured,
        pages_for_each: claim.pages_for_each(&world.redundancy, headroom::workers_on_node(rt)),
    }
}

/// Reduces the votes and sums of all workers.
fn reduce(rt: &Runtime, own: &CutVote, sums: CutSums) -> mpi::Result<(JointVote, CutSums)> {
    let private = world::private(rt);
    let numbers = own.numbers(world::worker(rt));
    let maxima = private.allreduce_min_max(Extreme::Greatest, &numbers)?;
    let maxima: [u64; VOTE_NUMBERS] = maxima.try_into().map_err(|_| mpi::Error::INTERN)?;
    let sums = private.allreduce_sum(&[sums.started, sums.freed])?;
    let [started, freed] = sums.try_into().map_err(|_| mpi::Error::INTERN)?;
    Ok((JointVote::from_maxima(maxima), CutSums { started, freed }))
}

fn gather_claims(rt: &Runtime, own: &MemoryClaim) -> mpi::Result<Option<MemoryShortage>> {
    let claims = gather_from_all(world::private(rt), own)?;
    let world = world::get(rt);
    let node_of = |worker| world.node_of(worker);
    Ok(shortage(&world.redundancy, node_of, &claims))
}
