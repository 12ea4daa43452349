//! Descriptors that belong to this process alone: counters, timers, signals and sets of them, and pipes of which it has both ends.
//!
//! Event loops are made of these. The kernel tells what is in them (proc(5), `fdinfo`), so an understudy makes them anew.
#![allow(unsafe_code)]

use super::path_of;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

const CLOSE_ON_EXEC: i32 = libc::O_CLOEXEC;
/// Longest content of a pipe that is kept: what it holds if nobody has made it longer.
const LONGEST: usize = 64 << 10;

/// What is behind a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum Kind {
    /// eventfd(2).
    Counter { count: u64, is_semaphore: bool },
    /// timerfd_create(2): the clock, and seconds and nanoseconds between expiries and to the next.
    Timer { clock: i32, times: [i64; 4] },
    /// signalfd(2).
    Signals(u64),
    /// epoll_create(2): descriptors, events and data.
    Set(Vec<(i32, u32, u64)>),
    /// An end of a pipe, by the number of that; with what is in it at the end that is read.
    Pipe { number: u64, content: Vec<u8> },
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Special {
    kind: Kind,
    /// open(2).
    flags: i32,
}

/// The value of a line of `fdinfo`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// `(seconds, nanoseconds)`.
fn pair(text: &str) -> Option<[i64; 2]> {
    let (seconds, rest) = text.strip_prefix('(')?.split_once(',')?;
    Some([seconds.parse().ok()?, rest.trim_end_matches(')').trim().parse().ok()?])
}

/// `tfd: 3 events: 19 data: 9 …`
fn member(line: &str) -> Option<(i32, u32, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [descriptor, "events:", events, "data:", data, ..] = words[..] else {
        return None;
    };
    Some((descriptor.parse().ok()?, hex(events)? as u32, hex(data)?))
}

/// What a pipe holds, which stays in it.
fn content(fd: i32) -> Vec<u8> {
    let mut ends = [0; 2];
    let mut bytes = vec![0; LONGEST];
    // SAFETY: pipe2(2), tee(2), read(2), close(2) with descriptors and a buffer of our own.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
            return Vec::new();
        }
        let there = libc::tee(fd, ends[1], LONGEST, libc::SPLICE_F_NONBLOCK).max(0);
        let got = libc::read(ends[0], bytes.as_mut_ptr().cast(), there as usize).max(0);
        bytes.truncate(got as usize);
        for end in ends {
            libc::close(end);
        }
    }
    bytes
}

impl Special {
    /// What this descriptor is; `None`: something that only another process could make.
    pub fn of(fd: i32) -> Option<Special> {
        let path = path_of(fd);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let flags = i32::from_str_radix(value(&text, "flags:")?, 8).ok()?;
        let kind = match path.as_os_str().as_bytes() {
            b"anon_inode:[eventfd]" => Kind::Counter {
                count: hex(value(&text, "eventfd-count:")?)?,
                is_semaphore: value(&text, "eventfd-semaphore:") == Some("1"),
            },
            b"anon_inode:[timerfd]" => {
                let [[interval, more], [next, and]] =
                    [pair(value(&text, "it_interval:")?)?, pair(value(&text, "it_value:")?)?];
                // What has expired and was not read expires again at once.
                let has_expired = value(&text, "ticks:") != Some("0");
                let times = if has_expired {
                    [interval, more, 0, 1]
                } else {
                    [interval, more, next, and]
                };
                Kind::Timer {
                    clock: value(&text, "clockid:")?.parse().ok()?,
                    times,
                }
            }
            b"anon_inode:[signalfd]" => Kind::Signals(hex(value(&text, "sigmask:")?)?),
            b"anon_inode:[eventpoll]" => {
                let members = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
                Kind::Set(members.map(member).collect::<Option<_>>()?)
            }
            pipe => {
                let number = std::str::from_utf8(pipe)
                    .ok()?
                    .strip_prefix("pipe:[")?
                    .strip_suffix(']')?;
                let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY;
                Kind::Pipe {
                    number: number.parse().ok()?,
                    content: if is_read { content(fd) } else { Vec::new() },
                }
            }
        };
        Some(Special { kind, flags })
    }

    fn is_read(&self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }
}

/// A new descriptor gets this number.
fn place(made: i32, fd: i32, flags: i32) -> bool {
    // SAFETY: dup3(2), fcntl(2), close(2) of descriptors that nobody else uses.
    unsafe {
        let is_placed = made >= 0 && (made == fd || libc::dup3(made, fd, flags & CLOSE_ON_EXEC) == fd);
        if is_placed {
            libc::fcntl(fd, libc::F_SETFL, flags & libc::O_NONBLOCK);
        }
        if made >= 0 && made != fd {
            libc::close(made);
        }
        is_placed
    }
}

