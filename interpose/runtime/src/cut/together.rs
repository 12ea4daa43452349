//! Entry of blocking collectives if several threads call MPI simultaneously.
//!
//! The calling thread waits outside, and yields to other threads, until all members have arrived
//! and would enter ([`understudy_policy::gathering::EntryVotes`] has the rules). The checkpoint of
//! a cut does not contain these agreements: after a rollback to the cut, the threads repeat their
//! calls and agree again. A thread that waits here therefore never postpones a cut, and can take
//! part in an agreement on a cut at any call.

use super::anywhere::{leave, poll_agreement};
use super::assemble;
use crate::Runtime;
use crate::arch::{Rewound, mpi_lock};
use crate::handles::{VirtComm, real_comm};
use crate::objects::comm::{self, Comm};
use crate::schedule::{self, CollectiveVote, Side};
use crate::{recovery, work_flags, world};
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Message for a failed exchange between the members of a collective.
const EXCHANGE_FAILED: &str = "the members of a collective cannot agree on when to enter";
/// Key of a collective of the runtime itself, which no communicator has.
const RUNTIME_COLLECTIVE: u64 = u64::MAX;

/// Returns when all members of a communicator have arrived and enter this call next.
///
/// The call cannot be left before it is complete. Returns at once unless several threads may call
/// MPI concurrently.
#[inline]
pub fn together(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if work_flags::is_multiple() {
        gather_members(rt, comm)?;
        // An agreement on a cut may have started since the entry of the call.
        leave(rt)
    } else {
        Ok(())
    }
}

/// Implements [`together`] for a call that may still wait for a cut.
#[inline]
pub(super) fn gather_before_cut(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if work_flags::is_multiple() {
        gather_members(rt, comm)
    } else {
        Ok(())
    }
}

/// Returns when all workers have arrived at a point that the program names.
pub fn all_together(rt: &Runtime) -> Result<(), Rewound> {
    if work_flags::is_multiple() {
        gather(rt, world::private(rt), RUNTIME_COLLECTIVE)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn gather_members(rt: &Runtime, handle: VirtComm) -> Result<(), Rewound> {
    // The library reports an invalid handle. Spawned processes take no part in this exchange.
    let known = comm::get(rt, handle).filter(|comm| !comm.has_spawned());
    let Some((uid, is_inter)) = known.map(|comm| (comm.uid, comm.remote.is_some())) else {
        return Ok(());
    };
    match is_inter {
        // A reduction over an intercommunicator returns the result of the other group only.
        true => assemble::assemble_before_cut(rt, || {
            comm::get(rt, handle).map(|comm| both_groups(&comm))
        }),
        false => gather(rt, real_comm(rt, handle), uid),
    }
}

/// Returns the side with all processes of an intercommunicator.
fn both_groups(comm: &Comm) -> Side {
    let members: Vec<Worker> = comm.workers().collect();
    Side {
        name: comm.uid,
        leader: members.iter().copied().min().unwrap_or(Worker(0)),
        members,
        other: None,
    }
}

fn gather(rt: &Runtime, real: RealComm, uid: u64) -> Result<(), Rewound> {
    let thread = mpi_lock::current_block();
    let is_waiting = schedule::state(rt)
        .collective_votes
        .iter()
        .any(|vote| vote.thread == thread);
    if !is_waiting {
        let would_enter = schedule::state(rt)
            .gatherings
            .arrive(uid, !work_flags::is_set(work_flags::MULTIPLE_THREADS));
        recovery::check_own(
            rt,
            send_vote(rt, thread, real, would_enter),
            EXCHANGE_FAILED,
        )?;
    }
    loop {
        match recovery::check_own(rt, poll_vote(rt, thread), EXCHANGE_FAILED)? {
            None => {}
            Some(false) => {
                let would_enter = schedule::state(rt).gatherings.next_vote(uid);
                recovery::check_own(
                    rt,
                    send_vote(rt, thread, real, would_enter),
                    EXCHANGE_FAILED,
                )?;
            }
            Some(true) => {
                schedule::state(rt).gatherings.enter(uid);
                return Ok(());
            }
        }
        poll_agreement(rt)?;
        mpi_lock::yield_lock()?;
    }
}

/// Sends this process's vote on a collective.
fn send_vote(rt: &Runtime, thread: usize, real: RealComm, would_enter: bool) -> mpi::Result<()> {
    let numbers = real.start_allreduce_min(u64::from(would_enter))?;
    schedule::state(rt)
        .collective_votes
        .push(CollectiveVote { thread, numbers });
    Ok(())
}

/// Returns true if all members would enter; `None` if not all have voted.
fn poll_vote(rt: &Runtime, thread: usize) -> mpi::Result<Option<bool>> {
    let state = &mut *schedule::state(rt);
    let Some(at) = state
        .collective_votes
        .iter()
        .position(|vote| vote.thread == thread)
    else {
        return Ok(None);
    };
    let Some(numbers) = state.collective_votes[at].numbers.poll()? else {
        return Ok(None);
    };
    state.collective_votes.swap_remove(at);
    Ok(Some(numbers[1] != 0))
}
