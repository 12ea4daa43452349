//! Communicators of earlier worlds, until they can be freed.
//!
//! Freeing is local in Open MPI and works whoever has died. But it makes context ids free for the communicators that are made
//! next, and a message that was sent before the revocation may still arrive: so they are kept until the second recovery
//! after theirs has succeeded. Messages between two processes stay in order, so whatever was sent two worlds ago has arrived
//! by then, or its sender is dead and its queue has been read.
#![allow(unsafe_code)]

use crate::cell::Main;
use crate::generated::real;
use crate::renewal;
use crate::world;
use understudy_mpi::real_types::RealComm;

/// How many recoveries later they are freed.
const DELAY: u32 = 2;

/// Each with the number of the recovery that has replaced it.
static RETIRED: Main<Vec<(u32, RealComm)>> = Main::new(Vec::new());

/// These communicators, all revoked, have no use any more.
pub fn retire(comms: impl IntoIterator<Item = RealComm>) {
    if renewal::is_on() {
        // They go with the library that has made them.
        return;
    }
    let now = world::get().recoveries;
    let comms = comms.into_iter().filter(|comm| !comm.0.is_null());
    RETIRED.borrow_mut().extend(comms.map(|comm| (now, comm)));
}

/// A recovery has succeeded: frees those that are old enough.
pub fn free_old() {
    let now = world::get().recoveries;
    let mut old: Vec<RealComm> = Vec::new();
    RETIRED.borrow_mut().retain(|&(then, comm)| {
        let is_old = then + DELAY <= now;
        if is_old {
            old.push(comm);
        }
        !is_old
    });
    for mut comm in old {
        // SAFETY: a communicator of ours that nothing refers to.
        unsafe { real::PMPI_Comm_free(&mut comm) };
    }
}