fn make(fd: i32, special: &Special) -> bool {
    // SAFETY: system calls that make descriptors, with valid arguments.
    unsafe {
        let made = match &special.kind {
            Kind::Counter { count, is_semaphore } => {
                let made = libc::eventfd(0, if *is_semaphore { libc::EFD_SEMAPHORE } else { 0 });
                if *count > 0 {
                    libc::write(made, (&raw const *count).cast(), 8);
                }
                made
            }
            Kind::Timer { clock, times } => {
                let made = libc::timerfd_create(*clock, 0);
                libc::timerfd_settime(made, 0, times.as_ptr().cast(), std::ptr::null_mut());
                made
            }
            Kind::Signals(mask) => {
                libc::syscall(libc::SYS_signalfd4, -1, &raw const *mask, size_of_val(mask), 0) as i32
            }
            Kind::Set(_) => libc::epoll_create1(0),
            Kind::Pipe { .. } => return false,
        };
        place(made, fd, special.flags)
    }
}

/// Both ends of a pipe.
fn make_pipe(read: (i32, &Special), write: (i32, &Special)) -> bool {
    let mut ends = [0; 2];
    // SAFETY: pipe2(2) and write(2) with descriptors and bytes of our own.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), 0) != 0 {
            return false;
        }
        if let Kind::Pipe { content, .. } = &read.1.kind {
            libc::write(ends[1], content.as_ptr().cast(), content.len());
        }
    }
    place(ends[0], read.0, read.1.flags) & place(ends[1], write.0, write.1.flags)
}

/// Makes these anew, of which this process has none. Those that could be made.
pub fn make_again(missing: &BTreeMap<i32, &Special>) -> Vec<i32> {
    let mut made: Vec<i32> = missing
        .iter()
        .filter(|(fd, special)| make(**fd, special))
        .map(|(fd, _)| *fd)
        .collect();
    for (&read, &special) in missing.iter().filter(|(_, special)| special.is_read()) {
        let Kind::Pipe { number, .. } = &special.kind else {
            continue;
        };
        let is_other = |other: &&Special| {
            matches!(&other.kind, Kind::Pipe { number: its, .. } if its == number) && !other.is_read()
        };
        if let Some((&write, &other)) = missing.iter().find(|(_, other)| is_other(other))
            && make_pipe((read, special), (write, other))
        {
            made.extend([read, write]);
        }
    }
    for (&fd, special) in missing {
        if let Kind::Set(members) = &special.kind {
            set_members(fd, &[], members);
        }
    }
    made
}

/// Reads all that is there, and makes of the descriptor what it was.
fn empty(fd: i32, flags: i32) {
    let mut bytes = [0u8; 4096];
    // SAFETY: fcntl(2), and read(2) into a buffer of our own.
    unsafe {
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        while libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) > 0 {}
        libc::fcntl(fd, libc::F_SETFL, flags);
    }
}

fn fill(fd: i32, bytes: &[u8]) {
    use std::io::Write;
    // Another descriptor for the other end.
    let other = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{fd}"));
    let _ = other.and_then(|mut other| other.write_all(bytes));
}

fn set_members(fd: i32, now: &[(i32, u32, u64)], then: &[(i32, u32, u64)]) {
    let control = |what, &(descriptor, events, u64): &(i32, u32, u64)| {
        let mut event = libc::epoll_event { events, u64 };
        // SAFETY: epoll_ctl(2); what is not there any more is left out.
        unsafe { libc::epoll_ctl(fd, what, descriptor, &raw mut event) };
    };
    now.iter()
        .filter(|it| !then.contains(it))
        .for_each(|it| control(libc::EPOLL_CTL_DEL, it));
    then.iter()
        .filter(|it| !now.contains(it))
        .for_each(|it| control(libc::EPOLL_CTL_ADD, it));
}

/// Gives those that are there what was in them. A pipe of which another process may have an end stays as it is.
pub fn settle(saved: &BTreeMap<i32, Special>) {
    for (&fd, special) in saved {
        let Some(now) = Special::of(fd).filter(|now| now != special) else {
            continue;
        };
        match (&now.kind, &special.kind) {
            (Kind::Counter { count: now, .. }, Kind::Counter { count, .. }) if now != count => {
                empty(fd, special.flags);
                if *count > 0 {
                    // SAFETY: write(2) of a number to a counter of zero.
                    unsafe { libc::write(fd, (&raw const *count).cast(), 8) };
                }
            }
            (Kind::Pipe { content: now, .. }, Kind::Pipe { content, number })
                if special.is_read() && now != content =>
            {
                let is_other =
                    |it: &Special| matches!(&it.kind, Kind::Pipe { number: its, .. } if its == number) && !it.is_read();
                if saved.values().any(is_other) {
                    empty(fd, special.flags);
                    fill(fd, content);
                }
            }
            (Kind::Set(now), Kind::Set(then)) => set_members(fd, now, then),
            _ => {}
        }
    }
}
