//! Reports effects of child processes on files to their rank.
//!
//! A report precedes the call that has the effect.
//!
//! A child that the rank has forked has the rank's memory, and finds the rank there. Another
//! program that a child executes has this library as well, since children inherit LD_PRELOAD: that
//! program looks for the rank among its ancestors. A process without such an ancestor reports
//! nothing.
#![allow(unsafe_code)]

use crate::msg::Line;
use crate::noted;
use crate::processes::parent_of;
use crate::sys::{self, nr, sys};
use core::ffi::{c_char, c_int};
use core::fmt::Write;
use core::mem::size_of;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use understudy_abi::child_effects::{
    LONGEST_NAME, NAMESPACE, NO_NAME, REPORT_RETURN, Request, SOCKET,
};
use understudy_abi::effect;

/// Process number of the rank that is an ancestor; 0 before the first search.
static RANK: AtomicIsize = AtomicIsize::new(0);
/// Value of [`RANK`] in a process that reports nothing.
const NO_RANK: isize = -1;
/// Value of [`RANK`] in a process that outlives its rank.
const RANK_HAS_ENDED: isize = -2;
/// Ancestors that are tried at most.
const MAX_ANCESTORS: usize = 64;
/// Time in which a killed rank's guardian kills the rank's children, in seconds.
const END_OF_RANK: i64 = 1;

/// Attempts to connect to a process that has many connections to accept.
///
/// A rank accepts more than anybody makes; another user's process may accept none.
const MAX_ATTEMPTS: u32 = 100;
/// Pause between two attempts: seconds and nanoseconds.
const ATTEMPT_PAUSE: [i64; 2] = [0, 1_000_000];

/// True while a call that makes a name has not returned.
static IS_NAME_AWAITED: AtomicBool = AtomicBool::new(false);

/// Two names of an effect, with the descriptors of their directories.
type Names = [(c_int, *const c_char); 2];

const AF_UNIX: usize = 1;
const SOCK_STREAM: usize = 1;
const SOCK_CLOEXEC: usize = 0o2000000;
const SOCK_NONBLOCK: usize = 0o4000;
const F_SETFL: usize = 4;
const EAGAIN: isize = -11;
const MSG_NOSIGNAL: usize = 0x4000;
const EINTR: isize = -4;

/// A connection to a rank.
struct Connection(c_int);

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the descriptor of this connection.
        unsafe { sys!(nr::CLOSE, self.0) };
    }
}

impl Connection {
    /// Connects to a process, if it is a rank of this process's user.
    fn to(process: isize) -> Option<Connection> {
        let [_, namespace] = sys::file_id(NAMESPACE)?;
        let mut name = Line::new();
        let _ = write!(name, "{SOCKET}{namespace}-{process}");
        let name = name.as_bytes();
        // Family, and a name that begins with a zero.
        let mut address = [0u8; 64];
        address[0] = AF_UNIX as u8;
        address[3..3 + name.len()].copy_from_slice(name);
        // SAFETY: system calls on a descriptor of this function and on its address.
        unsafe {
            let kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
            let fd = sys!(nr::SOCKET, AF_UNIX, kind, 0);
            if fd < 0 {
                return None;
            }
            let connection = Connection(fd as c_int);
            let length = 3 + name.len();
            let mut attempts = (0..MAX_ATTEMPTS).map(|attempt| {
                if attempt > 0 {
                    sys!(nr::NANOSLEEP, ATTEMPT_PAUSE.as_ptr(), 0);
                }
                sys!(nr::CONNECT, fd, address.as_ptr(), length)
            });
            let is_connected = attempts.find(|&result| result != EAGAIN) == Some(0);
            sys!(nr::FCNTL, fd, F_SETFL, 0);
            (is_connected && connection.is_of_own_user()).then_some(connection)
        }
    }

    fn is_of_own_user(&self) -> bool {
        const SOL_SOCKET: usize = 1;
        const SO_PEERCRED: usize = 17;
        // Process, user, group.
        let (mut peer, mut length) = ([u32::MAX; 3], size_of::<[u32; 3]>() as u32);
        let (place, length) = (peer.as_mut_ptr() as usize, &raw mut length as usize);
        let socket = self.0 as usize;
        // SAFETY: getsockopt(2) fills a structure of this length.
        let (failed, own) = unsafe {
            let failed = sys::call(
                nr::GETSOCKOPT,
                socket,
                SOL_SOCKET,
                SO_PEERCRED,
                place,
                length,
                0,
            );
            (failed, sys!(nr::GETEUID))
        };
        failed == 0 && peer[1] as isize == own
    }

