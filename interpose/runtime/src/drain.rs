//! Messages in flight at a cut.
//!
//! At a cut every rank knows how many messages it has sent to and received from every other (bookmark exchange, as in
//! LAM/MPI's and MANA's checkpoints). What was sent but not received is taken now: into the buffers of receives that are
//! posted, or, where none matches, into early messages ([`crate::early`]).
#![allow(unsafe_code)]

mod sharing;
mod synchronous;

use crate::arch::Rewound;
use crate::disk::{self, Report};
use crate::early::Early;
use crate::generated::real;
use crate::handles::{self, VirtComm, real_comm};
use crate::headroom::{self, Claim, Shortage};
use crate::objects::comm::freed;
use crate::objects::objects;
use crate::protection::Loss;
use crate::recovery::Runtime;
use crate::rehearsal::again;
use crate::requests::{self, EMPTY, Kind};
use crate::{
    completion, copies, early, exposure, journal, own_messages, recovery, rendezvous, user, world,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use understudy_mpi::bytes::Bytes;
use understudy_mpi::comm::Plain;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG, RealComm, RealMessage, Status};
use understudy_numbers::Worker;

/// What a cut for which they cannot be told means.
const NO_BOOKMARKS: &str = "the workers cannot tell each other of their messages";

/// What a cut for which one cannot be received means.
const NOT_RECEIVED: &str = "a message cannot be received";

/// What every worker tells every other at a cut.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Bookmark {
    /// Messages sent to the receiver of this bookmark since MPI_Init.
    sent: u64,
    /// Of those that are synchronous and have not ended, those that the receiver of this bookmark will be asked about.
    synchronous: u64,
    /// Whether the sender can be saved, as [`Ability`].
    ability: u64,
    /// Of the collectives that it has started ([`requests::share`]): 0 in all, if all members have started the same.
    started: u64,
    /// Of the communicators that it has freed ([`freed`]): 0 in all, if nobody has use for any.
    freed: u64,
    /// How many mappings the sender has that other processes may share.
    shared: u64,
    /// Of its disk level.
    disk: Report,
    /// Whether its initialisation phase may end here ([`MAY_END`]), and whether a new one may begin.
    phase: u64,
    /// Memory that its next checkpoint takes.
    claim: Claim,
}

// SAFETY: numbers.
unsafe impl Plain for Bookmark {}

/// Whether a rank can be saved at this cut; the larger value is the stronger objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    Now = 0,
    /// Not now: a non-blocking collective is under way.
    Later = 1,
    /// Kernel state prevents it at this interval.
    Refused = 2,
    /// No more: its copies were given up, as the program needed their memory.
    Yielded = 3,
    /// Never: it has state that an understudy could not have.
    Never = 4,
}

/// The outcome of the exchange, the same in all workers but for the numbers.
pub enum Exchange {
    /// What each worker has sent to this one.
    InFlight(Vec<Sent>),
    /// The cut is put off.
    PutOff,
    /// The cut is put off to the next interval ([`Ability::Refused`]).
    Refused,
    /// The copies of a checkpoint do not fit into memory.
    NoRoom(Shortage),
    /// The job cannot be protected any more; this worker speaks for those that object.
    Unprotected(Worker, Loss),
}

/// What a worker has sent to this one.
#[derive(Clone, Copy)]
pub struct Sent {
    in_flight: u64,
    /// Synchronous sends that it will ask about.
    synchronous: u64,
}

/// What a worker says of its phase.
const MAY_END: u64 = 1;
const MAY_BEGIN: u64 = 2;

