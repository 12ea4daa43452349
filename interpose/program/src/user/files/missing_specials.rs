//! Creation of the objects ([`Special`]) that a process lacks.
#![allow(unsafe_code)]

use super::sockets::{self, LostSocket, Socket};
use super::special::{Special, SpecialKind, primary_sockets, set_signals};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{IntoRawFd, OwnedFd};

const CLOSE_ON_EXEC: i32 = libc::O_CLOEXEC;

/// Moves a new descriptor to the number `fd`; returns false on failure.
fn move_to(created: i32, fd: i32, flags: i32) -> bool {
    // SAFETY: dup3(2), fcntl(2), close(2) of descriptors that no other thread uses.
    unsafe {
        let is_placed =
            created >= 0 && (created == fd || libc::dup3(created, fd, flags & CLOSE_ON_EXEC) == fd);
        if is_placed {
            libc::fcntl(fd, libc::F_SETFL, flags & libc::O_NONBLOCK);
        }
        if created >= 0 && created != fd {
            libc::close(created);
        }
        is_placed
    }
}

/// Creates an object of which this process has no descriptor yet.
fn create(fd: i32, special: &Special) -> bool {
    // SAFETY: system calls that make descriptors, with valid arguments.
    unsafe {
        let created = match &special.kind {
            SpecialKind::Counter { is_semaphore, .. } => libc::eventfd(
                0,
                if *is_semaphore {
                    libc::EFD_SEMAPHORE
                } else {
                    0
                },
            ),
            SpecialKind::Timer { clock, .. } => libc::timerfd_create(*clock, 0),
            SpecialKind::Signals(_) => set_signals(-1, 0),
            SpecialKind::Set(_) => libc::epoll_create1(0),
            // `create_pair` creates both ends of a pair.
            SpecialKind::Socket(socket) => socket
                .create()
                .map_or(-1, |(created, _)| created.into_raw_fd()),
            SpecialKind::Queue(queue) => queue
                .create(special.flags)
                .map_or(-1, IntoRawFd::into_raw_fd),
            SpecialKind::Pipe { .. } => {
                let mut ends = [-1; 2];
                libc::pipe2(ends.as_mut_ptr(), 0);
                let [read, write] = ends;
                let (kept, other) = if special.is_read() {
                    (read, write)
                } else {
                    (write, read)
                };
                // The other end is opened later through this end.
                let is_placed = move_to(kept, fd, special.flags);
                return is_placed & (libc::close(other) == 0);
            }
        };
        move_to(created, fd, special.flags)
    }
}

/// Opens a descriptor of the pipe that descriptor `end` belongs to.
fn open_end(end: i32, fd: i32, flags: i32) -> bool {
    let Ok(path) = std::ffi::CString::new(format!("/proc/self/fd/{end}")) else {
        return false;
    };
    // SAFETY: open(2) with a valid string.
    let opened = unsafe { libc::open(path.as_ptr(), flags & (libc::O_ACCMODE | libc::O_NONBLOCK)) };
    move_to(opened, fd, flags)
}

/// Returns the saved objects that this process lacks or has changed to other objects.
pub fn missing(saved: &BTreeMap<i32, Special>, now: &BTreeMap<i32, Special>) -> BTreeSet<i32> {
    // A pipe that is created anew has another number. This map leads from saved to current numbers.
    let mut pipes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut is_same_pipe = |saved: u64, now: u64| match pipes.get(&saved) {
        Some(known) => *known == now,
        None if pipes.values().any(|known| *known == now) => false,
        None => pipes.insert(saved, now).is_none(),
    };
    let mut exists = |(fd, special): &(&i32, &Special)| {
        let Some(now) = now.get(fd).filter(|now| now.is_like(special)) else {
            return false;
        };
        match (special.pipe(), now.pipe()) {
            (Some(saved), Some(now)) => is_same_pipe(saved, now),
            _ => true,
        }
    };
    let all = saved.iter().filter(|entry| !exists(entry));
    let mut missing: BTreeSet<i32> = all.map(|(fd, _)| *fd).collect();
    add_other_ends(saved, &mut missing);
    missing
}

