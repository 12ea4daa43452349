//! Other processes of the job: hosts, failure domains, and exit statuses of failed processes.
#![allow(unsafe_code)]

use crate::domains::ProcessLocation;
use crate::system_calls;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use understudy_numbers::ProcessNumber;

#[derive(Default)]
struct Peers {
    /// Descriptors of the other processes on this node (pidfd_open(2)).
    local: Vec<c_int>,
    /// Process numbers of `local`.
    local_numbers: Vec<ProcessNumber>,
    /// Host of each process.
    hosts: Vec<String>,
    /// Domain of each process.
    domains: Vec<u64>,
    /// Exit statuses that arrived with the replica stores of failed processes.
    exit_statuses: Vec<(ProcessNumber, c_int)>,
}

static PEERS: Mutex<Peers> = Mutex::new(Peers {
    local: Vec::new(),
    local_numbers: Vec::new(),
    hosts: Vec::new(),
    domains: Vec::new(),
    exit_statuses: Vec::new(),
});

fn peers() -> MutexGuard<'static, Peers> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the place of a process; `own` is the place of this process.
///
/// Opens a descriptor of another process on this node.
pub fn add(place: &ProcessLocation, number: ProcessNumber, own: &ProcessLocation) {
    let peers = &mut *peers();
    peers.hosts.resize(
        peers.hosts.len().max(number.index() + 1),
        "an unknown host".into(),
    );
    peers.hosts[number.index()] = place.host_name();
    peers.domains.resize(peers.hosts.len(), 0);
    peers.domains[number.index()] = place.domain;
    if place.node != own.node || place.pid == own.pid {
        return;
    }
    // SAFETY: pidfd_open(2) accesses no memory.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_pidfd_open, place.pid as libc::pid_t, 0) } as c_int;
    if descriptor >= 0 {
        peers.local.push(system_calls::move_descriptor(descriptor));
        peers.local_numbers.push(number);
    }
}

/// Returns the host of a process.
pub fn host(process: ProcessNumber) -> String {
    let host = peers().hosts.get(process.index()).cloned();
    host.unwrap_or_else(|| "an unknown host".into())
}

/// Returns the failure domain of a process, or 0 if it is unknown.
pub fn domain(process: ProcessNumber) -> u64 {
    peers().domains.get(process.index()).copied().unwrap_or(0)
}

/// Returns the status of a terminated process of this node, as wait(2) returns it.
///
/// The status exists once the parent has waited for the process; the guardian does so before it
/// reports a failure. A status that has not arrived with a replica store can be read only on Linux
/// 6.15 or later (`PIDFD_GET_INFO` of pidfd(7)).
pub fn wait_status(process: ProcessNumber) -> Option<c_int> {
    /// `struct pidfd_info` in its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        control_group: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    const _: () = assert!(size_of::<Info>() == 0x40);
    let peers = peers();
    if let Some((_, status)) = peers
        .exit_statuses
        .iter()
        .find(|(rank, _)| *rank == process)
    {
        return Some(*status);
    }
    let at = peers
        .local_numbers
        .iter()
        .position(|&rank| rank == process)?;
    let mut info = Info {
        mask: PIDFD_INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: an ioctl(2) that fills a structure of the size that is part of its number.
    let done = unsafe { libc::ioctl(peers.local[at], PIDFD_GET_INFO, &raw mut info) } == 0;
    (done && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// Records the status of a terminated process of this node, as wait(2) returns it.
pub fn record_exit_status(process: ProcessNumber, status: c_int) {
    peers().exit_statuses.push((process, status));
}

/// Forgets failed processes, at the end of a recovery.
///
/// Closes the descriptors of all processes except `living`, and drops the recorded exit statuses.
pub fn retain(living: &[ProcessNumber]) {
    let peers = &mut *peers();
    peers.exit_statuses.clear();
    let all = peers.local.drain(..).zip(peers.local_numbers.drain(..));
    let (kept, gone): (Vec<_>, Vec<_>) = all.partition(|(_, rank)| living.contains(rank));
    (peers.local, peers.local_numbers) = kept.into_iter().unzip();
    for (descriptor, _) in gone {
        // SAFETY: close(2) of a descriptor that this module has just removed from its list.
        unsafe { libc::close(descriptor) };
    }
}
