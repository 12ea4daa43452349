//! Reports effects of child processes on files to their rank, before they happen.
//!
//! A forked child has a copy of the rank's memory, which contains the number of the rank's process.
//! A program that a child executes also has this library preloaded, because children inherit
//! LD_PRELOAD. Such a program searches its ancestors for the rank: it tries to connect to the
//! socket that an ancestor would have if it were a rank. A process without such an ancestor reports
//! nothing.
#![allow(unsafe_code)]

use crate::messages::{Line, print};
use crate::processes::parent_of;
use crate::recorded_process::{self, Parent};
use crate::sys::{self, nr, sys};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::mem::size_of;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, Ordering};
use understudy_abi::child_effects::{
    LONGEST_NAME, NAMESPACE, NO_NAME, REPORT_RETURN, RETURN_NOTED, Request, SOCKET,
};
use understudy_abi::effect;
use understudy_catalogue::message;

/// Process number of the rank among the ancestors; 0 before the first search, or [`NO_RANK`].
static RANK: AtomicIsize = AtomicIsize::new(0);
/// Value of [`RANK`] in a process that has no rank among its ancestors.
const NO_RANK: isize = -1;
/// Number of this process if it has outlived its rank; zero in other processes.
///
/// A forked child of such a process has another number, and searches for a rank itself.
static OUTLIVING: AtomicIsize = AtomicIsize::new(0);
/// Maximum number of ancestors that are tried.
const MAX_ANCESTORS: usize = 64;
/// Time in seconds within which a killed rank's guardian kills the rank's children.
const GUARDIAN_KILL_TIME: i64 = 1;
/// Maximum number of attempts to connect to an ancestor whose backlog is full.
///
/// The backlog of a rank has thousands of places. A full backlog perhaps belongs to a process of
/// another user, which may never accept a connection.
const MAX_ATTEMPTS: u32 = 100;
/// Pause between two attempts: seconds and nanoseconds.
const ATTEMPT_PAUSE: [i64; 2] = [0, 1_000_000];

/// Number of calls whose return the rank awaits, because they may create a name.
static NAMES_AWAITED: AtomicU32 = AtomicU32::new(0);

/// Two names of an effect, with the descriptors of their directories.
type Names = [(c_int, *const c_char); 2];

const AF_UNIX: usize = 1;
const SOCK_STREAM: usize = 1;
const SOCK_CLOEXEC: usize = 0o2000000;
const SOCK_NONBLOCK: usize = 0o4000;
const F_SETFL: usize = 4;
const EAGAIN: isize = -11;
const ECONNREFUSED: isize = -111;
const MSG_NOSIGNAL: usize = 0x4000;
const EINTR: isize = -4;

/// `struct iovec`: buffer of a message.
#[repr(C)]
struct Iovec {
    start: *const c_void,
    length: usize,
}

/// A connection to a rank.
struct Connection(c_int);

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the descriptor of this connection.
        unsafe { sys!(nr::CLOSE, self.0) };
    }
}

impl Connection {
    /// Connects to a process if it is a rank of this process's user.
    ///
    /// # Errors
    /// The negative errno: `ECONNREFUSED` if there is no such rank, `EAGAIN` after `max_attempts`.
    fn to(rank: Parent, max_attempts: u32) -> Result<Connection, isize> {
        let (process, namespace) = (rank.process, rank.namespace);
        let mut name = Line::new();
        let _ = write!(name, "{SOCKET}{namespace}-{process}");
        let name = name.as_bytes();
        // The address family, followed by a name that begins with a zero byte.
        let mut address = [0u8; 64];
        address[0] = AF_UNIX as u8;
        address[3..3 + name.len()].copy_from_slice(name);
        let kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
        // SAFETY: system calls on a descriptor of this function and on its address.
        unsafe {
            let fd = sys!(nr::SOCKET, AF_UNIX, kind, 0);
            if fd < 0 {
                return Err(fd);
            }
            let connection = Connection(fd as c_int);
            let mut attempts = (0..max_attempts).map(|attempt| {
                if attempt > 0 {
                    sys!(nr::NANOSLEEP, ATTEMPT_PAUSE.as_ptr(), 0);
                }
                sys!(nr::CONNECT, fd, address.as_ptr(), 3 + name.len())
            });
            match attempts.find(|&result| result != EAGAIN) {
                Some(0) if connection.is_of_own_user() => {
                    sys!(nr::FCNTL, fd, F_SETFL, 0);
                    Ok(connection)
                }
                Some(error @ ..0) => Err(error),
                Some(_) => Err(ECONNREFUSED),
                None => Err(EAGAIN),
            }
        }
    }

    fn is_of_own_user(&self) -> bool {
        const SOL_SOCKET: usize = 1;
        const SO_PEERCRED: usize = 17;
        // Process, user, group.
        let (mut peer, mut length) = ([u32::MAX; 3], size_of::<[u32; 3]>() as u32);
        let (value, length) = (peer.as_mut_ptr() as usize, &raw mut length as usize);
        let socket = self.0 as usize;
        // SAFETY: getsockopt(2) fills a structure of this length.
        let (failed, own) = unsafe {
            let failed = sys::call(
                nr::GETSOCKOPT,
                socket,
                SOL_SOCKET,
                SO_PEERCRED,
                value,
                length,
                0,
            );
            (failed, sys!(nr::GETEUID))
        };
        failed == 0 && peer[1] as isize == own
    }

