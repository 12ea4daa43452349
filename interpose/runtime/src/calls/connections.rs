//! Connections between processes of the job (MPI 4.1, 11.8).
//!
//! The roots of both sides find each other by [`crate::rendezvous`]. `MPI_Comm_join` derives a
//! common port from the addresses of its socket, to which no data are written. Then an
//! `MPI_Intercomm_create` connects both sides. While a process waits, cuts may be taken and other
//! threads may call MPI. The call's intermediate results are recorded for its thread
//! ([`dynamic::ConnectProgress`]), and used if the call is repeated from its entry.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use super::assembly_sides;
use super::comm::{construct_by_some, may_construct};
use super::ports::{Outcome, boards_or_failure, change_board, port_of};
use crate::Runtime;
use crate::arch::{Rewound, mpi_lock};
use crate::calls::runtime;
use crate::error_handling::handle_error;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm};
use crate::objects::comm;
use crate::objects::dynamic::{self, ConnectionMessage, FoundPeer};
use crate::{cut, process_info, recovery, rendezvous, system_calls, world};
use std::ffi::{c_char, c_int};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_numbers::Worker;

/// Message for a failed exchange between processes that connect.
const EXCHANGE_FAILED: &str = "processes that connect cannot exchange messages";
/// Tag of the leaders' messages; see [`comm::bridge`].
const TAG: c_int = 19;
/// Number of polls without a pause.
const QUICK_POLLS: u32 = 1000;
/// Pause between later polls.
const PAUSE: Duration = Duration::from_micros(50);
/// Time after which a wait for the other end of a socket is reported.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Wait of a call by polling.
struct PollingWait {
    polls: u32,
}

impl PollingWait {
    /// Pauses between two polls; a cut may be taken, and other threads may call MPI.
    fn pause(&mut self, rt: &Runtime) -> Result<(), Rewound> {
        cut::meanwhile(rt)?;
        self.polls = self.polls.saturating_add(1);
        if self.polls > QUICK_POLLS {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for a control message that matches, and leaves the message in the queue.
    ///
    /// The call starts from its entry if the program is rolled back to a cut in this wait.
    fn for_message(
        rt: &Runtime,
        matches: impl Fn(Worker, &ConnectionMessage) -> bool,
    ) -> Result<(), Rewound> {
        let mut waiting = PollingWait { polls: 0 };
        while !has_message(rt, &matches)? {
            waiting.pause(rt)?;
        }
        // After this point the call completes without a cut.
        cut::enter_waiting_call(rt)
    }
}

/// Receives control messages, and lets the library make progress.
fn receive_messages(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, rendezvous::receive_arrived(rt), EXCHANGE_FAILED)
}

/// Returns true if a control message matches.
fn has_message(
    rt: &Runtime,
    matches: impl Fn(Worker, &ConnectionMessage) -> bool,
) -> Result<bool, Rewound> {
    receive_messages(rt)?;
    Ok(dynamic::get(rt).has(matches))
}

fn send(rt: &Runtime, to: Worker, message: ConnectionMessage) -> Result<(), Rewound> {
    recovery::check_own(rt, rendezvous::send(rt, to, message), EXCHANGE_FAILED)
}

/// This process's side of a connection: the group of a communicator.
struct ConnectionSide {
    comm: VirtComm,
    uid: u64,
    members: Vec<Worker>,
    /// Rank of this process in the communicator.
    rank: c_int,
    root: c_int,
    /// The calling thread.
    thread: usize,
}

impl ConnectionSide {
    fn new(
        rt: &Runtime,
        comm: VirtComm,
        root: c_int,
        newcomm: *mut VirtComm,
    ) -> Outcome<ConnectionSide> {
        may_construct(rt, comm, newcomm)?;
        let recipe = comm::get(rt, comm).ok_or(ERR_COMM)?;
        let (rank, size) = comm::rank_and_size(rt, comm).ok_or(ERR_COMM)?;
        match &recipe.remote {
            Some(_) => Err(ERR_COMM),
            None if !(0..size).contains(&root) => Err(ERR_ROOT),
            None if recipe.has_spawned() => {
                log::error!("{}", message::SPAWNED_COMMUNICATOR_CONNECTS);
                Err(ERR_UNSUPPORTED_OPERATION)
            }
            None => Ok(ConnectionSide {
                comm,
                uid: recipe.uid,
                members: recipe.members.to_vec(),
                rank,
                root,
                thread: mpi_lock::current_block(),
            }),
        }
    }

