//! What the processes of a job and their process manager say to each other: *lines*.
//!
//! A line is a connection to a socket in the job's directory, which is this user's alone; messages
//! keep their bounds (unix(7), SOCK_SEQPACKET). Guardians call the manager. A process of the
//! program calls its guardian, which makes a line between it and the manager, and a page of memory
//! that both share. The guardian keeps descriptors of these, and of the files that the process
//! hands over: they outlive the process, and the manager, which learns from the guardians what
//! there is if it follows another one ([`FromGuardian::Has`]).
//!
//! ```text
//!   process                                   manager                              guardian
//!     │                                         │ ◄─────────────── Guardian { rank } ──── │
//!     │                                         │ ◄─────────────── Told ───────────────── │
//!     │                                         │ ── Start(number) ─────────────────────► │ starts a process
//!     │ ── Process(number), in MPI_Init ──────────────────────────────────────────────────► │
//!     │ ◄─────────────────────────────────────────────────────────────── Line, one end ──── │
//!     │                                         │ ◄── Called(number), the other end, page │
//!     │ ◄── Page ────────────────────────────── │                                         │
//!     │  Ready(g)  ── MPI is as before MPI_Init ──► │   all that are to be in generation g are ready (the others wait, as spares):
//!     │ ◄── Begin { g, rank, size, variables } ─ │                                         │
//!     │  MPI_Init …                             │                                         │
//!     │  Keeps(worker), files ────────────────► │   copies that outlive this process …    │
//!     │ ── Keeps(worker), files ──────────────────────────────────────────────────────────► │ … and the manager
//!     │  Running(g) ──────────────────────────► │                                         │
//!     │                                         │ ◄── Ended(other number) ─────────────── │ sees a death
//!     │ ◄── page: generation g + 1, signal ──── │                                         │
//!     │  Ready(g + 1)                           │                                         │
//!     │ ◄── Inherit(number), files ──────────── │   if it has none, and is to have those of a dead one
//!     │  AtEnd ── in MPI_Finalize ────────────► │   all workers are there:                │
//!     │ ◄── End ─────────────────────────────── │                                         │
//!     │                                         │ ── Leave(status) ─────────────────────► │ ends
//!                                             dies
//!                                             another ◄─ Guardian { rank }, Has(…), Told ─ │
//! ```

mod input_request;
mod process_place;

pub use input_request::{InputPage, InputReply, InputRequest};
pub use process_place::ProcessPlace;
pub use understudy_messages::{
    Boards, Call, ChildNews, ChildProgram, ChildStart, Ended, FromGuardian, Has, Hello, Killer,
    ToGuardian, ToManager, ToProcess,
};

use crate::io::{Interest, is_ready};
use bincode::config::standard;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use understudy_formats::private::Directory;
use understudy_numbers::Guardian;

/// In the environment of a process: its number, that of its guardian, and the job's directory, with
/// commas in between.
pub const LINE: &str = "UNDERSTUDY_LINE";

/// What the names of guardians' sockets begin with.
const GUARDIAN: &str = "guardian-";
/// Prefix of the names of sockets for standard input.
const INPUT: &str = "input-";

/// Whose socket in that directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Socket {
    Manager,
    Guardian(Guardian),
    /// Relay of the standard input of this guardian.
    Input(Guardian),
}

impl Socket {
    fn name(self) -> String {
        match self {
            Socket::Manager => "line".into(),
            Socket::Guardian(rank) => format!("{GUARDIAN}{rank}"),
            Socket::Input(rank) => format!("{INPUT}{rank}"),
        }
    }

    /// The guardian whose socket has this name.
    pub fn guardian_of(name: &str) -> Option<Guardian> {
        name.strip_prefix(GUARDIAN)?.parse().ok().map(Guardian)
    }
}

/// In that directory if processes run without the layer; they cannot be replaced then. The face,
/// which knows no ckptd, has the same.
pub const ASIDE: &str = "aside";
/// Name of the file there if a process was refused; the face has the same.
pub const REFUSED: &str = "refused";
/// In front of the names of variables that a launcher has given and a guardian has changed; the
/// face has the same.
pub const LAUNCHERS: &str = "UNDERSTUDY_LAUNCHER_";
/// What a guardian has in its environment for the program's LD_PRELOAD; the face has the same.
pub const PRELOADED: &str = "UNDERSTUDY_PRELOAD";
/// Inode of the guardian's pid namespace, for its processes; the face has the same.
pub const PID_NAMESPACE: &str = "UNDERSTUDY_PID_NAMESPACE";