    /// Sends a request; returns the answer, or `None` if the rank has exited.
    ///
    /// # Safety
    /// The names must be valid strings or null.
    unsafe fn send_request(&self, kind: u32, names: Names, value: i64) -> Option<u8> {
        let bytes = names.map(|(_, name)| {
            // SAFETY: the caller guarantees that each name is a valid string or null.
            let bytes = (!name.is_null()).then(|| unsafe { sys::bytes(name) });
            bytes.map(|bytes| &bytes[..bytes.len().min(LONGEST_NAME)])
        });
        let request = Request {
            kind,
            // SAFETY: gettid(2) has no preconditions.
            thread: unsafe { sys!(nr::GETTID) } as i32,
            directory: names[0].0,
            other_directory: names[1].0,
            value,
            lengths: bytes.map(|bytes| bytes.map_or(NO_NAME, |bytes| bytes.len() as u32)),
        };
        let buffer = |bytes: Option<&[u8]>| Iovec {
            start: bytes.map_or(null(), <[u8]>::as_ptr).cast(),
            length: bytes.map_or(0, <[u8]>::len),
        };
        let head = Iovec {
            start: (&raw const request).cast(),
            length: size_of::<Request>(),
        };
        let buffers = [head, buffer(bytes[0]), buffer(bytes[1])];
        // struct msghdr: address, buffers, ancillary data, flags.
        let message = [0, 0, buffers.as_ptr() as usize, buffers.len(), 0, 0, 0];
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

/// Returns the number of the rank among the ancestors of this process, or [`NO_RANK`].
fn search(namespace: u64) -> isize {
    // SAFETY: getppid(2) has no preconditions.
    let mut process = unsafe { sys!(nr::GETPPID) };
    for _ in 0..MAX_ANCESTORS {
        if process <= 1 {
            break;
        }
        if Connection::to(Parent { process, namespace }, MAX_ATTEMPTS).is_ok() {
            return process;
        }
        process = parent_of(process);
    }
    NO_RANK
}

/// Returns true in a rank that records effects of its children, and in its descendants.
pub fn has_rank() -> bool {
    rank().is_some()
}

/// Returns the rank that records this process's effects: the process itself or an ancestor.
fn rank() -> Option<Parent> {
    // SAFETY: getpid(2) has no preconditions.
    if OUTLIVING.load(Ordering::Relaxed) == unsafe { sys!(nr::GETPID) } {
        return None;
    }
    if let Some(parent) = recorded_process::parent() {
        return Some(parent);
    }
    if RANK.load(Ordering::Relaxed) == NO_RANK {
        return None;
    }
    let [_, namespace] = sys::file_id(NAMESPACE)?;
    if RANK.load(Ordering::Relaxed) == 0 {
        RANK.store(search(namespace), Ordering::Relaxed);
    }
    let process = RANK.load(Ordering::Relaxed);
    (process != NO_RANK).then_some(Parent { process, namespace })
}

/// Returns true if the rank awaits the report that a call has returned.
pub fn is_name_awaited() -> bool {
    NAMES_AWAITED.load(Ordering::Relaxed) > 0
}

/// Reports an effect to the rank, and returns when the call may be made.
///
/// # Safety
/// The names must be valid strings or null.
pub unsafe fn report(kind: u32, names: Names, value: i64) {
    let (kind, value) = match kind {
        effect::OPEN_LIBRARY
        | effect::CLOSE_LIBRARY
        | effect::SYSTEM_V_OBJECT
        | effect::POSIX_QUEUE => return,
        // The value would be an address in this process, which the rank cannot read. The rank saves
        // the whole file instead.
        effect::OVERWRITE | effect::OVERWRITE_BY_MAPPING => (effect::OVERWRITE, 0),
        _ => (kind, value),
    };
    let Some(rank) = rank() else { return };
    let answer = match Connection::to(rank, u32::MAX) {
        // SAFETY: the caller guarantees that each name is a valid string or null.
        Ok(connection) => unsafe { connection.send_request(kind, names, value) },
        Err(ECONNREFUSED) => None,
        Err(error) => return warn(error),
    };
    match answer {
        Some(REPORT_RETURN) => drop(NAMES_AWAITED.fetch_add(1, Ordering::Relaxed)),
        Some(RETURN_NOTED) => drop(NAMES_AWAITED.fetch_sub(1, Ordering::Relaxed)),
        Some(_) => {}
        None => outlive_rank(),
    }
}

/// Warns once that an effect could not be reported.
fn warn(error: isize) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if !HAS_WARNED.swap(true, Ordering::Relaxed) {
        // SAFETY: getpid(2) has no preconditions.
        let process = unsafe { sys!(nr::GETPID) };
        print(&message::child_files_not_recorded(process, -error));
    }
}

/// Records that this process has outlived its rank, unless the guardian kills the process.
///
/// The guardian of a failed rank kills the rank's children. A child that is alive after
/// [`GUARDIAN_KILL_TIME`] has therefore outlived a rank that has not failed.
fn outlive_rank() {
    let time = [GUARDIAN_KILL_TIME, 0i64];
    // SAFETY: nanosleep(2) of a valid timespec; getpid(2).
    unsafe {
        sys!(nr::NANOSLEEP, time.as_ptr(), 0);
        OUTLIVING.store(sys!(nr::GETPID), Ordering::Relaxed);
    }
    NAMES_AWAITED.store(0, Ordering::Relaxed);
}
