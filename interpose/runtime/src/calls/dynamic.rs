//! Ports, names, and connections between processes of the job (MPI 4.1, 11.8).
//!
//! Roots find each other by [`crate::rendezvous`], those of `MPI_Comm_join` by the addresses of their socket, to which nothing is written; then both sides are the two groups of an `MPI_Intercomm_create`. A cut may fall as long as
//! a process waits: it takes nothing of what it has heard before it goes on to make the communicator.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::{outcome, put_text};
use super::comm::{construct_by_some, may_construct};
use crate::arch::Rewound;
use crate::attention::{self, SEVERAL};
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, real_comm};
use crate::objects::comm;
use crate::objects::dynamic::{self, Board, Word};
use crate::raise::{raise, unsupported};
use crate::recovery::Runtime;
use crate::{cut, recovery, rendezvous, sys, told, world};
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};
use understudy_mpi::call;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// What it means if processes that connect cannot tell each other.
const NO_WORD: &str = "processes that connect cannot tell each other";
/// Tag of the leaders' messages; see [`comm::bridge`].
const TAG: c_int = 19;
/// What the names of ports begin with.
const PREFIX: &str = "understudy:";
/// So many looks follow each other without a pause; then there is one between two.
const QUICK_LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(50);
/// After this time a process that waits for the other end of a socket says so.
const LONG_WAIT: Duration = Duration::from_secs(10);

type Outcome<T> = Result<T, c_int>;

fn unreadable(why: &io::Error) -> c_int {
    log::error!("what the workers show each other of their ports cannot be read or written: {why}");
    ERR_INTERN
}

/// What has been seen of other workers, unless a process has failed meanwhile.
fn seen<T>(looked: io::Result<Option<T>>) -> Outcome<T> {
    looked.map_err(|why| unreadable(&why))?.ok_or(call::ABANDONED)
}

/// The owner of a port, and its number.
fn port_of(name: *const c_char) -> Option<(Worker, u64)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: a C string of the program.
    let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
    let (worker, number) = name.strip_prefix(PREFIX)?.split_once(':')?;
    Some((Worker(worker.parse().ok()?), u64::from_str_radix(number, 16).ok()?))
}

/// Changes the board, and undoes that if it cannot be shown.
fn change(rt: &Runtime, change: impl FnOnce(&mut Board)) -> Outcome<()> {
    let before = dynamic::get(rt).board.clone();
    change(&mut dynamic::get_mut(rt).board);
    rendezvous::show(rt, world::worker(rt)).map_err(|why| {
        dynamic::get_mut(rt).board = before;
        unreadable(&why)
    })
}

fn finish(rt: &Runtime, procedure: Proc, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(rc) => raise(rt, procedure, rc, None),
    }
}

pub unsafe extern "C" fn MPI_Open_port(_info: VirtInfo, port_name: *mut c_char) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Open_port;
    if port_name.is_null() {
        return finish(rt, procedure, Err(ERR_ARG));
    }
    // Ports of another job are other numbers.
    let number = dynamic::get_mut(rt).number(xxh3_64(told::job().as_bytes()));
    let opened = change(rt, |board| {
        board.ports.insert(number);
    });
    if opened.is_ok() {
        let name = format!("{PREFIX}{}:{number:x}", world::worker(rt).0);
        // SAFETY: the program's place for it, of MPI_MAX_PORT_NAME characters.
        unsafe { put_text(port_name, name.as_bytes()) };
    }
    finish(rt, procedure, opened)
}

pub unsafe extern "C" fn MPI_Close_port(port_name: *const c_char) -> c_int {
    let rt = runtime();
    let me = world::worker(rt);
    let closed = match port_of(port_name) {
        Some((owner, number)) if owner == me && dynamic::get_mut(rt).close(number) => change(rt, |_| {}),
        _ => Err(ERR_PORT),
    };
    finish(rt, Proc::MPI_Close_port, closed)
}