/// Exchanges the bookmarks over all workers. `is_regular`: see [`journal::may_end`]; no phase ends or begins outside of candidates.
pub fn exchange(
    rt: &Runtime,
    ability: Ability,
    is_regular: Option<bool>,
) -> Result<Exchange, Rewound> {
    let mappings = user::shared_mappings(rt);
    let epoch = copies::next_epoch(rt);
    let disk = disk::report(rt, &mut copies::keep(rt).store, epoch);
    let phase = is_regular.map_or(0, |is_regular| {
        u64::from(journal::may_end(rt, is_regular)) * MAY_END
            + u64::from(again::may_begin(rt)) * MAY_BEGIN
    });
    let claim = match ability {
        Ability::Now => copies::claim(rt),
        _ => Claim::NONE,
    };
    let started = requests::started(rt);
    let (freed_ones, share) = freed::within(rt, None, |it| early::is_used(rt, it));
    let synchronous = synchronous::count(rt, world::get(rt).worker_count as usize);
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
    if let Some(speaker) = sharing::first_sharer(rt, &mappings, &counts)? {
        return Ok(Exchange::Unprotected(speaker, Loss::Unsaved));
    }
    let claims: Vec<Claim> = theirs.iter().map(|bookmark| bookmark.claim).collect();
    let shortage = {
        let world = world::get(rt);
        headroom::shortage(&world.redundancy, |worker| world.node_of(worker), &claims)
    };
    let abilities: Vec<u64> = theirs.iter().map(|bookmark| bookmark.ability).collect();
    let most = abilities.iter().copied().max().unwrap_or(0);
    let speaker = abilities.iter().position(|&ability| ability == most);
    let speaker = Worker::at(speaker.unwrap_or(0));
    // A process may have ended its part in a collective that another one has not begun.
    let is_balanced = theirs
        .iter()
        .fold(0u64, |sum, bookmark| sum.wrapping_add(bookmark.started))
        == 0;
    Ok(match most {
        never if never == Ability::Never as u64 => Exchange::Unprotected(speaker, Loss::Unsaved),
        yielded if yielded == Ability::Yielded as u64 => {
            Exchange::Unprotected(speaker, Loss::Memory)
        }
        refused if refused == Ability::Refused as u64 => Exchange::Refused,
        later if later == Ability::Later as u64 || !is_balanced => Exchange::PutOff,
        _ => match shortage {
            Some(shortage) => Exchange::NoRoom(shortage),
            None => {
                if theirs
                    .iter()
                    .fold(0u64, |sum, bookmark| sum.wrapping_add(bookmark.freed))
                    == 0
                {
                    freed::forget(rt, &freed_ones);
                }
                let reports: Vec<Report> = theirs.iter().map(|bookmark| bookmark.disk).collect();
                disk::agreed(
                    rt,
                    &reports,
                    world::worker(rt),
                    epoch,
                    world::get(rt).recoveries,
                );
                let all = |bit: u64| theirs.iter().all(|bookmark| bookmark.phase & bit != 0);
                journal::agree(rt, all(MAY_END));
                again::agree(rt, all(MAY_BEGIN));
                Exchange::InFlight(
                    theirs
                        .iter()
                        .zip(&requests::table(rt).received)
                        .map(|(bookmark, &received)| Sent {
                            in_flight: bookmark.sent - received,
                            synchronous: bookmark.synchronous,
                        })
                        .collect(),
                )
            }
        },
    })
}

/// After so long, a line says what has not arrived.
const SLOW: Duration = Duration::from_secs(5);

fn tell_slow(rt: &Runtime, goal: &[u64]) {
    let table = requests::table(rt);
    let missing = goal.iter().zip(&table.received).enumerate();
    let missing: Vec<String> = missing
        .filter(|(_, (goal, received))| goal != received)
        .map(|(worker, (goal, received))| {
            format!(
                "{} from worker {worker}",
                goal.wrapping_sub(*received) as i64
            )
        })
        .collect();
    let receives = requests::active(rt, |kind| {
        matches!(kind, Kind::Receive(_) | Kind::PersistentReceive(_))
    })
    .len();
    log::warn!(
        "at a checkpoint, messages that were sent have not arrived for {SLOW:?}: {}; {receives} receives are posted",
        missing.join(", ")
    );
}

