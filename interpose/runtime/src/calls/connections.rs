//! Connections between processes of the job (MPI 4.1, 11.8).
//!
//! Roots find each other by [`crate::rendezvous`]. Those of `MPI_Comm_join` use the addresses of
//! their socket, to which no data are written. Then both sides are the two groups of an
//! `MPI_Intercomm_create`. While a process waits, cuts may be taken and other threads may call MPI.
//! The call's intermediate results are recorded for its thread, and used if the call is repeated
//! from its entry.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::outcome;
use super::comm::{construct_by_some, may_construct};
use super::dynamic::{Outcome, change, port_of, seen};
use super::sides;
use crate::Runtime;
use crate::arch::{Rewound, turn};
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm};
use crate::objects::comm;
use crate::objects::dynamic::{self, Found, Word};
use crate::raise::raise;
use crate::{cut, recovery, rendezvous, sys, told, world};
use std::ffi::{c_char, c_int};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_numbers::Worker;

/// Message for a failed exchange between processes that connect.
const NO_WORD: &str = "processes that connect cannot exchange messages";
/// Tag of the leaders' messages; see [`comm::bridge`].
const TAG: c_int = 19;
/// Number of polls without a pause; later polls are separated by `PAUSE`.
const QUICK_LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(50);
/// Time after which a wait for the other end of a socket is reported.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Wait of a call.
struct Waiting {
    looks: u32,
}

