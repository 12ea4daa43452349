//! Entry of constructors without a common communicator, and of collectives of intercommunicators.
//!
//! The calling thread waits outside, and yields to other threads, as in [`mod@super::together`].
//! The rules are those of [`Assemblies`](crate::schedule::Assemblies).

use super::anywhere::{leave, poll_agreement};
use crate::Runtime;
use crate::arch::{Rewound, mpi_lock};
use crate::control_messages::{self, Peer, tag};
use crate::schedule::{self, AssemblyMessage, Side};
use crate::{recovery, work_flags, world};
use bincode::config::standard;
use understudy_mpi as mpi;
use understudy_numbers::Worker;

/// Message for a failed exchange between the callers of a constructor.
const EXCHANGE_FAILED: &str = "the processes of a constructor cannot agree on when to enter";

/// Returns when all processes of both sides have arrived and enter this call next.
///
/// The call cannot be left before it is complete. `side` is called when the thread arrives; if
/// `side` returns `None`, the function returns at once. It also returns at once unless several
/// threads may call MPI concurrently.
pub fn assemble(rt: &Runtime, side: impl FnOnce() -> Option<Side>) -> Result<(), Rewound> {
    if !work_flags::is_multiple() {
        return Ok(());
    }
    assemble_before_cut(rt, side)?;
    leave(rt)
}

/// Implements [`assemble`] for a call that may still wait for a cut.
pub(super) fn assemble_before_cut(
    rt: &Runtime,
    side: impl FnOnce() -> Option<Side>,
) -> Result<(), Rewound> {
    let (me, thread) = (world::worker(rt), mpi_lock::current_block());
    let has_arrived = schedule::state(rt).assemblies.is_pending(thread);
    if !has_arrived {
        let Some(side) = side() else { return Ok(()) };
        schedule::state(rt).assemblies.arrive(me, thread, side);
    }
    loop {
        let enters = recovery::check_own(rt, make_progress(rt, me, thread), EXCHANGE_FAILED)?;
        if enters {
            return Ok(());
        }
        poll_agreement(rt)?;
        mpi_lock::yield_lock()?;
    }
}

/// Exchanges messages and makes progress; returns true if this thread may enter.
fn make_progress(rt: &Runtime, me: Worker, thread: usize) -> mpi::Result<bool> {
    while let Some((from, message)) = receive(rt)? {
        schedule::state(rt).assemblies.receive(from, message);
    }
    let (enters, messages) = {
        let state = &mut *schedule::state(rt);
        let enters = state.assemblies.advance(me, thread, &mut state.gatherings);
        state.control_messages.remove_sent()?;
        (enters, state.assemblies.take_outgoing())
    };
    for (to, message) in messages {
        send(rt, to, &message)?;
    }
    Ok(enters)
}

fn send(rt: &Runtime, rank: Worker, message: &AssemblyMessage) -> mpi::Result<()> {
    let bytes = bincode::encode_to_vec(message, standard()).map_err(|_| mpi::Error::INTERN)?;
    let to = Peer {
        comm: world::private(rt),
        rank,
        tag: tag::ASSEMBLE,
    };
    schedule::state(rt).control_messages.send(bytes, [to])
}

/// Returns the next message that has arrived.
fn receive(rt: &Runtime) -> mpi::Result<Option<(Worker, AssemblyMessage)>> {
    let Some((from, bytes)) = control_messages::next(world::private(rt), tag::ASSEMBLE)? else {
        return Ok(None);
    };
    let (message, _) =
        bincode::decode_from_slice(&bytes, standard()).map_err(|_| mpi::Error::INTERN)?;
    Ok(Some((from, message)))
}