/// Adds the other ends of missing sockets, and all descriptors of both ends.
fn add_other_ends(saved: &BTreeMap<i32, Special>, missing: &mut BTreeSet<i32>) {
    let sockets = missing.iter().filter_map(|fd| saved[fd].socket());
    let numbers: BTreeSet<u64> = sockets
        .flat_map(|socket| [Some(socket.number()), socket.peer()])
        .flatten()
        .collect();
    let is_missing_socket = |special: &Special| {
        let socket = special.socket();
        socket.is_some_and(|socket| numbers.contains(&socket.number()))
    };
    let all = saved
        .iter()
        .filter(|(_, special)| is_missing_socket(special));
    missing.extend(all.map(|(fd, _)| *fd));
}

/// Creates both ends of a pair of sockets, and returns their descriptors.
fn create_pair(saved: &BTreeMap<i32, Special>, fd: i32, socket: &Socket) -> Option<[i32; 2]> {
    let is_other_end = |(_, special): &(&i32, &Special)| {
        special.same_as.is_none() && special.socket().map(Socket::number) == socket.peer()
    };
    let (&other_fd, other) = saved.iter().find(is_other_end)?;
    let (created, Some(other_end)) = socket.create().ok()? else {
        return None;
    };
    let is_placed = move_to(created.into_raw_fd(), fd, saved[&fd].flags)
        & move_to(other_end.into_raw_fd(), other_fd, other.flags);
    is_placed.then_some([fd, other_fd])
}

/// Creates missing sockets that have an address, and returns their descriptors.
fn create_with_addresses(
    saved: &BTreeMap<i32, Special>,
    missing: &BTreeSet<i32>,
) -> Result<BTreeSet<i32>, LostSocket> {
    // Sockets that are open at these descriptors may occupy the addresses.
    let has_address = |fd: &&i32| saved[fd].socket().is_some_and(Socket::has_address);
    missing
        .iter()
        .filter(has_address)
        .for_each(|&fd| sockets::abandon(fd));
    let created = sockets::rebuild(&primary_sockets(saved), missing)?;
    let move_to_number = |(fd, socket): (i32, OwnedFd)| {
        move_to(socket.into_raw_fd(), fd, saved[&fd].flags).then_some(fd)
    };
    Ok(created.into_iter().filter_map(move_to_number).collect())
}

/// Creates the [`missing`] objects without content.
///
/// Returns the descriptors of the objects that could be created.
///
/// # Errors
/// Fails if a socket cannot be given its address.
pub fn create_missing(
    saved: &BTreeMap<i32, Special>,
    missing: &BTreeSet<i32>,
) -> Result<BTreeSet<i32>, LostSocket> {
    let mut created = create_with_addresses(saved, missing)?;
    for fd in missing {
        let special = &saved[fd];
        if created.contains(fd) {
            continue;
        }
        let exists = |other: &i32| {
            created.contains(other) || saved.contains_key(other) && !missing.contains(other)
        };
        let ends_of_pipe = |is_read: bool| {
            let is_end = move |(_, end): &(&i32, &Special)| {
                end.pipe() == special.pipe() && end.is_read() == is_read
            };
            saved.iter().filter(is_end).map(|(end, _)| *end)
        };
        let is_created = if let Some(other) = special.same_as {
            // SAFETY: dup3(2); the program does not use the previous object of the descriptor.
            exists(&other)
                && unsafe { libc::dup3(other, *fd, special.flags & CLOSE_ON_EXEC) == *fd }
        } else if let Some(socket) = special.socket().filter(|socket| socket.peer().is_some()) {
            created.extend(create_pair(saved, *fd, socket).into_iter().flatten());
            created.contains(fd)
        } else if special.pipe().is_none() {
            create(*fd, special)
        } else if let Some(end) = ends_of_pipe(true).chain(ends_of_pipe(false)).find(exists) {
            open_end(end, *fd, special.flags)
        } else {
            // If the other end is neither closed nor in this process, another process has it. A new
            // pipe would not be connected to that process.
            let has_both_ends =
                special.is_orphan() || ends_of_pipe(!special.is_read()).next().is_some();
            has_both_ends && create(*fd, special)
        };
        if is_created {
            created.insert(*fd);
        }
    }
    Ok(created)
}
