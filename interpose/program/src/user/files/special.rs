//! Descriptors of kernel objects that only this process uses.
//!
//! The objects are event counters (eventfd(2)), timers (timerfd_create(2)), signal descriptors
//! (signalfd(2)), epoll sets, POSIX message queues, and pipes and sockets of which this process has
//! both ends. Event loops consist of such objects. The kernel reports their state (proc(5),
//! `fdinfo`), so that a replacement can create equal ones.
#![allow(unsafe_code)]

use super::pipes;
use super::posix_queues::{Queue, is_queue};
use super::sockets::{self, LocalSockets, Socket};
use crate::user::open_descriptors::{is_same_description, path_of, stat};
use std::collections::BTreeMap;
use std::io;
use std::mem::discriminant;
use std::os::unix::ffi::OsStrExt;

/// Kernel object of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub(super) enum SpecialKind {
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

/// Descriptor of a kernel object that only this process uses.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Special {
    pub(super) kind: SpecialKind,
    /// Flags of open(2).
    pub(super) flags: i32,
    /// Lower descriptor of this open file description, if any.
    pub(super) same_as: Option<i32>,
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
    pub fn from_fd(fd: i32, local: &LocalSockets) -> Option<Special> {
        let path = path_of(fd);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let flags = i32::from_str_radix(value(&text, "flags:")?, 8).ok()?;
        let kind = match path.as_os_str().as_bytes() {
            b"anon_inode:[eventfd]" => SpecialKind::Counter {
                count: hex(value(&text, "eventfd-count:")?)?,
                is_semaphore: value(&text, "eventfd-semaphore:") == Some("1"),
            },
            b"anon_inode:[timerfd]" => {
                let [[interval_s, interval_ns], [next_s, next_ns]] = [
                    pair(value(&text, "it_interval:")?)?,
                    pair(value(&text, "it_value:")?)?,
                ];
                // An expiry that the program has not read yet is repeated after 1 ns.
                let has_expired = value(&text, "ticks:") != Some("0");
                let times = if has_expired {
                    [interval_s, interval_ns, 0, 1]
                } else {
                    [interval_s, interval_ns, next_s, next_ns]
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
                SpecialKind::Socket(Socket::from_fd(fd, stat(fd)?.st_ino, local)?)
            }
            _ if is_queue(fd) => SpecialKind::Queue(Queue::from_fd(fd)?),
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
            let Some(mut special) = Special::from_fd(fd, &local) else {
                continue;
            };
            let is_same = |(other, _): &(&i32, &Special)| is_same_description(fd, **other);
            special.same_as = all.iter().find(is_same).map(|(other, _)| *other);
            all.insert(fd, special);
        }
        all
    }

    /// True if this object equals `other` except for content that can be set.
    pub(super) fn is_like(&self, other: &Special) -> bool {
        let is_same_kind = match (&self.kind, &other.kind) {
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
            (SpecialKind::Socket(now), SpecialKind::Socket(saved)) => now.can_become(saved),
            (SpecialKind::Queue(now), SpecialKind::Queue(saved)) => now.can_become(saved),
            (one, kind) => discriminant(one) == discriminant(kind),
        };
        is_same_kind && self.same_as == other.same_as
    }

    pub(super) fn pipe(&self) -> Option<u64> {
        match self.kind {
            SpecialKind::Pipe { number, .. } => Some(number),
            _ => None,
        }
    }

    pub(super) fn is_orphan(&self) -> bool {
        matches!(
            self.kind,
            SpecialKind::Pipe {
                is_orphan: true,
                ..
            }
        )
    }

    pub(super) fn socket(&self) -> Option<&Socket> {
        match &self.kind {
            SpecialKind::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// True for a POSIX message queue.
    pub fn is_queue(&self) -> bool {
        matches!(self.kind, SpecialKind::Queue(_))
    }

    pub(super) fn is_read(&self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }
}

/// Sets the mask of a signalfd; creates a new one if `fd` is -1.
pub(super) fn set_signals(fd: i32, mask: u64) -> i32 {
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

/// Returns the sockets, each with its lowest descriptor.
pub(super) fn primary_sockets(saved: &BTreeMap<i32, Special>) -> BTreeMap<i32, &Socket> {
    let primary = saved
        .iter()
        .filter(|(_, special)| special.same_as.is_none());
    primary
        .filter_map(|(fd, special)| Some((*fd, special.socket()?)))
        .collect()
}

/// Changes the members of an epoll set from `now` to `saved`.
fn set_members(fd: i32, now: &[(i32, u32, u64)], saved: &[(i32, u32, u64)]) {
    let control = |operation, &(descriptor, events, u64): &(i32, u32, u64)| {
        let mut event = libc::epoll_event { events, u64 };
        // SAFETY: epoll_ctl(2) reads only `event`. The call fails without effect for a descriptor
        // that no longer exists.
        unsafe { libc::epoll_ctl(fd, operation, descriptor, &raw mut event) };
    };
    now.iter()
        .filter(|member| !saved.contains(member))
        .for_each(|member| control(libc::EPOLL_CTL_DEL, member));
    saved
        .iter()
        .filter(|member| !now.contains(member))
        .for_each(|member| control(libc::EPOLL_CTL_ADD, member));
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
        let Some(now) = Special::from_fd(fd, &local) else {
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
                let is_write_end =
                    |other: &Special| other.pipe() == Some(*number) && !other.is_read();
                if *is_orphan || saved.values().any(is_write_end) {
                    pipes::refill(fd, special.flags, *capacity, content)?;
                }
            }
            (SpecialKind::Queue(_), SpecialKind::Queue(saved)) => saved.fill(fd)?,
            (SpecialKind::Set(now), SpecialKind::Set(saved)) => set_members(fd, now, saved),
            _ => {}
        }
    }
    sockets::fill(&primary_sockets(saved))
}
