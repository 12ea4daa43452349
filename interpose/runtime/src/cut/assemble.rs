//! Entry of constructors without a common communicator, and of collectives of two groups.
//!
//! As in [`super::together`], the calling thread waits outside, and yields to other threads. The
//! rules are those of [`Assemblies`](crate::schedule::Assemblies).

use super::anywhere::{leave, look};
use crate::Runtime;
use crate::arch::{Rewound, turn};
use crate::own_messages::{self, Peer, tag};
use crate::schedule::{self, AssemblyWord, Side};
use crate::{attention, recovery, world};
use bincode::config::standard;
use understudy_mpi as mpi;
use understudy_numbers::Worker;

/// Message for a failed exchange between the callers of a constructor.
const NO_WORD: &str = "the processes of a constructor cannot agree on when to enter";

/// Returns when all processes of both sides have arrived and enter this call next.
///
/// The call cannot be left before it is complete. `side` is called once; if it returns `None`, the
/// call is entered at once.
pub fn assemble(rt: &Runtime, side: impl FnOnce() -> Option<Side>) -> Result<(), Rewound> {
    if !attention::is_multiple() {
        return Ok(());
    }
    come(rt, side)?;
    leave(rt)
}

/// Implements [`assemble`] for a call that may still wait for a cut.
pub(super) fn come(rt: &Runtime, side: impl FnOnce() -> Option<Side>) -> Result<(), Rewound> {
    let (me, thread) = (world::worker(rt), turn::block());
    let has_come = schedule::state(rt).assemblies.has(thread);
    if !has_come {
        let Some(side) = side() else { return Ok(()) };
        schedule::state(rt).assemblies.come(me, thread, side);
    }
    loop {
        let enters = recovery::check_own(rt, go_on(rt, me, thread), NO_WORD)?;
        if enters {
            return Ok(());
        }
        look(rt)?;
        turn::give_way()?;
    }
}

/// Exchanges messages and makes progress; returns true if this thread may enter.
fn go_on(rt: &Runtime, me: Worker, thread: usize) -> mpi::Result<bool> {
    while let Some((from, word)) = hear(rt)? {
        schedule::state(rt).assemblies.hear(from, word);
    }
    let (enters, told) = {
        let state = &mut *schedule::state(rt);
        let enters = state.assemblies.go_on(me, thread, &mut state.gatherings);
        state.told.sweep()?;
        (enters, state.assemblies.told())
    };
    for (to, word) in told {
        tell(rt, to, &word)?;
    }
    Ok(enters)
}

fn tell(rt: &Runtime, rank: Worker, word: &AssemblyWord) -> mpi::Result<()> {
    let bytes = bincode::encode_to_vec(word, standard()).map_err(|_| mpi::Error::INTERN)?;
    let to = Peer {
        comm: world::private(rt),
        rank,
        tag: tag::ASSEMBLE,
    };
    schedule::state(rt).told.send(bytes, [to])
}

/// Returns the next message that has arrived.
fn hear(rt: &Runtime) -> mpi::Result<Option<(Worker, AssemblyWord)>> {
    let Some((from, bytes)) = own_messages::next(world::private(rt), tag::ASSEMBLE)? else {
        return Ok(None);
    };
    let (word, _) =
        bincode::decode_from_slice(&bytes, standard()).map_err(|_| mpi::Error::INTERN)?;
    Ok(Some((from, word)))
}
