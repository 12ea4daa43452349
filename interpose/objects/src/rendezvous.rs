//! Rendezvous of processes that connect (MPI 4.1, 11.8), with boards and messages.
//!
//! ```text
//!   connecting process                                                accepting process
//!     reads the other's board: port is open
//!     ConnectRequest(port, attempt) ───────────────────────────────►    waits for a request
//!     waits, or reads on the board    ◄──── ConnectAccepted(attempt) ── records the attempt on
//!     that the port has been closed                                     its board
//!     ConnectResult ──► other members                                   ConnectResult ──► other
//!     of its communicator                                               members
//! ```
//!
//! The messages ([`ConnectionMessage`]) use a communicator of all workers that the program does not
//! see, and count as messages of the program: a cut receives all of them. A *board* is a file in
//! the memory of the node, which other processes can read at any time, and which is replaced as a
//! whole. After a rollback each worker writes its board from the restored state before any process
//! continues. The node manager of another node reads the boards of that node.
#![allow(unsafe_code)]

use crate::Runtime;
use crate::generated::real;
use crate::objects::comm;
use crate::objects::dynamic::{self, ConnectionMessage, PublicBoard};
use crate::requests::{self, EMPTY_STATUS, RequestKind, RequestState};
use crate::{process_info, reinit, user, world};
use bincode::config::standard;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::private_directories::{create_anew, read_own};
use understudy_mpi::bytes::byte;
use understudy_mpi::in_flight::InFlight;
use understudy_mpi::real_types::RealRequest;
use understudy_mpi::{self as mpi, check};
use understudy_numbers::{ProcessNumber, Worker};
use understudy_relay::board;

/// Tag of the messages.
const TAG: c_int = 18;
/// Interval between two reads of boards on this node.
const INTERVAL: Duration = Duration::from_millis(5);
/// Interval between two reads of boards on other nodes.
const REMOTE_INTERVAL: Duration = Duration::from_millis(50);
/// Size of a message in bytes, which is more than any [`ConnectionMessage`] needs.
const MESSAGE_BYTES: usize = 64;

/// Sends a message to a worker.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn send(rt: &Runtime, to: Worker, message: ConnectionMessage) -> mpi::Result<()> {
    let mut bytes = Box::new([0u8; MESSAGE_BYTES]);
    bincode::encode_into_slice(message, &mut bytes[..], standard())
        .map_err(|_| mpi::Error::INTERN)?;
    let bridge = comm::bridge(rt).ok_or(mpi::Error::INTERN)?;
    let (mut request, mut status, mut flag) = (RealRequest(ptr::null_mut()), EMPTY_STATUS, 0);
    // SAFETY: the bytes are freed only if the send is complete, and are leaked otherwise.
    unsafe {
        let rank = to.0 as c_int;
        check(real::PMPI_Isend(
            bytes.as_ptr().cast(),
            MESSAGE_BYTES as c_int,
            byte(),
            rank,
            TAG,
            bridge,
            &mut request,
        ))?;
    }
    requests::table_mut(rt).count_sent(Some(to));
    // SAFETY: an active request of the runtime, and variables of this frame.
    let tested = check(unsafe { real::PMPI_Test(&mut request, &mut flag, &mut status) });
    if flag == 0 {
        Box::leak(bytes);
        if tested.is_ok() {
            let mut sent = requests::add(
                rt,
                comm::world_handle(rt),
                RequestKind::Send,
                RequestState::Active,
                request,
            );
            requests::free(rt, &mut sent);
        }
    }
    tested
}

/// Receives all messages that have arrived.
///
/// # Errors
/// Fails if a real procedure fails.
pub fn receive_arrived(rt: &Runtime) -> mpi::Result<()> {
    let Some(bridge) = comm::bridge(rt) else {
        return Ok(());
    };
    while let Some((from, message)) = InFlight::receive_arrived(bridge, None, TAG)? {
        let bytes = message.wait()?;
        requests::table_mut(rt).count_received(Some(from));
        let (message, _) =
            bincode::decode_from_slice(&bytes, standard()).map_err(|_| mpi::Error::INTERN)?;
        dynamic::get_mut(rt).record(from, message);
    }
    Ok(())
}