/// Longest message in bytes: the environment of a rank is the greatest part.
const LONGEST: usize = 128 << 10;
/// Most descriptors that come with a message.
const DESCRIPTORS: usize = 2 * Call::DESCRIPTORS + 2;
/// How many may wait to be accepted: more than a node has processes.
const BACKLOG: i32 = 4096;

/// The signal that takes a process out of its MPI library: the first that glibc keeps for itself.
pub const INTERRUPT: i32 = 32;
/// The main thread, whatever its number.
pub const MAIN_THREAD: u32 = 1;

/// What a process and its manager share. All but the first two words is for a manager that follows
/// another one; not 0 is yes.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Page {
    /// The generation that has begun or is to; the manager's word.
    pub generation: AtomicU32,
    /// The number of the thread that is in the MPI library, or [`MAIN_THREAD`]; 0: none. The
    /// process's word.
    pub is_inside: AtomicU32,
    /// One more than the last generation that the process was ready for; its word.
    pub ready: AtomicU32,
    /// It has been in a generation that has begun, or has inherited; the manager's word.
    pub has_played: AtomicU32,
    /// It has gone on with the program in one; its word.
    pub has_run: AtomicU32,
    /// Somebody had, when its generation began; the manager's word.
    pub is_protected: AtomicU32,
    /// All workers are at their end; the manager's word, before anybody hears of that.
    pub has_ended: AtomicU32,
    /// The process id of the manager; its word.
    pub manager: AtomicU32,
    /// The main thread takes [`INTERRUPT`] wherever it is; the process's word.
    pub is_interruptible: AtomicU32,
    /// How often idle spares have died since it called; the manager's word.
    pub spare_deaths: AtomicU32,
    /// When a launcher has last sent each of [`REMEMBERED`], in nanoseconds since 1970; 0: never.
    /// The guardian's words.
    pub passed: [AtomicU64; REMEMBERED.len()],
}

/// Signals for all ranks that a job which goes back to before them gets again.
pub const REMEMBERED: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Its length in bytes.
pub const PAGE: usize = 4096;

/// One end of a line.
#[derive(Debug)]
pub struct Line(OwnedFd);

/// Where a manager is called.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Makes the socket in the job's directory, in place of one that another process has left.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2).
    pub fn new(directory: &Directory, of: Socket) -> io::Result<Listener> {
        directory.remove_all(of.name().as_ref())?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        bind(&socket, &address(directory, of)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Listener(socket))
    }

    /// The next call, if there is one already.
    pub fn waiting(&self) -> Option<Line> {
        is_ready(&self.0, Interest::READ, Duration::ZERO)
            .ok()
            .filter(|&is_there| is_there)?;
        Some(Line(accept_with(&self.0, SocketFlags::CLOEXEC).ok()?))
    }
}