/// Receives until nothing is in flight; then every send of this process has ended too. Nobody goes on before all have come so far: what
/// is sent behind the cut would meet receives that are posted before it.
pub fn drain(rt: &Runtime, sent: &[Sent]) -> Result<(), Rewound> {
    let synchronous = requests::synchronous::pending(rt);
    let goal: Vec<u64> = requests::table(rt)
        .received
        .iter()
        .zip(sent)
        .map(|(received, more)| received + more.in_flight)
        .collect();
    receive_matched(rt)?;
    let mut slow = Some(Instant::now() + SLOW);
    while requests::table(rt).received != goal {
        if slow.is_some_and(|slow| Instant::now() >= slow) {
            slow = None;
            tell_slow(rt, &goal);
        }
        let receives = requests::active(rt, |kind| {
            matches!(kind, Kind::Receive(_) | Kind::PersistentReceive(_))
        });
        completion::test_all(rt, receives)?;
        recovery::check_own(rt, exposure::hear_all(rt), NO_BOOKMARKS)?;
        recovery::check_own(rt, rendezvous::hear(rt), NO_BOOKMARKS)?;
        for comm in program_comms(rt) {
            take_unexpected(rt, comm)?;
        }
    }
    let mut sends = requests::active(rt, Kind::is_send);
    while !sends.is_empty() {
        sends = completion::test_all(rt, sends)?;
    }
    let asked: Vec<u64> = sent.iter().map(|sent| sent.synchronous).collect();
    synchronous::settle(rt, &synchronous, &asked)?;
    recovery::check_own(rt, world::private(rt).barrier(), NO_BOOKMARKS)
}

/// Those on which messages of the program may come that are not asked for. The program may have freed them, if it has requests there.
fn program_comms(rt: &Runtime) -> Vec<(VirtComm, RealComm)> {
    let all = objects(rt);
    let of_windows: HashSet<u32> = all.windows.iter().map(|(_, window)| window.comm).collect();
    let handle = |index: u32| match index {
        0 => crate::objects::comm::world_handle(rt),
        1 => crate::objects::comm::self_handle(rt),
        index => VirtComm(handles::virtual_handle(
            crate::generated::HandleKind::Comm,
            index,
        )),
    };
    all.comms
        .iter()
        .filter(|(index, _)| !of_windows.contains(index))
        .map(|(index, _)| (handle(index), real_comm(rt, handle(index))))
        .filter(|(_, real)| !real.0.is_null())
        .collect()
}

/// Takes one message that no posted receive matches, if there is one.
fn take_unexpected(rt: &Runtime, (comm, real): (VirtComm, RealComm)) -> Result<(), Rewound> {
    let (mut flag, mut status, mut message) = (0, EMPTY, RealMessage(std::ptr::null_mut()));
    // SAFETY: plain arguments.
    unsafe {
        recovery::check(
            rt,
            real::PMPI_Improbe(
                ANY_SOURCE,
                ANY_TAG,
                real,
                &mut flag,
                &mut message,
                &mut status,
            ),
        )?;
        if flag == 0 {
            return Ok(());
        }
        let data = receive(rt, &mut message, &mut status)?;
        completion::count_received(rt, comm, &status);
        early::add(
            rt,
            Early {
                comm: comm.0 as u64,
                source: status.source,
                tag: status.tag,
                data,
                claimed: None,
                owed: None,
            },
        );
    }
    Ok(())
}

/// Receives the messages that the program has matched.
fn receive_matched(rt: &Runtime) -> Result<(), Rewound> {
    for index in 0..early::places(rt) {
        if let Some(mut matched) = early::matched(rt, index) {
            let data = receive(rt, &mut matched.real, &mut matched.status)?;
            completion::count_received(rt, matched.comm, &matched.status);
            early::is_received(rt, index, matched.comm, &matched.status, data);
        }
    }
    Ok(())
}

/// Receives a message that has been matched, as bytes.
fn receive(
    rt: &Runtime,
    message: &mut RealMessage,
    status: &mut Status,
) -> Result<Vec<u8>, Rewound> {
    let mut data = vec![0u8; status.bytes];
    let bytes = recovery::check_own(rt, Bytes::new(data.len()), NOT_RECEIVED)?;
    // SAFETY: a matched message, and a buffer of its size.
    let rc = unsafe {
        real::PMPI_Mrecv(
            data.as_mut_ptr().cast(),
            bytes.count(),
            bytes.datatype(),
            message,
            status,
        )
    };
    match recovery::check_own(rt, understudy_mpi::check(rc), NOT_RECEIVED) {
        Ok(()) => Ok(data),
        Err(rewound) => {
            // The transfer may be under way still.
            own_messages::keep(data);
            Err(rewound)
        }
    }
}
