//! Entry of blocking collectives if several threads call MPI simultaneously.
//!
//! The calling thread waits outside, and yields to other threads, until all members have arrived
//! and would enter ([`understudy_policy::gathering::Gatherings`] has the rules). A failure voids
//! these agreements: after a rollback to a cut, the threads repeat their calls. So threads that
//! wait here never postpone a cut, and can agree here on a cut at any call.
#![allow(unsafe_code)]

use super::anywhere::{leave, look};
use super::assemble;
use crate::Runtime;
use crate::arch::{Rewound, turn};
use crate::handles::{VirtComm, real_comm};
use crate::objects::comm::{self, Comm};
use crate::own_messages::Lent;
use crate::schedule::{self, Side, Word};
use crate::{attention, own_messages, recovery, world};
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Message for a failed exchange between the members of a collective.
const NO_WORD: &str = "the members of a collective cannot agree on when to enter";
/// Key of a collective of the runtime itself, which no communicator has.
const OWN: u64 = u64::MAX;

/// Returns when all members of a communicator have arrived and enter this call next.
///
/// The call cannot be left before it is complete.
#[inline]
pub fn together(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if attention::is_multiple() {
        come(rt, comm)?;
        // An agreement on a cut may have started since the entry of the call.
        leave(rt)
    } else {
        Ok(())
    }
}

/// Implements [`together`] for a call that may still wait for a cut.
#[inline]
pub(super) fn come_together(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if attention::is_multiple() {
        come(rt, comm)
    } else {
        Ok(())
    }
}

/// Returns when all workers have arrived at a point that the program names.
pub fn all_together(rt: &Runtime) -> Result<(), Rewound> {
    if attention::is_multiple() {
        gather(rt, world::private(rt), OWN)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn come(rt: &Runtime, handle: VirtComm) -> Result<(), Rewound> {
    // The library reports an invalid handle. Spawned processes take no part in this exchange.
    let known = comm::get(rt, handle).filter(|comm| !comm.has_spawned());
    let Some((uid, is_inter)) = known.map(|comm| (comm.uid, comm.remote.is_some())) else {
        return Ok(());
    };
    match is_inter {
        // A reduction over two groups returns the result of the other group only.
        true => assemble::come(rt, || comm::get(rt, handle).map(|comm| both_groups(&comm))),
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
    let thread = turn::block();
    let is_waiting = schedule::state(rt)
        .words
        .iter()
        .any(|word| word.thread == thread);
    if !is_waiting {
        let would_enter = schedule::state(rt)
            .gatherings
            .come(uid, !attention::is(attention::SEVERAL));
        recovery::check_own(rt, say(rt, thread, real, would_enter), NO_WORD)?;
    }
    loop {
        match recovery::check_own(rt, hear(rt, thread), NO_WORD)? {
            None => {}
            Some(false) => {
                let would_enter = schedule::state(rt).gatherings.again(uid);
                recovery::check_own(rt, say(rt, thread, real, would_enter), NO_WORD)?;
            }
            Some(true) => {
                schedule::state(rt).gatherings.enter(uid);
                return Ok(());
            }
        }
        look(rt)?;
        turn::give_way()?;
    }
}

/// Sends this process's vote on a collective.
fn say(rt: &Runtime, thread: usize, real: RealComm, would_enter: bool) -> mpi::Result<()> {
    let mut numbers = Lent::new(Box::new([u64::from(would_enter), 0]));
    // SAFETY: the numbers do not move until the request has completed.
    let request = unsafe { real.start_least(&raw mut **numbers) }?;
    schedule::state(rt).words.push(Word {
        thread,
        numbers,
        request,
    });
    Ok(())
}

/// Returns true if all members would enter; `None` if not all have voted.
fn hear(rt: &Runtime, thread: usize) -> mpi::Result<Option<bool>> {
    let state = &mut *schedule::state(rt);
    let Some(at) = state.words.iter().position(|word| word.thread == thread) else {
        return Ok(None);
    };
    let word = &mut state.words[at];
    if !own_messages::test(std::slice::from_mut(&mut word.request))? {
        return Ok(None);
    }
    word.numbers.give_back();
    let [_, least] = **word.numbers;
    state.words.swap_remove(at);
    Ok(Some(least != 0))
}
