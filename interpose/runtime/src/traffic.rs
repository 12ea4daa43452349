//! What the program sends: messages by peer and by communicator, collectives by communicator (UNDERSTUDY_LOG_DIR).
//!
//! Counted is what the program has asked for, when MPI has accepted it. The counts are part of the state that a cut saves and a
//! rollback puts back ([`Table`]), so they are those of a program to which nothing has happened, whoever plays its parts,
//! and the last record of each worker in the event files holds. What was sent besides is told as undone.
//!
//! Without event files the table is empty, and a send does one comparison more. With them it adds to two entries that are
//! found by index. What cannot be counted at the moment, since the table is in use, is not counted: no job ends for a count.

mod amount;
mod table;

use crate::cell::{Field, runtime};
use crate::handles::{VirtComm, VirtDatatype};
use crate::objects::comm::{self, Comm};
use crate::world::{self, Part};
use crate::{events, objects, told};
pub use amount::{
    block_of, each, is_root, list, members, my_rank, neighbours, one, peers, sends_to, typed_list,
};
use ckptd::events::{Amount, Kind, Worker};
use std::cell::Ref;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub use table::Table;

runtime! {
    pub struct Runtime: objects::Runtime {
        /// What was counted, and told.
        traffic: Field<State> = Field::new(State {
            table: Table::NOTHING,
            recent: [NOTHING_RECENT; RECENT],
            undone: Amount { count: 0, bytes: 0 },
            told: (Amount { count: 0, bytes: 0 }, None),
        }),
    }
}

/// Where rows of communicators were found last, by the low bits of their numbers.
const RECENT: usize = 16;
const NOTHING_RECENT: (u64, u32) = (0, u32::MAX);
/// A record at most so often, and less often if it is long: once for each so many of its entries.
const PERIOD: Duration = Duration::from_secs(1);
const ENTRIES: u32 = 256;

struct State {
    table: Table,
    recent: [(u64, u32); RECENT],
    undone: Amount,
    /// What has been recorded last, and when there may be another record.
    told: (Amount, Option<Instant>),
}

/// Whether the table has entries: what every message looks at.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Begins to count, among so many workers.
pub fn init(rt: &Runtime, workers: u32) {
    if told::config().log_dir.is_some() {
        set(&mut rt.traffic.borrow_mut(), Table::new(workers));
    }
}

fn set(state: &mut State, table: Table) {
    IS_ON.store(!table.peers.is_empty(), Ordering::Relaxed);
    state.table = table;
}

/// Whether anything is counted.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The counts, to be saved.
pub fn table(rt: &Runtime) -> Ref<'_, Table> {
    Ref::map(rt.traffic.borrow(), |state| &state.table)
}

/// Goes on from saved counts, among so many workers.
pub fn replace(rt: &Runtime, saved: Table, workers: u32) {
    let mut state = rt.traffic.borrow_mut();
    let (now, then) = (state.table.messages(), saved.messages());
    state.undone += Amount {
        count: now.count.saturating_sub(then.count),
        bytes: now.bytes.saturating_sub(then.bytes),
    };
    let is_wanted = told::config().log_dir.is_some();
    let table = match saved.peers.is_empty() {
        _ if !is_wanted => Table::NOTHING,
        true => Table::new(workers),
        false => saved,
    };
    set(&mut state, table);
    state.recent = [NOTHING_RECENT; RECENT];
}

/// Communicators are added, removed, or renamed.
pub fn forget_recent(rt: &Runtime) {
    if let Some(mut state) = rt.traffic.try_borrow_mut() {
        state.recent = [NOTHING_RECENT; RECENT];
    }
}

impl State {
    #[inline]
    fn row(&mut self, comm: &Comm) -> usize {
        let (id, row) = self.recent[comm.uid as usize % RECENT];
        if id == comm.uid && row != u32::MAX {
            return row as usize;
        }
        self.look_up(comm)
    }

    #[cold]
    #[inline(never)]
    fn look_up(&mut self, comm: &Comm) -> usize {
        let row = self.table.row_of(comm);
        self.recent[comm.uid as usize % RECENT] = (comm.uid, row as u32);
        row
    }
}

/// A message of so many elements is on its way to a worker.
#[inline(never)]
pub fn sent(
    rt: &Runtime,
    comm: VirtComm,
    worker: Option<Worker>,
    count: c_int,
    datatype: VirtDatatype,
) {
    let (Some(comm), Some(worker)) = (comm::get(rt, comm), worker) else {
        return;
    };
    let message = Amount {
        count: 1,
        bytes: amount::one(rt, count, datatype),
    };
    let Some(mut state) = rt.traffic.try_borrow_mut() else {
        return;
    };
    let row = state.row(&comm);
    if let Some(peer) = state.table.peers.get_mut(worker.index()) {
        *peer += message;
    }
    if let Some(row) = state.table.rows.get_mut(row) {
        row.messages += message;
    }
}

/// A collective is called, with so many bytes to be sent.
#[inline(never)]
pub fn collective(rt: &Runtime, comm: VirtComm, bytes: u64) {
    let Some(comm) = comm::get(rt, comm) else {
        return;
    };
    let Some(mut state) = rt.traffic.try_borrow_mut() else {
        return;
    };
    let row = state.row(&comm);
    if let Some(row) = state.table.rows.get_mut(row) {
        row.collectives += Amount { count: 1, bytes };
    }
}

/// Records the counts, if they have changed and it is time.
pub fn tell_now_and_then(rt: &Runtime) {
    let is_due = |state: &State| {
        let is_early = || state.told.1.is_some_and(|next| Instant::now() < next);
        state.table.all() != state.told.0 && !is_early()
    };
    if is_on() && rt.traffic.try_borrow().is_some_and(|state| is_due(&state)) {
        tell(rt);
    }
}

/// Records the counts. The last record holds.
pub fn tell(rt: &Runtime) {
    if !is_on() {
        return;
    }
    let (Some(mut state), Part::Worker(worker)) =
        (rt.traffic.try_borrow_mut(), world::get(rt).part)
    else {
        return;
    };
    let record = state.table.record(worker, state.undone);
    let entries = (record.peers.len() + record.comms.len()) as u32;
    state.told = (
        state.table.all(),
        Some(Instant::now() + PERIOD * (1 + entries / ENTRIES)),
    );
    drop(state);
    events::emit(Kind::Traffic(record));
}