/// The name of a service.
fn service(name: *const c_char) -> Outcome<Vec<u8>> {
    if name.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: a C string of the program.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

/// The port of a service that any worker of the job has published.
fn find(rt: &Runtime, service: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let boards = seen(rendezvous::look_at(rt, Worker::all(world::get(rt).worker_count)))?;
    Ok(boards
        .into_iter()
        .find_map(|(_, mut board)| board.names.remove(service)))
}

pub unsafe extern "C" fn MPI_Publish_name(
    service_name: *const c_char,
    _info: VirtInfo,
    port_name: *const c_char,
) -> c_int {
    let rt = runtime();
    let published = service(service_name).and_then(|name| {
        let port = service(port_name)?;
        match find(rt, &name)? {
            Some(_) => Err(ERR_SERVICE),
            None => change(rt, |board| {
                board.names.insert(name, port);
            }),
        }
    });
    finish(rt, Proc::MPI_Publish_name, published)
}

pub unsafe extern "C" fn MPI_Unpublish_name(
    service_name: *const c_char,
    _info: VirtInfo,
    _port_name: *const c_char,
) -> c_int {
    let rt = runtime();
    let taken_back = service(service_name).and_then(|name| {
        if !dynamic::get(rt).board.names.contains_key(&name) {
            return Err(ERR_SERVICE);
        }
        change(rt, |board| {
            board.names.remove(&name);
        })
    });
    finish(rt, Proc::MPI_Unpublish_name, taken_back)
}

pub unsafe extern "C" fn MPI_Lookup_name(
    service_name: *const c_char,
    _info: VirtInfo,
    port_name: *mut c_char,
) -> c_int {
    let rt = runtime();
    let found = service(service_name).and_then(|name| {
        if port_name.is_null() {
            return Err(ERR_ARG);
        }
        let port = find(rt, &name)?.ok_or(ERR_NAME)?;
        // SAFETY: the program's place for it; the name of a port that fits there has been published.
        unsafe { put_text(port_name, &port) };
        Ok(())
    });
    finish(rt, Proc::MPI_Lookup_name, found)
}

/// What a call waits for.
struct Waiting {
    looks: u32,
}

impl Waiting {
    /// One more look at what has come: a cut may be taken.
    fn look(&mut self, rt: &Runtime) -> Result<(), Rewound> {
        cut::meanwhile(rt)?;
        recovery::check_own(rt, rendezvous::hear(rt), NO_WORD)?;
        self.looks = self.looks.saturating_add(1);
        if self.looks > QUICK_LOOKS {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Until such a word is there. It stays there: set back to a cut in here, the call begins anew.
    fn for_word(rt: &Runtime, is_it: impl Fn(&Word) -> bool) -> Result<(), Rewound> {
        let mut waiting = Waiting { looks: 0 };
        while !dynamic::get(rt).has(&is_it) {
            waiting.look(rt)?;
        }
        // From here on nothing can be left half-way.
        cut::hold(rt)
    }
}

fn say(rt: &Runtime, to: Worker, word: Word) -> Result<(), Rewound> {
    recovery::check_own(rt, rendezvous::tell(rt, to, word), NO_WORD)
}

/// One side of a connection.
struct Side {
    comm: VirtComm,
    uid: u64,
    members: Vec<Worker>,
    rank: c_int,
    root: c_int,
}

impl Side {
    fn new(rt: &Runtime, comm: VirtComm, root: c_int, newcomm: *mut VirtComm) -> Outcome<Side> {
        may_construct(rt, comm, newcomm)?;
        let recipe = comm::get(rt, comm).ok_or(ERR_COMM)?;
        let (rank, size) = comm::rank_and_size(rt, comm).ok_or(ERR_COMM)?;
        match &recipe.remote {
            Some(_) => Err(ERR_COMM),
            None if !(0..size).contains(&root) => Err(ERR_ROOT),
            None => Ok(Side {
                comm,
                uid: recipe.uid,
                members: recipe.members.clone(),
                rank,
                root,
            }),
        }
    }

    /// Tells the other members, by the root.
    fn go(&self, rt: &Runtime, outcome: Outcome<Worker>) -> Result<(), Rewound> {
        let others = self.members.iter().enumerate();
        for (_, &member) in others.filter(|(rank, _)| *rank != self.root as usize) {
            let comm = self.uid;
            say(rt, member, Word::Go { comm, outcome })?;
        }
        Ok(())
    }

    /// The other side's root: what this side's has found.
    fn find(
        &self,
        rt: &Runtime,
        root: impl FnOnce() -> Result<Outcome<Worker>, Rewound>,
    ) -> Result<Outcome<Worker>, Rewound> {
        cut::here(rt)?;
        if self.rank == self.root {
            let outcome = root()?;
            self.go(rt, outcome)?;
            return Ok(outcome);
        }
        let is_it = |word: &Word| matches!(word, Word::Go { comm, .. } if *comm == self.uid);
        Waiting::for_word(rt, is_it)?;
        Ok(match dynamic::get_mut(rt).take(is_it) {
            Some((_, Word::Go { outcome, .. })) => outcome,
            _ => Err(ERR_INTERN),
        })
    }
}

/// Accepts the first that knocks.
fn accept(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<Outcome<Worker>, Rewound> {
    let me = world::worker(rt);
    let Some((owner, number)) = port else {
        return Ok(Err(ERR_PORT));
    };
    if owner != me || !dynamic::get(rt).board.ports.contains(&number) {
        return Ok(Err(ERR_PORT));
    }
    let is_it = |word: &Word| matches!(word, Word::Knock { port, .. } if *port == number);
    Waiting::for_word(rt, is_it)?;
    let Some((from, Word::Knock { attempt, .. })) = dynamic::get_mut(rt).take(is_it) else {
        return Ok(Err(ERR_INTERN));
    };
    if let Err(rc) = change(rt, |board| {
        board.welcomed.insert(from.0, attempt);
    }) {
        return Ok(Err(rc));
    }
    say(rt, from, Word::Welcome { attempt })?;
    Ok(Ok(from))
}

/// Knocks, and waits for the welcome as long as the port is open.
fn connect(rt: &Runtime, port: Option<(Worker, u64)>) -> Result<Outcome<Worker>, Rewound> {
    let me = world::worker(rt);
    let Some((owner, number)) = port.filter(|port| port.0.index() < world::get(rt).players.len()) else {
        return Ok(Err(ERR_PORT));
    };
    if owner == me {
        if dynamic::get(rt).board.ports.contains(&number) {
            log::error!("MPI_Comm_connect: a process cannot connect to its own port under protection");
        }
        return Ok(Err(ERR_PORT));
    }
    // Whether an attempt of this process may still have an answer.
    let is_open = |attempt: u64| {
        let board = seen(rendezvous::look(rt, owner))?;
        Ok(board.ports.contains(&number) || board.welcomed.get(&me.0).is_some_and(|last| *last >= attempt))
    };
    let waits = dynamic::get(rt).waits;
    let attempt = match waits {
        Some(attempt) => attempt,
        None => {
            match is_open(u64::MAX) {
                Ok(true) => {}
                Ok(false) => return Ok(Err(ERR_PORT)),
                Err(rc) => return Ok(Err(rc)),
            }
            let attempt = dynamic::get(rt).last_attempt + 1;
            say(rt, owner, Word::Knock { port: number, attempt })?;
            let mut state = dynamic::get_mut(rt);
            (state.last_attempt, state.waits) = (attempt, Some(attempt));
            attempt
        }
    };
    let welcome = Word::Welcome { attempt };
    let interval = rendezvous::interval(rt, [owner]);
    let (mut waiting, mut next) = (Waiting { looks: 0 }, Instant::now() + interval);
    while !dynamic::get(rt).has(|word| *word == welcome) {
        waiting.look(rt)?;
        if Instant::now() >= next {
            next = Instant::now() + interval;
            let refused = match is_open(attempt) {
                Ok(true) => continue,
                Ok(false) => ERR_PORT,
                Err(rc) => rc,
            };
            dynamic::get_mut(rt).waits = None;
            return Ok(Err(refused));
        }
    }
    cut::hold(rt)?;
    let mut state = dynamic::get_mut(rt);
    state.take(|word| *word == welcome);
    state.waits = None;
    Ok(Ok(owner))
}

/// The only worker besides this one that has opened this port: the process at the other end of a socket.
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
                    if let Some((other, _)) = boards.iter().find(|(_, board)| board.ports.contains(&port)) {
                        return Ok(Ok(*other));
                    }
                }
                Err(rc) => return Ok(Err(rc)),
            }
            if !told && began.elapsed() > LONG_WAIT {
                told = true;
                sys::say(format_args!(
                    "MPI_Comm_join has waited for {} s for the process at the other end of its socket, which must be a worker of this \
                     job and call MPI_Comm_join, too",
                    LONG_WAIT.as_secs()
                ));
            }
        }
        waiting.look(rt)?;
    }
}

