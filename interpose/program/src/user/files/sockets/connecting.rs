//! Connections from a port that other connections may also use (ip(7)).
//!
//! The kernel, if it chooses the port of a connection, may use one port for several connections
//! whose other ends differ. A program cannot get a shared port by bind(2). But it can restrict the
//! kernel's choice to a range of one port (IP_LOCAL_PORT_RANGE, Linux 6.3).
#![allow(unsafe_code)]

use super::endpoint::Endpoint;
use super::socket_options::{BIND_WITHOUT_PORT, PORT_RANGE, REUSE_PORT};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Takes ownership of a descriptor that a system call has returned.
///
/// # Safety
/// `fd` must be the result of a system call that creates a descriptor, without another owner.
pub unsafe fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the result of the caller's system call is not negative, so the descriptor is open.
    // The caller guarantees that the descriptor has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts to connect a new socket without blocking.
///
/// # Errors
/// Fails with `AddrInUse` while another connection, possibly a closed one, occupies the port, and
/// with the errors of `create`, bind(2) and connect(2).
pub fn connect_from(
    create: impl Fn() -> io::Result<OwnedFd>,
    from: &Endpoint,
    to: &Endpoint,
) -> io::Result<OwnedFd> {
    connect_in_range(create()?, from, to).or_else(|_| connect_bound(create()?, from, to))
}

/// Connects from a range of one port.
///
/// # Errors
/// Fails if the kernel does not support ranges, or the port is bound or occupied.
fn connect_in_range(socket: OwnedFd, from: &Endpoint, to: &Endpoint) -> io::Result<OwnedFd> {
    let fd = socket.as_raw_fd();
    let (_, port) = from.ip().ok_or(io::ErrorKind::InvalidInput)?;
    BIND_WITHOUT_PORT.write_number(fd, 1);
    PORT_RANGE.write(fd, &[port, port].map(u16::to_ne_bytes).concat());
    from.without_port().bind(fd)?;
    begin(fd, to)?;
    PORT_RANGE.write_number(fd, 0);
    BIND_WITHOUT_PORT.write_number(fd, 0);
    let has_port = Endpoint::own(fd).is_some_and(|own| own.ip() == from.ip());
    if has_port {
        Ok(socket)
    } else {
        Err(io::ErrorKind::AddrInUse.into())
    }
}

/// Connects after bind(2) to the port.
fn connect_bound(socket: OwnedFd, from: &Endpoint, to: &Endpoint) -> io::Result<OwnedFd> {
    let fd = socket.as_raw_fd();
    REUSE_PORT.write_number(fd, 1);
    from.bind(fd)?;
    begin(fd, to)?;
    Ok(socket)
}

/// Starts connect(2) without blocking.
fn begin(fd: i32, to: &Endpoint) -> io::Result<()> {
    // SAFETY: fcntl(2) with F_SETFL accesses no memory.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    match to.connect(fd) {
        // A closed connection with these addresses is in the state TIME_WAIT.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            Err(io::ErrorKind::AddrInUse.into())
        }
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}
