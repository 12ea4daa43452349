//! The other processes of the job on this node, so that an abort can end them.
//!
//! With fault tolerance on, Open MPI's MPI_Abort ends only its caller: the launcher takes it for one more failure, and
//! the others wait for ever. Processes of this node are therefore ended through descriptors (pidfd_open(2)), which cannot
//! hit another process; those of other nodes are told in a meeting of all (see `recovery::announce_abort`).
#![allow(unsafe_code)]

use crate::cell::Main;
use crate::generated::real;
use crate::handles;
use crate::real_types::RealComm;
use crate::user;
use std::ffi::c_int;

/// Length of a host name, the terminating zero included (HOST_NAME_MAX of Linux).
const NAME: usize = 65;

/// What a process tells the others of itself.
#[repr(C)]
#[derive(Clone, Copy)]
struct Card {
    pid: u32,
    /// Padded with zeros.
    host: [u8; NAME],
}

#[derive(Default)]
struct Peers {
    /// Descriptors of the processes on this node.
    local: Vec<c_int>,
    /// Whether there are processes on other nodes.
    others: bool,
    /// Host of each rank of the launcher's world.
    hosts: Vec<String>,
}

static PEERS: Main<Peers> = Main::new(Peers {
    local: Vec::new(),
    others: false,
    hosts: Vec::new(),
});

/// Learns who is on which node; a collective over the launcher's world.
pub fn meet(world: RealComm) {
    let mut own = Card {
        pid: std::process::id(),
        host: [0; NAME],
    };
    for (to, from) in own.host[..NAME - 1].iter_mut().zip(user::host_name().bytes()) {
        *to = from;
    }
    let (mut size, length) = (0, size_of::<Card>() as c_int);
    let bytes = handles::byte_type();
    // SAFETY: one card from everybody.
    let all = unsafe {
        real::PMPI_Comm_size(world, &mut size);
        let mut all = vec![own; size as usize];
        let (from, to) = ((&raw const own).cast(), all.as_mut_ptr().cast());
        if real::PMPI_Allgather(from, length, bytes, to, length, bytes, world) != 0 {
            return;
        }
        all
    };
    let peers = PEERS.get();
    for card in all.iter().filter(|card| card.host == own.host && card.pid != own.pid) {
        // SAFETY: pidfd_open(2).
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, card.pid as libc::pid_t, 0) } as c_int;
        if descriptor >= 0 {
            peers.local.push(lift(descriptor));
        }
    }
    peers.others = all.iter().any(|card| card.host != own.host);
    let name =
        |card: &Card| String::from_utf8_lossy(card.host.split(|byte| *byte == 0).next().unwrap_or(&[])).into_owned();
    peers.hosts = all.iter().map(name).collect();
}

/// The host of a rank of the launcher's world.
pub fn host(launcher_rank: u32) -> &'static str {
    PEERS
        .get()
        .hosts
        .get(launcher_rank as usize)
        .map_or("an unknown host", String::as_str)
}

/// Moves a descriptor out of the user side's range.
fn lift(descriptor: c_int) -> c_int {
    // SAFETY: fcntl(2) and close(2) on a descriptor that was just made.
    unsafe {
        let high = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, understudy_abi::RUNTIME_FD_BASE);
        if high < 0 {
            return descriptor;
        }
        libc::close(descriptor);
        high
    }
}

/// Whether there are processes on other nodes.
pub fn has_others() -> bool {
    PEERS.get().others
}

/// Descriptors of the other processes of this node.
pub fn local() -> &'static [c_int] {
    &PEERS.get().local
}

/// Whether the process behind a descriptor has ended (it is readable then, pidfd_open(2)).
pub fn has_ended(descriptor: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: poll(2) of one descriptor, without waiting.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// Ends the other processes of this node.
pub fn end_local() {
    for &descriptor in &PEERS.get().local {
        let none: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: pidfd_send_signal(2); a process that has ended already is no error.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, libc::SIGKILL, none, 0) };
    }
}