/// Both ends of a socket open the same port for the time of the call; then the lower worker accepts the other one.
fn join_by(rt: &Runtime, port: u64) -> Result<Outcome<Worker>, Rewound> {
    let me = world::worker(rt);
    let opened = change(rt, |board| {
        board.ports.insert(port);
    });
    let found = match opened {
        Ok(()) => other_end(rt, port)?,
        Err(rc) => Err(rc),
    };
    let found = match found {
        Ok(other) if me < other => accept(rt, Some((me, port)))?,
        Ok(other) => connect(rt, Some((other, port)))?,
        Err(rc) => Err(rc),
    };
    // Neither end leaves the call before the other one has come here: so the next call with this socket finds no old port.
    dynamic::get_mut(rt).close(port);
    let shown = change(rt, |_| {});
    Ok(found.and_then(|other| shown.map(|()| other)))
}

/// The number of the port that both ends of a connected socket open.
fn port_of_socket(fd: c_int) -> Outcome<u64> {
    if fd < 0 {
        return Err(ERR_ARG);
    }
    // SAFETY: a descriptor of the program, which stays open and the program's.
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let ends = socket.local_addr().and_then(|local| Ok([local, socket.peer_addr()?]));
    let mut ends = ends.map_err(|why| {
        log::error!("MPI_Comm_join: descriptor {fd} is not a connected TCP socket: {why}");
        ERR_ARG
    })?;
    // A socket for both versions of the Internet Protocol sees addresses of version 4 as some of version 6.
    ends.iter_mut().for_each(|end| end.set_ip(end.ip().to_canonical()));
    ends.sort();
    Ok(xxh3_64(format!("{} {ends:?}", told::job()).as_bytes()))
}

