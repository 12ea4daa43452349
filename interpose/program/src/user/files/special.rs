//! Descriptors of kernel objects that only this process uses.
//!
//! The objects are event counters, timers, signals, epoll sets, and pipes and pairs of sockets of
//! which the process has both ends. Event loops consist of such objects. The kernel reports their
//! state (proc(5), `fdinfo`), so a replacement creates them anew.
#![allow(unsafe_code)]

use super::pipes;
use super::posix_queues::{Queue, is_queue};
use super::sockets::{self, LocalSockets, LostSocket, Socket};
use crate::user::open_descriptors::{is_same_description, path_of, stat};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::discriminant;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

const CLOSE_ON_EXEC: i32 = libc::O_CLOEXEC;

/// Kernel object of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum SpecialKind {
    /// Counter of eventfd(2).
    Counter {
        count: u64,
        is_semaphore: bool,
    },
    /// Timer of timerfd_create(2).
    ///
    /// The times are seconds and nanoseconds of the interval and of the time to the next expiry.
    Timer {
        clock: i32,
        times: [i64; 4],
    },
    /// Mask of signalfd(2).
    Signals(u64),
    /// Members of epoll_create(2): descriptor, events and data.
    Set(Vec<(i32, u32, u64)>),
    /// End of a pipe, with the number of the pipe and its capacity in bytes.
    ///
    /// The content is recorded at the read end.
    Pipe {
        number: u64,
        capacity: i32,
        content: Vec<u8>,
        /// True if no process has the other end.
        is_orphan: bool,
    },
    Socket(Socket),
    Queue(Queue),
}

#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Special {
    kind: SpecialKind,
    /// Flags of open(2).
    flags: i32,
    /// Lower descriptor of this open file description, if any.
    same_as: Option<i32>,
}

/// Returns the value of a line of `fdinfo`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Parses `(seconds, nanoseconds)`.
fn pair(text: &str) -> Option<[i64; 2]> {
    let (seconds, rest) = text.strip_prefix('(')?.split_once(',')?;
    Some([
        seconds.parse().ok()?,
        rest.trim_end_matches(')').trim().parse().ok()?,
    ])
}

/// Parses `tfd: 3 events: 19 data: 9 …`.
fn member(line: &str) -> Option<(i32, u32, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [descriptor, "events:", events, "data:", data, ..] = words[..] else {
        return None;
    };
    Some((descriptor.parse().ok()?, hex(events)? as u32, hex(data)?))
}

impl Special {
    /// Returns the object of a descriptor; `None` if it cannot be created anew.
    pub fn of(fd: i32, local: &LocalSockets) -> Option<Special> {
        let path = path_of(fd);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let flags = i32::from_str_radix(value(&text, "flags:")?, 8).ok()?;
        let kind = match path.as_os_str().as_bytes() {
            b"anon_inode:[eventfd]" => SpecialKind::Counter {
                count: hex(value(&text, "eventfd-count:")?)?,
                is_semaphore: value(&text, "eventfd-semaphore:") == Some("1"),
            },
            b"anon_inode:[timerfd]" => {
                let [[interval, more], [next, and]] = [
                    pair(value(&text, "it_interval:")?)?,
                    pair(value(&text, "it_value:")?)?,
                ];
                // An expiry that was not read is repeated at once.
                let has_expired = value(&text, "ticks:") != Some("0");
                let times = if has_expired {
                    [interval, more, 0, 1]
                } else {
                    [interval, more, next, and]
                };
                SpecialKind::Timer {
                    clock: value(&text, "clockid:")?.parse().ok()?,
                    times,
                }
            }
            b"anon_inode:[signalfd]" => SpecialKind::Signals(hex(value(&text, "sigmask:")?)?),
            b"anon_inode:[eventpoll]" => {
                let members = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
                SpecialKind::Set(members.map(member).collect::<Option<_>>()?)
            }
            socket if socket.starts_with(b"socket:[") => {
                SpecialKind::Socket(Socket::of(fd, stat(fd)?.st_ino, local)?)
            }
            _ if is_queue(fd) => SpecialKind::Queue(Queue::of(fd)?),
            pipe => {
                let number = std::str::from_utf8(pipe)
                    .ok()?
                    .strip_prefix("pipe:[")?
                    .strip_suffix(']')?;
                let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY;
                SpecialKind::Pipe {
                    number: number.parse().ok()?,
                    capacity: pipes::capacity(fd),
                    content: if is_read {
                        pipes::content(fd)
                    } else {
                        Vec::new()
                    },
                    is_orphan: pipes::is_orphan(fd),
                }
            }
        };
        let same_as = None;
        Some(Special {
            kind,
            flags,
            same_as,
        })
    }