    /// Sends the root's result to the other members.
    fn send_result(&self, rt: &Runtime, found: FoundPeer) -> Result<(), Rewound> {
        let others = self.members.iter().enumerate();
        for (_, &member) in others.filter(|(rank, _)| *rank != self.root as usize) {
            let (comm, outcome) = (self.uid, found.map(|(other, _)| other));
            send(
                rt,
                member,
                ConnectionMessage::ConnectResult { comm, outcome },
            )?;
        }
        Ok(())
    }

    /// Returns the root of the other side.
    ///
    /// `root` is called in the root of this side, which sends the result to the other members.
    fn find(
        &self,
        rt: &Runtime,
        root: impl FnOnce() -> Result<FoundPeer, Rewound>,
    ) -> Result<FoundPeer, Rewound> {
        let before = dynamic::get_mut(rt).progress_of(self.thread).found;
        if let Some(found) = before {
            return Ok(found);
        }
        cut::here(rt)?;
        let found = if self.rank == self.root {
            let found = root()?;
            self.send_result(rt, found)?;
            found
        } else {
            // The root of the next call on this communicator may have sent its result already, so
            // the sender is compared.
            let root = self.members[self.root as usize];
            let matches = |from: Worker, message: &ConnectionMessage| {
                let result_of = match message {
                    ConnectionMessage::ConnectResult { comm, .. } => Some(*comm),
                    _ => None,
                };
                from == root && result_of == Some(self.uid)
            };
            PollingWait::for_message(rt, matches)?;
            match dynamic::get_mut(rt).take(matches) {
                Some((_, ConnectionMessage::ConnectResult { outcome, .. })) => {
                    outcome.map(|other| (other, 0))
                }
                _ => Err(ERR_INTERN),
            }
        };
        dynamic::get_mut(rt).progress_of(self.thread).found = Some(found);
        Ok(found)
    }
}

/// Returns the name of a connection, which is equal at both roots.
fn connection_name(owner: Worker, from: Worker, attempt: u64) -> u64 {
    assembly_sides::name(format_args!("{owner:?} {from:?} {attempt}"))
}

/// Accepts the first connection request.
fn accept(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<FoundPeer, Rewound> {
    let me = world::worker(rt);
    let Some((owner, number)) = port else {
        return Ok(Err(ERR_PORT));
    };
    if owner != me || !dynamic::get(rt).board.ports.contains(&number) {
        return Ok(Err(ERR_PORT));
    }
    let matches = |_: Worker, message: &ConnectionMessage| message.requested_port() == Some(number);
    PollingWait::for_message(rt, matches)?;
    let request = dynamic::get_mut(rt).take(matches);
    let Some((
        from,
        ConnectionMessage::ConnectRequest {
            attempt, oldest, ..
        },
    )) = request
    else {
        return Ok(Err(ERR_INTERN));
    };
    if let Err(rc) = change_board(rt, |board| {
        board
            .accepted
            .retain(|&(worker, last)| worker != from.0 || last >= oldest);
        board.accepted.insert((from.0, attempt));
    }) {
        return Ok(Err(rc));
    }
    send(rt, from, ConnectionMessage::ConnectAccepted { attempt })?;
    Ok(Ok((from, connection_name(me, from, attempt))))
}

/// Requests a connection, and waits for the answer while the port is open.
fn connect(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<FoundPeer, Rewound> {
    let (me, thread) = (world::worker(rt), mpi_lock::current_block());
    let Some((owner, number)) =
        port.filter(|port| port.0.index() < world::get(rt).process_of.len())
    else {
        return Ok(Err(ERR_PORT));
    };
    if owner == me {
        if dynamic::get(rt).board.ports.contains(&number) {
            log::error!("{}", message::OWN_PORT);
        }
        return Ok(Err(ERR_PORT));
    }
    // True if the port is open, or has accepted this attempt.
    let is_open = |attempt: Option<u64>| {
        let board = boards_or_failure(rendezvous::board_of(rt, owner))?;
        let is_accepted = attempt.is_some_and(|attempt| board.accepted.contains(&(me.0, attempt)));
        Ok(is_accepted || board.ports.contains(&number))
    };
    let earlier_attempt = dynamic::get_mut(rt).progress_of(thread).attempt;
    let attempt = match earlier_attempt {
        Some(attempt) => attempt,
        None => {
            match is_open(None) {
                Ok(true) => {}
                Ok(false) => return Ok(Err(ERR_PORT)),
                Err(rc) => return Ok(Err(rc)),
            }
            let (attempt, oldest) = {
                let state = dynamic::get(rt);
                let attempt = state.last_attempt + 1;
                (attempt, state.oldest().unwrap_or(attempt))
            };
            let port = number;
            send(
                rt,
                owner,
                ConnectionMessage::ConnectRequest {
                    port,
                    attempt,
                    oldest,
                },
            )?;
            let mut state = dynamic::get_mut(rt);
            state.last_attempt = attempt;
            state.progress_of(thread).attempt = Some(attempt);
            attempt
        }
    };
    let matches = |_: Worker, message: &ConnectionMessage| {
        *message == ConnectionMessage::ConnectAccepted { attempt }
    };
    let interval = rendezvous::board_poll_interval(rt, [owner]);
    // A call that yields to other threads is repeated from its entry, where its timer starts again.
    // The repeated call therefore polls at once.
    let first = if earlier_attempt.is_some() {
        Duration::ZERO
    } else {
        interval
    };
    let (mut waiting, mut next) = (PollingWait { polls: 0 }, Instant::now() + first);
    while !has_message(rt, matches)? {
        if Instant::now() >= next {
            next = Instant::now() + interval;
            match is_open(Some(attempt)) {
                Ok(true) => (),
                Ok(false) => return Ok(Err(ERR_PORT)),
                Err(rc) => return Ok(Err(rc)),
            }
        }
        waiting.pause(rt)?;
    }
    cut::enter_waiting_call(rt)?;
    dynamic::get_mut(rt).take(matches);
    Ok(Ok((owner, connection_name(owner, me, attempt))))
}

/// Finds the only other worker that has opened this port.
///
/// The other worker is the process at the other end of a socket.
fn other_end(rt: &Runtime, port: u64) -> Result<Outcome<Worker>, Rewound> {
    let me = world::worker(rt);
    let others = Worker::all(world::get(rt).worker_count).filter(move |other| *other != me);
    let interval = rendezvous::board_poll_interval(rt, others.clone());
    let (mut waiting, began) = (PollingWait { polls: 0 }, Instant::now());
    let (mut next, mut is_reported) = (began, false);
    loop {
        if Instant::now() >= next {
            next = Instant::now() + interval;
            match boards_or_failure(rendezvous::boards_of(rt, others.clone())) {
                Ok(boards) => {
                    if let Some((other, _)) =
                        boards.iter().find(|(_, board)| board.ports.contains(&port))
                    {
                        return Ok(Ok(*other));
                    }
                }
                Err(rc) => return Ok(Err(rc)),
            }
            if !is_reported && began.elapsed() > LONG_WAIT {
                is_reported = true;
                system_calls::print_message(message::join_waits(LONG_WAIT.as_secs()));
            }
        }
        receive_messages(rt)?;
        waiting.pause(rt)?;
    }
}

/// Opens a port, if it is not open.
fn open(rt: &Runtime, port: u64) -> Outcome<()> {
    if dynamic::get(rt).board.ports.contains(&port) {
        return Ok(());
    }
    change_board(rt, |board| {
        board.ports.insert(port);
    })
}

/// Connects the two ends of a socket.
///
/// Both ends open a common port for the duration of the call. Then the worker with the lower number
/// accepts the connection of the other one.
fn connect_socket(rt: &Runtime, port: u64) -> Result<FoundPeer, Rewound> {
    let (me, thread) = (world::worker(rt), mpi_lock::current_block());
    let known = dynamic::get_mut(rt).progress_of(thread).join_peer;
    let found = match known {
        Some(other) => Ok(other),
        None => match open(rt, port) {
            Ok(()) => other_end(rt, port)?,
            Err(rc) => Err(rc),
        },
    };
    dynamic::get_mut(rt).progress_of(thread).join_peer = found.ok();
    let found = match found {
        Ok(other) if me < other => accept(rt, Some((me, port)))?,
        Ok(other) => connect(rt, Some((other, port)))?,
        Err(rc) => Err(rc),
    };
    // Each end closes its port before both create the communicator, so the next call with this
    // socket finds no port of this call.
    dynamic::get_mut(rt).close(port);
    let published = change_board(rt, |_| {});
    Ok(found.and_then(|found| published.map(|()| found)))
}

/// Returns the number of the port that both ends of a connected socket open.
fn port_of_socket(fd: c_int) -> Outcome<u64> {
    if fd < 0 {
        return Err(ERR_ARG);
    }
    // SAFETY: the program owns the descriptor, which `ManuallyDrop` does not close.
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let ends = socket
        .local_addr()
        .and_then(|local| Ok([local, socket.peer_addr()?]));
    let mut ends = ends.map_err(|why| {
        log::error!("{}", message::join_descriptor(fd, why));
        ERR_ARG
    })?;
    // A socket for both versions of the Internet Protocol represents addresses of version 4 as
    // addresses of version 6.
    ends.iter_mut()
        .for_each(|end| end.set_ip(end.ip().to_canonical()));
    ends.sort();
    Ok(assembly_sides::name(format_args!(
        "{} {ends:?}",
        process_info::job()
    )))
}

/// Connects a side, whose root finds the root of the other side by `find`.
unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    root: c_int,
    (comm, newcomm): (VirtComm, *mut VirtComm),
    find: impl FnOnce() -> Result<FoundPeer, Rewound>,
) -> c_int {
    let side = match ConnectionSide::new(rt, comm, root, newcomm) {
        Ok(side) => side,
        Err(rc) => return handle_error(rt, procedure, rc, Some(comm)),
    };
    let found = outcome!(side.find(rt, find));
    if let Ok((other, connection)) = found {
        let both = || assembly_sides::of_connection(rt, comm, root, other, connection);
        outcome!(cut::assemble(rt, both));
    }
    dynamic::get_mut(rt).in_progress.remove(&side.thread);
    let other = match found {
        Ok((other, _)) => other,
        Err(rc) => return handle_error(rt, procedure, rc, Some(comm)),
    };
    let local = real_comm(rt, side.comm);
    let bridge = comm::bridge(rt).unwrap_or(local);
    // SAFETY: communicators of the runtime, and the rank of the other side's root in the bridge.
    construct_by_some!(rt, procedure, comm, newcomm, |new| unsafe {
        real::PMPI_Intercomm_create(local, root, bridge, other.0 as c_int, TAG, new)
    })
}

pub unsafe extern "C" fn MPI_Comm_accept(
    port_name: *const c_char,
    _info: VirtInfo,
    root: c_int,
    comm: VirtComm,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let find = || accept(rt, port_of(port_name));
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe { construct(rt, Proc::MPI_Comm_accept, root, (comm, newcomm), find) }
}

pub unsafe extern "C" fn MPI_Comm_connect(
    port_name: *const c_char,
    _info: VirtInfo,
    root: c_int,
    comm: VirtComm,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let find = || connect(rt, port_of(port_name));
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe { construct(rt, Proc::MPI_Comm_connect, root, (comm, newcomm), find) }
}

pub unsafe extern "C" fn MPI_Comm_join(fd: c_int, intercomm: *mut VirtComm) -> c_int {
    let rt = runtime();
    let find = || match port_of_socket(fd) {
        Ok(port) => connect_socket(rt, port),
        Err(rc) => Ok(Err(rc)),
    };
    let own = comm::self_handle(rt);
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe { construct(rt, Proc::MPI_Comm_join, 0, (own, intercomm), find) }
}