/// Makes the communicator of one side, whose root finds the other one by `find`.
unsafe fn construct(
    rt: &Runtime,
    procedure: Proc,
    root: c_int,
    (comm, newcomm): (VirtComm, *mut VirtComm),
    find: impl FnOnce() -> Result<Outcome<Worker>, Rewound>,
) -> c_int {
    if attention::is_multiple() && attention::is(SEVERAL) {
        log::error!(
            "{}: several threads call MPI (MPI_THREAD_MULTIPLE), which might wait for each other",
            procedure.name()
        );
        return unsupported(rt, procedure);
    }
    let side = match Side::new(rt, comm, root, newcomm) {
        Ok(side) => side,
        Err(rc) => return raise(rt, procedure, rc, Some(comm)),
    };
    let found = side.find(rt, find);
    let other = match outcome!(found) {
        Ok(other) => other,
        Err(rc) => return raise(rt, procedure, rc, Some(comm)),
    };
    let local = real_comm(rt, side.comm);
    let bridge = comm::bridge(rt).unwrap_or(local);
    // SAFETY: communicators of ours, and the rank of the other side's root in the bridge.
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
    // SAFETY: the program's arguments are handed on.
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
    // SAFETY: the program's arguments are handed on.
    unsafe { construct(rt, Proc::MPI_Comm_connect, root, (comm, newcomm), find) }
}

pub unsafe extern "C" fn MPI_Comm_join(fd: c_int, intercomm: *mut VirtComm) -> c_int {
    let rt = runtime();
    let find = || match port_of_socket(fd) {
        Ok(port) => join_by(rt, port),
        Err(rc) => Ok(Err(rc)),
    };
    let own = comm::self_handle(rt);
    // SAFETY: the program's arguments are handed on.
    unsafe { construct(rt, Proc::MPI_Comm_join, 0, (own, intercomm), find) }
}