    /// Returns the objects of these descriptors that can be created anew.
    pub fn among<'a>(descriptors: impl Iterator<Item = &'a i32>) -> BTreeMap<i32, Special> {
        let mut all: BTreeMap<i32, Special> = BTreeMap::new();
        let descriptors: Vec<i32> = descriptors.copied().collect();
        let local = LocalSockets::among(&descriptors);
        for fd in descriptors {
            let Some(mut special) = Special::of(fd, &local) else {
                continue;
            };
            let is_same = |(other, _): &(&i32, &Special)| is_same_description(fd, **other);
            special.same_as = all.iter().find(is_same).map(|(other, _)| *other);
            all.insert(fd, special);
        }
        all
    }

    /// True if setting its content turns this object into `other`.
    fn is_like(&self, other: &Special) -> bool {
        let is_alike = match (&self.kind, &other.kind) {
            (
                SpecialKind::Counter {
                    is_semaphore: one, ..
                },
                SpecialKind::Counter { is_semaphore, .. },
            ) => one == is_semaphore,
            (SpecialKind::Timer { clock: one, .. }, SpecialKind::Timer { clock, .. }) => {
                one == clock
            }
            (SpecialKind::Pipe { .. }, SpecialKind::Pipe { is_orphan, .. }) => {
                self.is_read() == other.is_read() && (!is_orphan || self.is_orphan())
            }
            (SpecialKind::Socket(now), SpecialKind::Socket(then)) => now.can_become(then),
            (SpecialKind::Queue(now), SpecialKind::Queue(then)) => now.can_become(then),
            (one, kind) => discriminant(one) == discriminant(kind),
        };
        is_alike && self.same_as == other.same_as
    }

    fn pipe(&self) -> Option<u64> {
        match self.kind {
            SpecialKind::Pipe { number, .. } => Some(number),
            _ => None,
        }
    }

    fn is_orphan(&self) -> bool {
        matches!(
            self.kind,
            SpecialKind::Pipe {
                is_orphan: true,
                ..
            }
        )
    }

    fn socket(&self) -> Option<&Socket> {
        match &self.kind {
            SpecialKind::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// True for a POSIX message queue.
    pub fn is_queue(&self) -> bool {
        matches!(self.kind, SpecialKind::Queue(_))
    }

    fn is_read(&self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }
}

/// Moves a new descriptor to the number `fd`. Returns false on failure.
fn move_to(made: i32, fd: i32, flags: i32) -> bool {
    // SAFETY: dup3(2), fcntl(2), close(2) of descriptors that no other thread uses.
    unsafe {
        let is_placed =
            made >= 0 && (made == fd || libc::dup3(made, fd, flags & CLOSE_ON_EXEC) == fd);
        if is_placed {
            libc::fcntl(fd, libc::F_SETFL, flags & libc::O_NONBLOCK);
        }
        if made >= 0 && made != fd {
            libc::close(made);
        }
        is_placed
    }
}

/// Creates an object of which this process has no descriptor yet.
fn create(fd: i32, special: &Special) -> bool {
    // SAFETY: system calls that make descriptors, with valid arguments.
    unsafe {
        let made = match &special.kind {
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
            // Both ends of a pair are created by `make_pair`.
            SpecialKind::Socket(socket) => socket.make().map_or(-1, |(made, _)| made.into_raw_fd()),
            SpecialKind::Queue(queue) => {
                queue.make(special.flags).map_or(-1, IntoRawFd::into_raw_fd)
            }
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
        move_to(made, fd, special.flags)
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

/// Sets the mask of a signalfd; creates a new one if `fd` is -1.
fn set_signals(fd: i32, mask: u64) -> i32 {
    // SAFETY: signalfd4(2) with a valid mask.
    unsafe {
        libc::syscall(
            libc::SYS_signalfd4,
            fd,
            &raw const mask,
            size_of_val(&mask),
            0,
        ) as i32
    }
}

/// Returns the saved objects that this process lacks or has changed to other objects.
pub fn missing(saved: &BTreeMap<i32, Special>, now: &BTreeMap<i32, Special>) -> BTreeSet<i32> {
    // Pipes have different numbers in another process.
    let mut pipes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut is_its_pipe = |then: u64, now: u64| match pipes.get(&then) {
        Some(known) => *known == now,
        None if pipes.values().any(|known| *known == now) => false,
        None => pipes.insert(then, now).is_none(),
    };
    let mut is_there = |(fd, special): &(&i32, &Special)| {
        let Some(now) = now.get(fd).filter(|now| now.is_like(special)) else {
            return false;
        };
        match (special.pipe(), now.pipe()) {
            (Some(then), Some(now)) => is_its_pipe(then, now),
            _ => true,
        }
    };
    let all = saved.iter().filter(|it| !is_there(it));
    let mut missing: BTreeSet<i32> = all.map(|(fd, _)| *fd).collect();
    with_other_ends(saved, &mut missing);
    missing
}

/// Adds the other ends of missing sockets, and all descriptors of both ends.
fn with_other_ends(saved: &BTreeMap<i32, Special>, missing: &mut BTreeSet<i32>) {
    let sockets = missing.iter().filter_map(|fd| saved[fd].socket());
    let numbers: BTreeSet<u64> = sockets
        .flat_map(|socket| [Some(socket.number()), socket.peer()])
        .flatten()
        .collect();
    let is_of_them = |special: &Special| {
        let socket = special.socket();
        socket.is_some_and(|socket| numbers.contains(&socket.number()))
    };
    let all = saved.iter().filter(|(_, special)| is_of_them(special));
    missing.extend(all.map(|(fd, _)| *fd));
}

/// Creates both ends of a pair of sockets, and returns their descriptors.
fn make_pair(saved: &BTreeMap<i32, Special>, fd: i32, socket: &Socket) -> Option<[i32; 2]> {
    let is_other = |(_, it): &(&i32, &Special)| {
        it.same_as.is_none() && it.socket().map(Socket::number) == socket.peer()
    };
    let (&other_fd, other) = saved.iter().find(is_other)?;
    let (made, Some(end)) = socket.make().ok()? else {
        return None;
    };
    let is_placed = move_to(made.into_raw_fd(), fd, saved[&fd].flags)
        & move_to(end.into_raw_fd(), other_fd, other.flags);
    is_placed.then_some([fd, other_fd])
}

/// Creates sockets with an address anew, and returns their descriptors.
fn make_with_addresses(
    saved: &BTreeMap<i32, Special>,
    missing: &BTreeSet<i32>,
) -> Result<BTreeSet<i32>, LostSocket> {
    // Sockets that are open at these descriptors may occupy the addresses.
    let has_address = |fd: &&i32| saved[fd].socket().is_some_and(Socket::has_address);
    missing
        .iter()
        .filter(has_address)
        .for_each(|&fd| sockets::abandon(fd));
    let made = sockets::rebuild(&primary_sockets(saved), missing)?;
    let is_placed = |(fd, made): (i32, OwnedFd)| {
        move_to(made.into_raw_fd(), fd, saved[&fd].flags).then_some(fd)
    };
    Ok(made.into_iter().filter_map(is_placed).collect())
}

/// Returns the sockets, each with its lowest descriptor.
fn primary_sockets(saved: &BTreeMap<i32, Special>) -> BTreeMap<i32, &Socket> {
    let primary = saved.iter().filter(|(_, it)| it.same_as.is_none());
    primary
        .filter_map(|(fd, it)| Some((*fd, it.socket()?)))
        .collect()
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
    let mut made = make_with_addresses(saved, missing)?;
    for fd in missing {
        let special = &saved[fd];
        if made.contains(fd) {
            continue;
        }
        let is_there = |other: &i32| {
            made.contains(other) || saved.contains_key(other) && !missing.contains(other)
        };
        let of_pipe = |is_read: bool| {
            let is_end = move |(_, it): &(&i32, &Special)| {
                it.pipe() == special.pipe() && it.is_read() == is_read
            };
            saved.iter().filter(is_end).map(|(end, _)| *end)
        };
        let has_come = if let Some(other) = special.same_as {
            // SAFETY: dup3(2); the program does not use the previous object of the descriptor.
            is_there(&other)
                && unsafe { libc::dup3(other, *fd, special.flags & CLOSE_ON_EXEC) == *fd }
        } else if let Some(socket) = special.socket().filter(|socket| socket.peer().is_some()) {
            made.extend(make_pair(saved, *fd, socket).into_iter().flatten());
            made.contains(fd)
        } else if special.pipe().is_none() {
            create(*fd, special)
        } else if let Some(end) = of_pipe(true).chain(of_pipe(false)).find(is_there) {
            open_end(end, *fd, special.flags)
        } else {
            // If the other end is not in this process, another process has it.
            let is_whole = special.is_orphan() || of_pipe(!special.is_read()).next().is_some();
            is_whole && create(*fd, special)
        };
        if has_come {
            made.insert(*fd);
        }
    }
    Ok(made)
}

fn set_members(fd: i32, now: &[(i32, u32, u64)], then: &[(i32, u32, u64)]) {
    let control = |what, &(descriptor, events, u64): &(i32, u32, u64)| {
        let mut event = libc::epoll_event { events, u64 };
        // SAFETY: epoll_ctl(2); a descriptor that no longer exists is ignored.
        unsafe { libc::epoll_ctl(fd, what, descriptor, &raw mut event) };
    };
    now.iter()
        .filter(|it| !then.contains(it))
        .for_each(|it| control(libc::EPOLL_CTL_DEL, it));
    then.iter()
        .filter(|it| !now.contains(it))
        .for_each(|it| control(libc::EPOLL_CTL_ADD, it));
}

/// Restores the content of the objects that exist.
///
/// A pipe is left unchanged if another process may have one of its ends.
pub fn restore_content(saved: &BTreeMap<i32, Special>) -> io::Result<()> {
    let all: Vec<i32> = saved.keys().copied().collect();
    let local = LocalSockets::among(&all);
    for (&fd, special) in saved
        .iter()
        .filter(|(_, special)| special.same_as.is_none())
    {
        let Some(now) = Special::of(fd, &local) else {
            continue;
        };
        if now.flags != special.flags {
            // SAFETY: fcntl(2), which ignores the flags of the access mode and close-on-exec.
            unsafe { libc::fcntl(fd, libc::F_SETFL, special.flags) };
        }
        if now.kind == special.kind {
            continue;
        }
        match (&now.kind, &special.kind) {
            (SpecialKind::Counter { count: now, .. }, SpecialKind::Counter { count, .. })
                if now != count =>
            {
                pipes::empty(fd, special.flags);
                if *count > 0 {
                    // SAFETY: write(2) of a number to an empty counter.
                    unsafe { libc::write(fd, (&raw const *count).cast(), 8) };
                }
            }
            (SpecialKind::Timer { .. }, SpecialKind::Timer { times, .. }) => {
                // SAFETY: timerfd_settime(2) with an itimerspec; it discards expiries since the
                // cut.
                unsafe {
                    libc::timerfd_settime(fd, 0, times.as_ptr().cast(), std::ptr::null_mut())
                };
            }
            (SpecialKind::Signals(_), SpecialKind::Signals(mask)) => {
                set_signals(fd, *mask);
            }
            (
                SpecialKind::Pipe { content: now, .. },
                SpecialKind::Pipe {
                    content,
                    number,
                    capacity,
                    is_orphan,
                },
            ) if special.is_read() && now != content => {
                let is_other = |it: &Special| it.pipe() == Some(*number) && !it.is_read();
                if *is_orphan || saved.values().any(is_other) {
                    pipes::refill(fd, special.flags, *capacity, content)?;
                }
            }
            (SpecialKind::Queue(_), SpecialKind::Queue(then)) => then.fill(fd)?,
            (SpecialKind::Set(now), SpecialKind::Set(then)) => set_members(fd, now, then),
            _ => {}
        }
    }
    sockets::fill(&primary_sockets(saved))
}