impl From<OwnedFd> for Listener {
    fn from(descriptor: OwnedFd) -> Listener {
        Listener(descriptor)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// By the directory's descriptor, since the path of a socket is short (unix(7): 108 bytes).
fn address(directory: &Directory, of: Socket) -> io::Result<SocketAddrUnix> {
    let path = format!(
        "/proc/self/fd/{}/{}",
        directory.as_fd().as_raw_fd(),
        of.name()
    );
    Ok(SocketAddrUnix::new(path)?)
}

impl From<OwnedFd> for Line {
    fn from(descriptor: OwnedFd) -> Line {
        Line(descriptor)
    }
}

impl From<Line> for OwnedFd {
    fn from(line: Line) -> OwnedFd {
        line.0
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Line {
    /// Returns the process at the other end (unix(7)).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub fn peer(&self) -> io::Result<rustix::process::Pid> {
        Ok(rustix::net::sockopt::socket_peercred(self)?.pid)
    }

    /// Calls somebody of the job that has this directory.
    ///
    /// # Errors
    /// Those of connect(2); `NotFound` without the directory; that it is not this user's alone.
    pub fn call(directory: &Path, whom: Socket) -> io::Result<Line> {
        let directory = Directory::open(directory)?.ok_or(io::ErrorKind::NotFound)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        connect(&socket, &address(&directory, whom)?)?;
        Ok(Line(socket))
    }

    /// Both ends of a line.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn pair() -> io::Result<(Line, Line)> {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Line(one), Line(other)))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Those of sendmsg(2); the other side has gone.
    pub fn send(&self, message: &impl bincode::Encode) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message, and descriptors with it, [`DESCRIPTORS`] at most.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_with(
        &self,
        message: &impl bincode::Encode,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        Line::send_on(self.as_fd(), message, descriptors)
    }

    /// Sends a message on a line that another process reads.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_on(
        line: BorrowedFd<'_>,
        message: &impl bincode::Encode,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = bincode::encode_to_vec(message, standard()).map_err(io::Error::other)?;
        if bytes.len() > LONGEST {
            return Err(Errno::MSGSIZE.into());
        }
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        loop {
            let mut control = SendAncillaryBuffer::new(&mut room);
            if !descriptors.is_empty()
                && !control.push(SendAncillaryMessage::ScmRights(descriptors))
            {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            match sendmsg(
                line,
                &[IoSlice::new(&bytes)],
                &mut control,
                SendFlags::NOSIGNAL,
            ) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next message within `limit`, if there is one, or nothing; a signal may end the wait
    /// early. Descriptors with it are closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the other side has gone, or what it has sent cannot be
    /// understood.
    pub fn receive<T: bincode::Decode<()>>(
        &self,
        limit: impl Into<Option<Duration>>,
    ) -> io::Result<Option<T>> {
        Ok(self.receive_with(limit)?.map(|(message, _)| message))
    }

    /// As [`receive`](Self::receive), with the descriptors that have come.
    ///
    /// # Errors
    /// As there.
    pub fn receive_with<T: bincode::Decode<()>>(
        &self,
        limit: impl Into<Option<Duration>>,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        if !is_ready(&self.0, Interest::READ, limit)? {
            return Ok(None);
        }
        let mut bytes = vec![0; LONGEST];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let length = match recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags,
        ) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => message.bytes,
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(of) = message {
                descriptors.extend(of);
            }
        }
        let (message, _) = bincode::decode_from_slice(&bytes[..length], standard())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some((message, descriptors)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_numbers::{Generation, Rank};

    #[test]
    fn messages_arrive_one_by_one_with_descriptors_and_an_end_is_an_error() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path().join("job");
        let directory = Directory::make(&place).expect("a directory of its own");
        let listener = Listener::new(&directory, Socket::Manager).expect("a socket");
        let one = Line::call(&place, Socket::Manager).expect("connected");
        let other = listener.waiting().expect("a call");
        let begin = ToProcess::Begin {
            generation: Generation(7),
            rank: Rank(1),
            size: 4,
            is_first: true,
            spares: 4,
            failed_at: Some(5),
            variables: vec![("PMIX_RANK".into(), "1".into())],
            descriptor: None,
            heir_of: None,
        };
        one.send(&begin).expect("sent");
        one.send_with(&ToProcess::Page { workers: 2 }, &[listener.as_fd()])
            .expect("sent");
        let soon = Duration::from_millis(1);
        assert_eq!(other.receive(soon).expect("whole"), Some(begin));
        let (message, descriptors) = other.receive_with(soon).expect("whole").expect("there");
        assert_eq!(
            (message, descriptors.len()),
            (ToProcess::Page { workers: 2 }, 1)
        );
        assert_eq!(other.receive::<ToProcess>(soon).expect("nothing"), None);
        drop(one);
        let gone = other.receive::<ToProcess>(soon).expect_err("the end");
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
        // Another manager takes the name over.
        drop((listener, descriptors));
        assert!(Line::call(&place, Socket::Manager).is_err());
        let _listener = Listener::new(&directory, Socket::Manager).expect("a socket");
        Line::call(&place, Socket::Manager).expect("connected");
    }
}
