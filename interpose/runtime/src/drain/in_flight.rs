//! Reception of the messages that are in flight at a cut.
#![allow(unsafe_code)]

use super::bookmarks::{Bookmark, NO_BOOKMARKS};
use super::synchronous_queries;
use crate::arch::Rewound;
use crate::drained::DrainedMessage;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, real_comm};
use crate::objects::{comm, objects};
use crate::requests::{self, EMPTY_STATUS, RequestKind};
use crate::{Runtime, recovery};
use crate::{completion, drained, exposure, rendezvous, world};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_mpi::in_flight::InFlight;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealComm};
use understudy_numbers::Worker;

/// Message for a failed reception of a message at a cut.
const NOT_RECEIVED: &str = "a message cannot be received";

/// Time after which a warning names the workers whose messages have not arrived.
const REPORT_DELAY: Duration = Duration::from_secs(5);

/// Returns the workers whose messages have not all arrived, with the numbers of these messages.
///
/// Only workers with messages are looked up. A number is negative if more messages have arrived
/// than the worker has sent, which is a defect.
fn late_messages(rt: &Runtime, bookmarks: &BTreeMap<Worker, Bookmark>) -> Vec<(Worker, i64)> {
    let received = &requests::table(rt).received;
    let missing = |sent: u64, worker| sent.wrapping_sub(received.get(worker)) as i64;
    let announced = bookmarks
        .iter()
        .map(|(&worker, bookmark)| (worker, missing(bookmark.sent, worker)));
    let unannounced = received.used().map(|(worker, _)| worker);
    let unannounced = unannounced
        .filter(|worker| !bookmarks.contains_key(worker))
        .map(|worker| (worker, missing(0, worker)));
    let late = announced
        .chain(unannounced)
        .filter(|&(_, missing)| missing != 0);
    late.collect()
}

fn report_late_messages(rt: &Runtime, bookmarks: &BTreeMap<Worker, Bookmark>) {
    let missing: Vec<String> = late_messages(rt, bookmarks)
        .into_iter()
        .map(|(worker, missing)| format!("{missing} from worker {worker}"))
        .collect();
    let receives = requests::active(rt, |kind| {
        matches!(
            kind,
            RequestKind::Receive(_) | RequestKind::PersistentReceive(_)
        )
    })
    .len();
    log::warn!(
        "{}",
        message::messages_late(REPORT_DELAY, missing.join(", "), receives)
    );
}

/// Receives until no message is in flight and every send of this process is complete.
///
/// No worker returns before all have reached this point. Otherwise messages that are sent after the
/// cut could match receives that were posted before the cut.
pub fn drain(rt: &Runtime, bookmarks: &BTreeMap<Worker, Bookmark>) -> Result<(), Rewound> {
    let synchronous = requests::synchronous::pending(rt);
    receive_matched(rt)?;
    let mut report_at = Some(Instant::now() + REPORT_DELAY);
    while !late_messages(rt, bookmarks).is_empty() {
        if report_at.is_some_and(|time| Instant::now() >= time) {
            report_at = None;
            report_late_messages(rt, bookmarks);
        }
        let receives = requests::active(rt, |kind| {
            matches!(
                kind,
                RequestKind::Receive(_) | RequestKind::PersistentReceive(_)
            )
        });
        completion::test_all(rt, receives)?;
        recovery::check_own(rt, exposure::receive_all_arrived(rt), NO_BOOKMARKS)?;
        recovery::check_own(rt, rendezvous::receive_arrived(rt), NO_BOOKMARKS)?;
        for comm in program_comms(rt) {
            take_unexpected(rt, comm)?;
        }
    }
    let mut sends = requests::active(rt, RequestKind::is_plain_send);
    while !sends.is_empty() {
        sends = completion::test_all(rt, sends)?;
    }
    let answered = synchronous_queries::exchange(rt, &synchronous, bookmarks);
    recovery::check_own(rt, answered, NO_BOOKMARKS)?;
    recovery::check_own(rt, world::private(rt).barrier(), NO_BOOKMARKS)?;
    requests::restart_counts(rt);
    Ok(())
}

/// Returns the communicators on which unexpected messages of the program may arrive.
///
/// The program may have freed a communicator on which it still has requests.
fn program_comms(rt: &Runtime) -> Vec<(VirtComm, RealComm)> {
    let all = objects(rt);
    let of_windows: HashSet<u32> = all.windows.iter().map(|(_, window)| window.comm).collect();
    let handle = |index: u32| match index {
        0 => comm::world_handle(rt),
        1 => comm::self_handle(rt),
        index => VirtComm(handles::virtual_handle(HandleKind::Comm, index)),
    };
    all.comms
        .iter()
        .filter(|(index, _)| !of_windows.contains(index))
        .map(|(index, _)| (handle(index), real_comm(rt, handle(index))))
        .filter(|(_, real)| !real.0.is_null())
        .collect()
}

/// Takes one message that no posted receive matches, if there is one.
///
/// The message is not matched by its probe (`MPI_Improbe`): no other receive of this process can
/// take it meanwhile, and Open MPI's `mtl/ofi` fails to receive a matched message while a send to
/// its sender is open (libfabric's provider `tcp`).
fn take_unexpected(rt: &Runtime, (comm, real): (VirtComm, RealComm)) -> Result<(), Rewound> {
    let (mut flag, mut status) = (0, EMPTY_STATUS);
    // SAFETY: plain arguments and local variables.
    let rc = unsafe { real::PMPI_Iprobe(ANY_SOURCE, ANY_TAG, real, &mut flag, &mut status) };
    recovery::check(rt, rc)?;
    if flag == 0 {
        return Ok(());
    }
    let received = InFlight::receive_probed(real, &mut status);
    let data = recovery::check_own(rt, received, NOT_RECEIVED)?;
    completion::count_received(rt, comm, &status);
    drained::add(
        rt,
        DrainedMessage {
            comm: comm.0 as u64,
            source: status.source,
            tag: status.tag,
            data,
            claimed: None,
            sender_to_notify: None,
        },
    );
    Ok(())
}

/// Receives the messages that the program has matched.
fn receive_matched(rt: &Runtime) -> Result<(), Rewound> {
    for index in 0..drained::matched_index_end(rt) {
        if let Some(mut matched) = drained::matched(rt, index) {
            let received = InFlight::receive_matched(&mut matched.real, &mut matched.status);
            let data = recovery::check_own(rt, received, NOT_RECEIVED)?;
            completion::count_received(rt, matched.comm, &matched.status);
            drained::record_received(rt, index, matched.comm, &matched.status, data);
        }
    }
    Ok(())
}
