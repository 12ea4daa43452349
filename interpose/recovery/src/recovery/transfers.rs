//! Transfers of replicas with other workers.

use crate::Runtime;
use crate::copies::{self, Transfer};
use crate::world;
use std::mem::replace;
use understudy_mpi as mpi;
use understudy_mpi::combine_results;
use understudy_numbers::Worker;

/// Transfer with one other worker.
pub struct ReplicaTransfer {
    pub transfer: Transfer,
    to: Option<Worker>,
    from: Option<Worker>,
}

impl ReplicaTransfer {
    pub fn send(transfer: Transfer, to: Worker) -> ReplicaTransfer {
        ReplicaTransfer {
            transfer,
            to: Some(to),
            from: None,
        }
    }

    pub fn receive(from: Worker) -> ReplicaTransfer {
        ReplicaTransfer {
            transfer: Transfer::receive_only(),
            to: None,
            from: Some(from),
        }
    }
}

/// Completes transfers, and calls `poll` repeatedly for each meanwhile.
pub fn drive(
    rt: &Runtime,
    moves: &mut [ReplicaTransfer],
    mut poll: impl FnMut(&Transfer),
) -> mpi::Result<()> {
    let start = |it: &mut ReplicaTransfer| it.transfer.start(world::private(rt), it.to, it.from);
    let mut driven = moves.iter_mut().map(start).fold(Ok(()), combine_results);
    while driven.is_ok() && !moves.iter().all(|it| it.transfer.is_done()) {
        for it in moves.iter_mut() {
            driven = combine_results(
                driven,
                it.transfer.poll(rt, &mut copies::replicas(rt).store),
            );
            poll(&it.transfer);
        }
    }
    if driven.is_err() {
        let given_up = moves
            .iter_mut()
            .map(|it| replace(&mut it.transfer, Transfer::receive_only()));
        copies::replicas(rt).orphans.extend(given_up);
    }
    driven
}