impl Waiting {
    /// Pauses between two polls; a cut may be taken, and other threads may call MPI.
    fn pause(&mut self, rt: &Runtime) -> Result<(), Rewound> {
        cut::meanwhile(rt)?;
        self.looks = self.looks.saturating_add(1);
        if self.looks > QUICK_LOOKS {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for a control message that matches, and leaves it in the queue.
    ///
    /// If the program is rolled back to a cut in this wait, the call starts from its entry.
    fn for_word(rt: &Runtime, is_it: impl Fn(Worker, &Word) -> bool) -> Result<(), Rewound> {
        let mut waiting = Waiting { looks: 0 };
        while !hears(rt, &is_it)? {
            waiting.pause(rt)?;
        }
        // From here on the call cannot be left before it completes.
        cut::hold(rt)
    }
}

/// Receives control messages; the library makes progress.
fn hear(rt: &Runtime) -> Result<(), Rewound> {
    recovery::check_own(rt, rendezvous::hear(rt), NO_WORD)
}

/// Returns true if a control message matches.
fn hears(rt: &Runtime, is_it: impl Fn(Worker, &Word) -> bool) -> Result<bool, Rewound> {
    hear(rt)?;
    Ok(dynamic::get(rt).has(is_it))
}

fn say(rt: &Runtime, to: Worker, word: Word) -> Result<(), Rewound> {
    recovery::check_own(rt, rendezvous::tell(rt, to, word), NO_WORD)
}

/// Side of a connection.
struct Side {
    comm: VirtComm,
    uid: u64,
    members: Vec<Worker>,
    rank: c_int,
    root: c_int,
    /// The calling thread.
    thread: usize,
}

impl Side {
    fn new(rt: &Runtime, comm: VirtComm, root: c_int, newcomm: *mut VirtComm) -> Outcome<Side> {
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
            None => Ok(Side {
                comm,
                uid: recipe.uid,
                members: recipe.members.clone(),
                rank,
                root,
                thread: turn::block(),
            }),
        }
    }

    /// Sends the root's result to the other members.
    fn go(&self, rt: &Runtime, found: Found) -> Result<(), Rewound> {
        let others = self.members.iter().enumerate();
        for (_, &member) in others.filter(|(rank, _)| *rank != self.root as usize) {
            let (comm, outcome) = (self.uid, found.map(|(other, _)| other));
            say(rt, member, Word::Go { comm, outcome })?;
        }
        Ok(())
    }

    /// Returns the other side, which this side's root has found.
    fn find(
        &self,
        rt: &Runtime,
        root: impl FnOnce() -> Result<Found, Rewound>,
    ) -> Result<Found, Rewound> {
        let before = dynamic::get_mut(rt).begun(self.thread).found;
        if let Some(found) = before {
            return Ok(found);
        }
        cut::here(rt)?;
        let found = if self.rank == self.root {
            let found = root()?;
            self.go(rt, found)?;
            found
        } else {
            // Another root may have entered the next call already.
            let root = self.members[self.root as usize];
            let is_it = |from: Worker, word: &Word| {
                from == root && matches!(word, Word::Go { comm, .. } if *comm == self.uid)
            };
            Waiting::for_word(rt, is_it)?;
            match dynamic::get_mut(rt).take(is_it) {
                Some((_, Word::Go { outcome, .. })) => outcome.map(|other| (other, 0)),
                _ => Err(ERR_INTERN),
            }
        };
        dynamic::get_mut(rt).begun(self.thread).found = Some(found);
        Ok(found)
    }
}

/// Returns the name of a connection, which is equal at both roots.
fn connection(owner: Worker, from: Worker, attempt: u64) -> u64 {
    sides::name(format_args!("{owner:?} {from:?} {attempt}"))
}

/// Accepts the first connection request.
fn accept(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<Found, Rewound> {
    let me = world::worker(rt);
    let Some((owner, number)) = port else {
        return Ok(Err(ERR_PORT));
    };
    if owner != me || !dynamic::get(rt).board.ports.contains(&number) {
        return Ok(Err(ERR_PORT));
    }
    let is_it =
        |_: Worker, word: &Word| matches!(word, Word::Knock { port, .. } if *port == number);
    Waiting::for_word(rt, is_it)?;
    let knock = dynamic::get_mut(rt).take(is_it);
    let Some((
        from,
        Word::Knock {
            attempt, oldest, ..
        },
    )) = knock
    else {
        return Ok(Err(ERR_INTERN));
    };
    if let Err(rc) = change(rt, |board| {
        board
            .welcomed
            .retain(|&(who, last)| who != from.0 || last >= oldest);
        board.welcomed.insert((from.0, attempt));
    }) {
        return Ok(Err(rc));
    }
    say(rt, from, Word::Welcome { attempt })?;
    Ok(Ok((from, connection(me, from, attempt))))
}

/// Requests a connection, and waits for the answer while the port is open.
fn connect(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<Found, Rewound> {
    let (me, thread) = (world::worker(rt), turn::block());
    let Some((owner, number)) = port.filter(|port| port.0.index() < world::get(rt).players.len())
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
        let board = seen(rendezvous::look(rt, owner))?;
        let is_welcome = attempt.is_some_and(|attempt| board.welcomed.contains(&(me.0, attempt)));
        Ok(is_welcome || board.ports.contains(&number))
    };
    let begun = dynamic::get_mut(rt).begun(thread).attempt;
    let attempt = match begun {
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
            say(
                rt,
                owner,
                Word::Knock {
                    port,
                    attempt,
                    oldest,
                },
            )?;
            let mut state = dynamic::get_mut(rt);
            state.last_attempt = attempt;
            state.begun(thread).attempt = Some(attempt);
            attempt
        }
    };
    let is_it = |_: Worker, word: &Word| *word == Word::Welcome { attempt };
    let interval = rendezvous::interval(rt, [owner]);
    // A call that yields to other threads repeatedly polls each time.
    let first = if begun.is_some() {
        Duration::ZERO
    } else {
        interval
    };
    let (mut waiting, mut next) = (Waiting { looks: 0 }, Instant::now() + first);
    while !hears(rt, is_it)? {
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
    cut::hold(rt)?;
    dynamic::get_mut(rt).take(is_it);
    Ok(Ok((owner, connection(owner, me, attempt))))
}

/// Finds the only other worker that has opened this port.
///
/// It is the process at the other end of a socket.
fn other_end(rt: &Runtime, port: u64) -> Result<Outcome<Worker>, Rewound> {
    let me = world::worker(rt);
    let others = Worker::all(world::get(rt).worker_count).filter(move |other| *other != me);
    let interval = rendezvous::interval(rt, others.clone());
    let (mut waiting, began) = (Waiting { looks: 0 }, Instant::now());
    let (mut next, mut told) = (began, false);
    loop {
        if Instant::now() >= next {
            next = Instant::now() + interval;
            match seen(rendezvous::look_at(rt, others.clone())) {
                Ok(boards) => {
                    if let Some((other, _)) =
                        boards.iter().find(|(_, board)| board.ports.contains(&port))
                    {
                        return Ok(Ok(*other));
                    }
                }
                Err(rc) => return Ok(Err(rc)),
            }
            if !told && began.elapsed() > LONG_WAIT {
                told = true;
                sys::say(message::join_waits(LONG_WAIT.as_secs()));
            }
        }
        hear(rt)?;
        waiting.pause(rt)?;
    }
}

/// Opens a port, if it is not open.
fn open(rt: &Runtime, port: u64) -> Outcome<()> {
    if dynamic::get(rt).board.ports.contains(&port) {
        return Ok(());
    }
    change(rt, |board| {
        board.ports.insert(port);
    })
}

/// Connects the two ends of a socket.
///
/// Both open a common port for the duration of the call; then the lower worker accepts the
/// connection of the other.
fn join_by(rt: &Runtime, port: u64) -> Result<Found, Rewound> {
    let (me, thread) = (world::worker(rt), turn::block());
    let known = dynamic::get_mut(rt).begun(thread).joins;
    let found = match known {
        Some(other) => Ok(other),
        None => match open(rt, port) {
            Ok(()) => other_end(rt, port)?,
            Err(rc) => Err(rc),
        },
    };
    dynamic::get_mut(rt).begun(thread).joins = found.ok();
    let found = match found {
        Ok(other) if me < other => accept(rt, Some((me, port)))?,
        Ok(other) => connect(rt, Some((other, port)))?,
        Err(rc) => Err(rc),
    };
    // Neither end returns before the other has reached this point. So the next call with this
    // socket finds no old port.
    dynamic::get_mut(rt).close(port);
    let shown = change(rt, |_| {});
    Ok(found.and_then(|found| shown.map(|()| found)))
}

/// Returns the number of the port that both ends of a connected socket open.
fn port_of_socket(fd: c_int) -> Outcome<u64> {
    if fd < 0 {
        return Err(ERR_ARG);
    }
    // SAFETY: a descriptor of the program, which is not closed here.
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
    Ok(sides::name(format_args!("{} {ends:?}", told::job())))
}

/// Makes the communicator of one side, whose root finds the other side by `find`.
unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    root: c_int,
    (comm, newcomm): (VirtComm, *mut VirtComm),
    find: impl FnOnce() -> Result<Found, Rewound>,
) -> c_int {
    let side = match Side::new(rt, comm, root, newcomm) {
        Ok(side) => side,
        Err(rc) => return raise(rt, procedure, rc, Some(comm)),
    };
    let found = outcome!(side.find(rt, find));
    if let Ok((other, connection)) = found {
        let both = || sides::of_connection(rt, comm, root, other, connection);
        outcome!(cut::assemble(rt, both));
    }
    dynamic::get_mut(rt).begun.remove(&side.thread);
    let other = match found {
        Ok((other, _)) => other,
        Err(rc) => return raise(rt, procedure, rc, Some(comm)),
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
    // SAFETY: the program's arguments are passed on.
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
    // SAFETY: the program's arguments are passed on.
    unsafe { construct(rt, Proc::MPI_Comm_connect, root, (comm, newcomm), find) }
}

pub unsafe extern "C" fn MPI_Comm_join(fd: c_int, intercomm: *mut VirtComm) -> c_int {
    let rt = runtime();
    let find = || match port_of_socket(fd) {
        Ok(port) => join_by(rt, port),
        Err(rc) => Ok(Err(rc)),
    };
    let own = comm::self_handle(rt);
    // SAFETY: the program's arguments are passed on.
    unsafe { construct(rt, Proc::MPI_Comm_join, 0, (own, intercomm), find) }
}