    /// Sends a request; returns the answer, or `None` if the rank has ended.
    ///
    /// # Safety
    /// The names must be valid strings or null.
    unsafe fn ask(&self, kind: u32, names: Names, value: i64) -> Option<u8> {
        let bytes = names.map(|(_, name)| {
            // SAFETY: handed on to the caller.
            let bytes = (!name.is_null()).then(|| unsafe { sys::bytes(name) });
            bytes.map(|bytes| &bytes[..bytes.len().min(LONGEST_NAME)])
        });
        let request = Request {
            kind,
            // SAFETY: gettid(2).
            thread: unsafe { sys!(nr::GETTID) } as i32,
            directory: names[0].0,
            other_directory: names[1].0,
            value,
            lengths: bytes.map(|bytes| bytes.map_or(NO_NAME, |bytes| bytes.len() as u32)),
        };
        let part = |bytes: Option<&[u8]>| bytes.map_or((null(), 0), |it| (it.as_ptr(), it.len()));
        let head = ((&raw const request).cast::<u8>(), size_of::<Request>());
        let parts = [head, part(bytes[0]), part(bytes[1])];
        // struct msghdr: address, parts, ancillary data, flags.
        let message = [0, 0, parts.as_ptr() as usize, parts.len(), 0, 0, 0];
        let mut answer = 0u8;
        // SAFETY: sendmsg(2) and read(2) on structures of this function.
        unsafe {
            if sys!(nr::SENDMSG, self.0, message.as_ptr(), MSG_NOSIGNAL) < 0 {
                return None;
            }
            loop {
                match sys!(nr::READ, self.0, &raw mut answer, 1) {
                    EINTR => {}
                    1 => return Some(answer),
                    _ => return None,
                }
            }
        }
    }
}

/// Finds the rank among the ancestors of this process.
fn search() -> isize {
    // SAFETY: getppid(2).
    let mut ancestor = unsafe { sys!(nr::GETPPID) };
    for _ in 0..MAX_ANCESTORS {
        if ancestor <= 1 {
            break;
        }
        if Connection::to(ancestor).is_some() {
            return ancestor;
        }
        ancestor = parent_of(ancestor);
    }
    NO_RANK
}

/// Returns true if a rank is an ancestor of this process.
pub fn has_rank() -> bool {
    rank().is_some()
}

/// Returns the rank that is an ancestor of this process, if any.
fn rank() -> Option<isize> {
    let known = RANK.load(Ordering::Relaxed);
    if known == RANK_HAS_ENDED {
        return None;
    }
    if let Some(rank) = noted::forking_rank() {
        return Some(rank as isize);
    }
    let rank = if known == 0 { search() } else { known };
    RANK.store(rank, Ordering::Relaxed);
    (rank != NO_RANK).then_some(rank)
}

/// Returns true if the return of a call is to be reported.
pub fn is_name_awaited() -> bool {
    IS_NAME_AWAITED.load(Ordering::Relaxed)
}

/// Reports an effect to the rank, and returns when the call may be made.
///
/// # Safety
/// The names must be valid strings or null.
pub unsafe fn report(kind: u32, names: Names, value: i64) {
    let (kind, value) = match kind {
        effect::OPEN_LIBRARY | effect::CLOSE_LIBRARY | effect::OBJECT => return,
        // The value is an address; all of the file is kept.
        effect::OVERWRITE | effect::MAP => (effect::OVERWRITE, 0),
        _ => (kind, value),
    };
    let Some(rank) = rank() else { return };
    let connection = Connection::to(rank);
    // SAFETY: handed on to the caller.
    let answer = connection.and_then(|rank| unsafe { rank.ask(kind, names, value) });
    match answer {
        Some(answer) => IS_NAME_AWAITED.store(answer == REPORT_RETURN, Ordering::Relaxed),
        None => outlive_rank(),
    }
}

/// Waits until the guardian has had time to kill this process.
///
/// A child that lives on afterwards outlives a rank that has not failed.
fn outlive_rank() {
    let time = [END_OF_RANK, 0i64];
    // SAFETY: nanosleep(2) of a valid timespec.
    unsafe { sys!(nr::NANOSLEEP, time.as_ptr(), 0) };
    RANK.store(RANK_HAS_ENDED, Ordering::Relaxed);
    IS_NAME_AWAITED.store(false, Ordering::Relaxed);
}
