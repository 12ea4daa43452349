//! The entry of a blocking collective where several threads call MPI at the same time.
//!
//! The calling thread waits outside, and gives way to others, until all members have come and would
//! enter ([`understudy_policy::gathering::Gatherings`] has the rules). A failure meanwhile makes
//! all of that void: set back to a cut, they come again. So no cut is put off by those who wait
//! here, and here they may agree on one at any call.
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

/// What it means if the members of a collective cannot say whether they enter.
const NO_WORD: &str = "the members of a collective cannot agree on when to enter";
/// Stands for a collective of the runtime itself; no communicator has it.
const OWN: u64 = u64::MAX;

/// Returns when all members of a communicator have come and enter next what follows this, which
/// cannot be left half-way.
#[inline]
pub fn together(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if attention::is_multiple() {
        come(rt, comm)?;
        // Attempts to agree on a cut may have begun since the entry of the call.
        leave(rt)
    } else {
        Ok(())
    }
}

/// The same where they may still wait for a cut.
#[inline]
pub(super) fn come_together(rt: &Runtime, comm: VirtComm) -> Result<(), Rewound> {
    if attention::is_multiple() {
        come(rt, comm)
    } else {
        Ok(())
    }
}

/// The same for all workers, where the program says that all are at the same place.
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
    // If it is none, the library says so; spawned processes say nothing before they enter.
    let known = comm::get(rt, handle).filter(|comm| !comm.has_spawned());
    let Some((uid, is_inter)) = known.map(|comm| (comm.uid, comm.remote.is_some())) else {
        return Ok(());
    };
    match is_inter {
        // What a reduction over two groups finds is of the other one.
        true => assemble::come(rt, || comm::get(rt, handle).map(|comm| both_groups(&comm))),
        false => gather(rt, real_comm(rt, handle), uid),
    }
}

/// All processes of an intercommunicator.
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

/// Gives this process's word on a collective.
fn say(rt: &Runtime, thread: usize, real: RealComm, would_enter: bool) -> mpi::Result<()> {
    let mut numbers = Lent::new(Box::new([u64::from(would_enter), 0]));
    // SAFETY: the numbers stay where they are until the request has ended.
    let request = unsafe { real.start_least(&raw mut **numbers) }?;
    schedule::state(rt).words.push(Word {
        thread,
        numbers,
        request,
    });
    Ok(())
}

/// Whether all members would enter, if all have said so.
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
