//! Transfers of replicas with other workers.

use crate::Runtime;
use crate::copies::{self, Transfer};
use crate::world;
use std::mem::replace;
use understudy_mpi as mpi;
use understudy_mpi::both;
use understudy_numbers::Worker;

/// Transfer with one other worker.
pub struct Move {
    pub transfer: Transfer,
    to: Option<Worker>,
    from: Option<Worker>,
}

impl Move {
    pub fn send(transfer: Transfer, to: Worker) -> Move {
        Move {
            transfer,
            to: Some(to),
            from: None,
        }
    }

    pub fn receive(from: Worker) -> Move {
        Move {
            transfer: Transfer::receive_only(),
            to: None,
            from: Some(from),
        }
    }
}

/// Completes transfers, and calls `poll` repeatedly for each meanwhile.
pub fn drive(rt: &Runtime, moves: &mut [Move], mut poll: impl FnMut(&Transfer)) -> mpi::Result<()> {
    let start = |it: &mut Move| it.transfer.start(world::private(rt), it.to, it.from);
    let mut driven = moves.iter_mut().map(start).fold(Ok(()), both);
    while driven.is_ok() && !moves.iter().all(|it| it.transfer.is_done()) {
        for it in moves.iter_mut() {
            driven = both(driven, it.transfer.poll(rt, &mut copies::keep(rt).store));
            poll(&it.transfer);
        }
    }
    if driven.is_err() {
        let given_up = moves
            .iter_mut()
            .map(|it| replace(&mut it.transfer, Transfer::receive_only()));
        copies::keep(rt).orphans.extend(given_up);
    }
    driven
}
