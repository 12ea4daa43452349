//! Other end, shutdown and backlog of a UNIX socket (sock_diag(7)).
#![allow(unsafe_code)]

use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel's answer about a UNIX socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Inode of the other end; zero if the other end was closed.
    pub peer: u64,
    /// Directions that were shut down: 1 for reading, 2 for writing.
    pub is_shut: u8,
    /// Number of connections that wait at a listener, and their maximum.
    pub backlog: [u32; 2],
}

/// `struct nlmsghdr` and `struct unix_diag_req` (netlink(7), sock_diag(7)).
#[repr(C)]
#[derive(Default)]
struct Request {
    length: u32,
    message: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family: u8,
    protocol: u8,
    padding: u16,
    states: u32,
    inode: u32,
    show: u32,
    cookie: [u32; 2],
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_PEER: u32 = 4;
const UDIAG_SHOW_RQLEN: u32 = 16;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
/// Length of `struct nlmsghdr` and `struct unix_diag_msg`.
const ANSWER_HEADERS: usize = 16 + 16;

/// Queries the kernel about a UNIX socket; `None` if the kernel does not answer.
pub fn diagnose(inode: u64) -> Option<Diagnosis> {
    let request = Request {
        length: size_of::<Request>() as u32,
        message: SOCK_DIAG_BY_FAMILY,
        flags: libc::NLM_F_REQUEST as u16,
        family: libc::AF_UNIX as u8,
        states: u32::MAX,
        inode: u32::try_from(inode).ok()?,
        show: UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN,
        cookie: [u32::MAX; 2],
        ..Request::default()
    };
    let mut answer = [0u8; 1024];
    // SAFETY: a socket of this function; the request and the buffer have the passed lengths.
    let length = unsafe {
        let made = libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_SOCK_DIAG,
        );
        if made < 0 {
            return None;
        }
        let socket = OwnedFd::from_raw_fd(made);
        let (at, bytes) = ((&raw const request).cast(), size_of_val(&request));
        if libc::send(socket.as_raw_fd(), at, bytes, 0) != bytes as isize {
            return None;
        }
        libc::recv(
            socket.as_raw_fd(),
            answer.as_mut_ptr().cast(),
            answer.len(),
            0,
        )
    };
    parse(answer.get(..usize::try_from(length).ok()?)?)
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn parse(answer: &[u8]) -> Option<Diagnosis> {
    if word(answer, 4).map(u16::from_ne_bytes) != Some(SOCK_DIAG_BY_FAMILY) {
        return None;
    }
    let mut found = Diagnosis::default();
    let mut at = ANSWER_HEADERS;
    while let Some(length) = word(answer, at).map(u16::from_ne_bytes) {
        match word(answer, at + 2).map(u16::from_ne_bytes)? {
            UNIX_DIAG_PEER => found.peer = u32::from_ne_bytes(word(answer, at + 4)?).into(),
            UNIX_DIAG_RQLEN => {
                let number = |at| word(answer, at).map(u32::from_ne_bytes);
                found.backlog = [number(at + 4)?, number(at + 8)?];
            }
            UNIX_DIAG_SHUTDOWN => found.is_shut = *answer.get(at + 4)?,
            _ => {}
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    Some(found)
}
