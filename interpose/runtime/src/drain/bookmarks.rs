//! Bookmark exchange, in which all workers agree whether a cut is taken.
#![allow(unsafe_code)]

use super::{shared_mappings, synchronous_queries};
use crate::arch::Rewound;
use crate::disk::{self, DiskReport};
use crate::headroom::{self, MemoryClaim, MemoryShortage};
use crate::objects::comm::freed;
use crate::protection::ProtectionLoss;
use crate::static_data::new_phases;
use crate::{Runtime, recovery};
use crate::{copies, drained, journal, requests, user, world};
use understudy_mpi::comm::Plain;
use understudy_numbers::Worker;

/// Consequence for a cut of bookmarks that cannot be exchanged, for the user.
pub(super) const NO_BOOKMARKS: &str = "the workers cannot exchange their message counts";

/// Numbers that every worker sends to every other at a cut.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Bookmark {
    /// Number of messages sent to the receiver of this bookmark since MPI_Init.
    sent: u64,
    /// Number of incomplete synchronous sends about which the receiver will be queried.
    synchronous: u64,
    /// The sender's [`CutAbility`] to be saved.
    ability: u64,
    /// Share of the started collectives ([`requests::share`]).
    ///
    /// The sum over all workers is 0 if all members have started equal collectives.
    started: u64,
    /// Share of the freed communicators ([`freed`]).
    ///
    /// The sum over all workers is 0 if no worker uses any of them.
    freed: u64,
    /// Number of the sender's mappings that other processes may share.
    shared: u64,
    /// State of the sender's disk level.
    disk: DiskReport,
    /// Flags [`MAY_END`] and [`MAY_BEGIN`] of the sender's phase and of a new one.
    phase: u64,
    /// Memory that the sender's next checkpoint needs.
    claim: MemoryClaim,
}

// SAFETY: the structure has only integers.
unsafe impl Plain for Bookmark {}

/// Ability of a rank to be saved at this cut.
///
/// A larger value is a stronger objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutAbility {
    Now = 0,
    /// Later: a non-blocking collective is under way.
    Later = 1,
    /// Impossible at this interval, because of kernel state.
    Refused = 2,
    /// Never again: its replicas were released, as the program needed their memory.
    Yielded = 3,
    /// Never: a replacement could not have its state.
    Never = 4,
}

/// Outcome of the exchange, equal in all workers except the numbers.
pub enum ExchangeOutcome {
    /// Messages in flight from each worker to this one.
    InFlight(Vec<IncomingMessages>),
    /// Postponed cut.
    PutOff,
    /// Cut postponed to the next interval ([`CutAbility::Refused`]).
    Refused,
    /// Replicas of a checkpoint do not fit into memory.
    NoRoom(MemoryShortage),
    /// End of protection, reported by this worker.
    Unprotected(Worker, ProtectionLoss),
}

/// Messages from a worker to this one.
#[derive(Clone, Copy)]
pub struct IncomingMessages {
    pub(super) in_flight: u64,
    /// Number of synchronous sends about which the worker will query.
    pub(super) synchronous: u64,
}

/// Bit of a worker whose phase may end.
const MAY_END: u64 = 1;
/// Bit of a worker for which a new phase may begin.
const MAY_BEGIN: u64 = 2;

/// Exchanges the bookmarks over all workers.
///
/// For `is_regular` see [`journal::may_end`]. No phase ends or begins outside of candidates.
pub fn exchange(
    rt: &Runtime,
    ability: CutAbility,
    is_regular: Option<bool>,
) -> Result<ExchangeOutcome, Rewound> {
    let mappings = user::shared_mappings(rt);
    let epoch = copies::next_epoch(rt);
    let disk = disk::report(rt, &mut copies::replicas(rt).store, epoch);
    let phase = is_regular.map_or(0, |is_regular| {
        u64::from(journal::may_end(rt, is_regular)) * MAY_END
            + u64::from(new_phases::may_begin(rt)) * MAY_BEGIN
    });
    let claim = match ability {
        CutAbility::Now => copies::claim(rt),
        _ => MemoryClaim::NONE,
    };
    let started = requests::sum_of_started(rt);
    let (freed_ones, share) = freed::freed_within(rt, None, |it| drained::is_comm_in_use(rt, it));
    let synchronous = synchronous_queries::count(rt, world::get(rt).worker_count as usize);
    let own: Vec<Bookmark> = requests::table(rt)
        .sent
        .iter()
        .zip(synchronous)
        .map(|(&sent, synchronous)| Bookmark {
            sent,
            synchronous,
            ability: ability as u64,
            started,
            freed: share,
            shared: mappings.len() as u64,
            disk,
            phase,
            claim,
        })
        .collect();
    let theirs = recovery::check_own(rt, world::private(rt).exchange(&own), NO_BOOKMARKS)?;
    let counts: Vec<u64> = theirs.iter().map(|bookmark| bookmark.shared).collect();
    let sharer = shared_mappings::first_sharer(rt, &mappings, &counts);
    if let Some(speaker) = recovery::check_own(rt, sharer, NO_BOOKMARKS)? {
        return Ok(ExchangeOutcome::Unprotected(
            speaker,
            ProtectionLoss::Unsaved,
        ));
    }
    let claims: Vec<MemoryClaim> = theirs.iter().map(|bookmark| bookmark.claim).collect();
    let shortage = {
        let world = world::get(rt);
        headroom::shortage(&world.redundancy, |worker| world.node_of(worker), &claims)
    };
    let abilities: Vec<u64> = theirs.iter().map(|bookmark| bookmark.ability).collect();
    let most = abilities.iter().copied().max().unwrap_or(0);
    let speaker = abilities.iter().position(|&ability| ability == most);
    let speaker = Worker::at(speaker.unwrap_or(0));
    // A process may have completed a collective that another one has not begun.
    let is_balanced = theirs
        .iter()
        .fold(0u64, |sum, bookmark| sum.wrapping_add(bookmark.started))
        == 0;
    Ok(match most {
        never if never == CutAbility::Never as u64 => {
            ExchangeOutcome::Unprotected(speaker, ProtectionLoss::Unsaved)
        }
        yielded if yielded == CutAbility::Yielded as u64 => {
            ExchangeOutcome::Unprotected(speaker, ProtectionLoss::Memory)
        }
        refused if refused == CutAbility::Refused as u64 => ExchangeOutcome::Refused,
        later if later == CutAbility::Later as u64 || !is_balanced => ExchangeOutcome::PutOff,
        _ => match shortage {
            Some(shortage) => ExchangeOutcome::NoRoom(shortage),
            None => {
                if theirs
                    .iter()
                    .fold(0u64, |sum, bookmark| sum.wrapping_add(bookmark.freed))
                    == 0
                {
                    freed::remove(rt, &freed_ones);
                }
                let reports: Vec<DiskReport> =
                    theirs.iter().map(|bookmark| bookmark.disk).collect();
                disk::evaluate_reports(
                    rt,
                    &reports,
                    world::worker(rt),
                    epoch,
                    world::get(rt).recoveries,
                );
                let all = |bit: u64| theirs.iter().all(|bookmark| bookmark.phase & bit != 0);
                journal::set_agreed(rt, all(MAY_END));
                new_phases::set_agreed(rt, all(MAY_BEGIN));
                ExchangeOutcome::InFlight(
                    theirs
                        .iter()
                        .zip(&requests::table(rt).received)
                        .map(|(bookmark, &received)| IncomingMessages {
                            in_flight: bookmark.sent - received,
                            synchronous: bookmark.synchronous,
                        })
                        .collect(),
                )
            }
        },
    })
}