fn board_path(worker: Worker) -> PathBuf {
    user::in_job_memory(&process_info::job(), &board(worker))
}

/// Publishes the state of this worker on its board.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn publish_board(rt: &Runtime, me: Worker) -> io::Result<()> {
    let (path, new) = (
        board_path(me),
        user::in_job_memory(&process_info::job(), &format!("{}.new-board", me.0)),
    );
    let bytes = {
        let state = dynamic::get(rt);
        bincode::encode_to_vec(&state.board, standard()).map_err(io::Error::other)?
    };
    create_anew(&new)?.write_all(&bytes)?;
    std::fs::rename(&new, &path)
}

/// Publishes the state of this worker after a rollback or at the start.
///
/// The file of an empty board is removed.
///
/// # Errors
/// Fails with an internal error, after a log line, if the file cannot be written or removed.
pub fn republish_board(rt: &Runtime, me: Worker) -> mpi::Result<()> {
    let written = if dynamic::get(rt).board != PublicBoard::default() {
        publish_board(rt, me)
    } else {
        match std::fs::remove_file(board_path(me)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    written.map_err(|why| {
        log::error!("{}", message::ports_not_written(why));
        mpi::Error::INTERN
    })
}

/// Returns the interval at which a waiting process reads the boards of these workers.
pub fn board_poll_interval(rt: &Runtime, workers: impl IntoIterator<Item = Worker>) -> Duration {
    match workers
        .into_iter()
        .any(|worker| is_on_other_node(rt, worker))
    {
        true => REMOTE_INTERVAL,
        false => INTERVAL,
    }
}

/// True if this worker is on another node.
fn is_on_other_node(rt: &Runtime, worker: Worker) -> bool {
    let world = world::get(rt);
    let node_of = |process: ProcessNumber| world.nodes.get(process.index());
    let process = world.process_of.get(worker.index());
    process.is_some_and(|&process| node_of(process) != node_of(world.process))
}

/// Returns the board of a worker.
///
/// `None` if a process has failed before the board was read.
///
/// # Errors
/// Fails if the board exists and cannot be read or decoded.
pub fn board_of(rt: &Runtime, worker: Worker) -> io::Result<Option<PublicBoard>> {
    let boards = boards_of(rt, [worker])?;
    Ok(boards.map(|mut boards| boards.pop().map(|(_, board)| board).unwrap_or_default()))
}

/// Returns the boards of these workers.
///
/// The boards of each other node are read by one request. `None` if a process has failed before
/// they were read.
///
/// # Errors
/// Fails if a board exists and cannot be read or decoded.
pub fn boards_of(
    rt: &Runtime,
    workers: impl IntoIterator<Item = Worker>,
) -> io::Result<Option<Vec<(Worker, PublicBoard)>>> {
    let world = world::get(rt);
    let mut boards = Vec::new();
    let mut requests: BTreeMap<Option<&u64>, (ProcessNumber, Vec<Worker>)> = BTreeMap::new();
    for worker in workers {
        match world.process_of.get(worker.index()) {
            Some(&process) if is_on_other_node(rt, worker) => {
                let request = requests.entry(world.nodes.get(process.index()));
                request.or_insert((process, Vec::new())).1.push(worker);
            }
            _ => boards.push((worker, decode(&read_own(&board_path(worker))?)?)),
        }
    }
    for (process, workers) in requests.into_values() {
        let Some(remote_boards) = reinit::boards(rt, process, workers.clone())? else {
            return Ok(None);
        };
        for (worker, bytes) in workers.into_iter().zip(remote_boards) {
            boards.push((worker, decode(&bytes.map_err(io::Error::other)?)?));
        }
    }
    Ok(Some(boards))
}

/// Decodes a board; a missing or empty file is an empty board.
fn decode(bytes: &[u8]) -> io::Result<PublicBoard> {
    if bytes.is_empty() {
        return Ok(PublicBoard::default());
    }
    let decoded = bincode::decode_from_slice(bytes, standard()).map_err(io::Error::other);
    decoded.map(|(board, _)| board)
}
