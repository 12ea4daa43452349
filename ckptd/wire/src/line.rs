//! Messages between the processes of a job, their guardians and their node manager: *lines*.
//!
//! A line is a connection of Unix sockets whose messages keep their boundaries (unix(7),
//! SOCK_SEQPACKET). Listening sockets are in the job's directory, which only this user can access.
//! Guardians connect to the manager. A process of the program connects to its guardian, which
//! creates a line between the process and the manager, and a page of memory that process and
//! manager share. The guardian keeps descriptors of the manager's end of the line, of the page, and
//! of the files that the process hands over. So line, page and files outlive the process and the
//! manager: guardians report them to a succeeding manager ([`FromGuardian::Process`]).
//!
//! ```text
//!  process                              manager                             guardian
//!    │                                    │ ◄─────────── Guardian { rank } ── │
//!    │                                    │ ◄──────────────── AllReported ─── │
//!    │                                    │ ── Joined { role } ─────────────► │ then sends Beat,
//!    │                                    │ ◄── Beat, and back ────────────── │ every few seconds
//!    │                                    │ ── Start(number) ───────────────► │ starts a process
//!    │ ── Process(number), in MPI_Init ─────────────────────────────────────► │
//!    │ ◄──────────────────────────────────────────── Connection, one end ──── │
//!    │                                    │ ◄ Registered(n), other end, page  │
//!    │ ◄── Page ───────────────────────── │                                   │
//!    │ Ready(g): MPI not initialised ───► │ all members of g are ready;       │
//!    │                                    │ the others wait as spares         │
//!    │ ◄ Begin { g, rank, size, … } ───── │                                   │
//!    │ MPI_Init …                         │                                   │
//!    │ StoreReplicas { worker, … } ─────► │ replicas that outlive the process │
//!    │ ── StoreReplicas { worker, … } ──────────────────────────────────────► │ … and the manager
//!    │ Running(g) ──────────────────────► │                                   │
//!    │                                    │ ◄── Ended(other number) ───────── │ reports a death
//!    │ ◄── page: generation g + 1, signal │                                   │
//!    │ Ready(g + 1) ────────────────────► │                                   │
//!    │ ◄── AdoptStore { from, … } ─────── │ if it adopts a dead one's replicas│
//!    │ AtEnd, in MPI_Finalize ──────────► │ all workers have arrived:         │
//!    │ ◄── End ────────────────────────── │                                   │
//!    │                                    │ ── Leave(status) ───────────────► │ exits
//!                                        dies
//!                                      another ◄── Process …, AllReported ──── │
//! ```

mod input_request;
mod process_place;
mod shared_page;

pub use input_request::{InputPage, InputReply, InputRequest};
pub use process_place::{ProcessPlace, is_first_to_warn};
pub use shared_page::{
    CallAddresses, CheckpointRequest, FRAME_BYTES, PAGE_BYTES, REPEATED_SIGNALS, SharedPage,
};
pub use understudy_messages::{
    Activity, Boards, CallPlace, ChildProgram, ChildStart, ChildState, FromGuardian, Hello, Killer,
    ManagerRole, ProcessActivity, ProcessEnd, ProcessRecord, Registration, ReplaceAnswer,
    ReplaceTarget, StackFrame, ToGuardian, ToManager, ToProcess,
};

use crate::io::{Interest, wait_ready};
use bincode::config::standard;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recvmsg, sendmsg, shutdown, socket_with, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use understudy_formats::private_directories::PrivateDirectory;
use understudy_numbers::Guardian;

/// Environment variable with a process's number, its guardian and the job's directory.
///
/// Commas separate the three parts.
pub const LINE_VARIABLE: &str = "UNDERSTUDY_LINE";

/// Prefix of the names of guardians' sockets.
const GUARDIAN_PREFIX: &str = "guardian-";
/// Prefix of the names of sockets for standard input.
const INPUT_PREFIX: &str = "input-";

/// Socket in the job's directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineSocket {
    Manager,
    Guardian(Guardian),
    /// Relay of the standard input of this guardian.
    Input(Guardian),
}

impl LineSocket {
    fn name(self) -> String {
        match self {
            LineSocket::Manager => "line".into(),
            LineSocket::Guardian(rank) => format!("{GUARDIAN_PREFIX}{rank}"),
            LineSocket::Input(rank) => format!("{INPUT_PREFIX}{rank}"),
        }
    }

    /// Returns the guardian whose socket has this name.
    pub fn guardian_of(name: &str) -> Option<Guardian> {
        name.strip_prefix(GUARDIAN_PREFIX)?
            .parse()
            .ok()
            .map(Guardian)
    }
}

/// Name of a file that exists in the job's directory if processes run without protection.
///
/// Processes without protection cannot be replaced. The preload library does not use this crate,
/// and has an equal constant.
pub const BYPASS_FILE: &str = "aside";
/// Name of a file that exists in the job's directory if a process was refused.
///
/// The preload library has an equal constant.
pub const REFUSED_FILE: &str = "refused";
/// Prefix under which a guardian passes on the launcher's variables that the guardian changes.
///
/// The preload library has an equal constant.
pub const LAUNCHER_PREFIX: &str = "UNDERSTUDY_LAUNCHER_";
/// Variable of a guardian that contains the program's value of LD_PRELOAD.
///
/// The preload library has an equal constant.
pub const PRELOAD_VARIABLE: &str = "UNDERSTUDY_PRELOAD";
/// Variable with the inode of the guardian's pid namespace.
///
/// The preload library has an equal constant.
pub const PID_NAMESPACE: &str = "UNDERSTUDY_PID_NAMESPACE";

/// Maximum length of a message in bytes, most of which a rank's environment needs.
const MAX_MESSAGE_BYTES: usize = 128 << 10;
/// Limit of memory for decoding a message.
///
/// A pair of empty strings needs 24 times as many bytes in memory as in a message.
const DECODE_LIMIT: usize = 32 * MAX_MESSAGE_BYTES;
/// Maximum number of descriptors in a message.
const MAX_DESCRIPTORS: usize = 2 * Registration::DESCRIPTORS + 2;
/// Time for which a message is retried while the kernel lacks memory for it.
const SHORTAGE_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of attempts to send a message for which the kernel lacks memory.
const SHORTAGE_PERIOD: Duration = Duration::from_millis(10);
/// Maximum number of connections that wait to be accepted.
///
/// A node has fewer processes.
const BACKLOG: i32 = 4096;

/// Signal that takes a process out of its MPI library: the first that glibc reserves.
pub const INTERRUPT: i32 = 32;
/// Value that represents the main thread, regardless of its number.
pub const MAIN_THREAD: u32 = 1;

/// End of a line.
#[derive(Debug)]
pub struct Line(OwnedFd);

/// Socket for connections to a manager or guardian.
#[derive(Debug)]
pub struct LineListener(OwnedFd);

impl LineListener {
    /// Creates the socket in the job's directory; replaces the socket of another process.
    ///
    /// # Errors
    /// Fails with errors of unlink(2), bind(2) and listen(2).
    pub fn new(directory: &PrivateDirectory, socket_name: LineSocket) -> io::Result<LineListener> {
        directory.remove_all(socket_name.name().as_ref())?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        bind(&socket, &address(directory, socket_name)?)?;
        listen(&socket, BACKLOG)?;
        Ok(LineListener(socket))
    }

    /// Accepts the next connection if one is waiting.
    pub fn accept_waiting(&self) -> Option<Line> {
        wait_ready(&self.0, Interest::READ, Duration::ZERO)
            .ok()
            .filter(|&is_there| is_there)?;
        Some(Line(accept_with(&self.0, SocketFlags::CLOEXEC).ok()?))
    }
}

impl From<OwnedFd> for LineListener {
    fn from(descriptor: OwnedFd) -> LineListener {
        LineListener(descriptor)
    }
}

impl AsFd for LineListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the socket's address by the directory's descriptor.
///
/// The path of a socket is limited to 108 bytes (unix(7)), which the directory's path may exceed.
fn address(directory: &PrivateDirectory, socket_name: LineSocket) -> io::Result<SocketAddrUnix> {
    let path = format!(
        "/proc/self/fd/{}/{}",
        directory.as_fd().as_raw_fd(),
        socket_name.name()
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
    /// Fails with errors of getsockopt(2).
    pub fn peer(&self) -> io::Result<rustix::process::Pid> {
        Ok(rustix::net::sockopt::socket_peercred(self)?.pid)
    }

    /// Connects to a socket of the job with this directory.
    ///
    /// # Errors
    /// Fails with errors of connect(2), and if the directory does not exist or is not private.
    pub fn connect(directory: &Path, socket_name: LineSocket) -> io::Result<Line> {
        let directory = PrivateDirectory::open(directory)?.ok_or(io::ErrorKind::NotFound)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        connect(&socket, &address(&directory, socket_name)?)?;
        Ok(Line(socket))
    }

    /// Creates both ends of a line.
    ///
    /// # Errors
    /// Fails with errors of socketpair(2).
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
    /// Fails with errors of sendmsg(2), for example if the peer has exited or the message is long.
    pub fn send(&self, message: &impl bincode::Encode) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message with at most `MAX_DESCRIPTORS` descriptors.
    ///
    /// # Errors
    /// Fails like [`send`](Self::send).
    pub fn send_with(
        &self,
        message: &impl bincode::Encode,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        Line::send_on(self.as_fd(), message, descriptors)
    }

    /// Sends a message on a line that another process reads.
    ///
    /// Retries while the kernel lacks memory, at most [`SHORTAGE_TIMEOUT`]. If sendmsg(2) fails for
    /// good, the line is closed: otherwise its reader would wait for the message.
    ///
    /// # Errors
    /// Fails like [`send`](Self::send).
    pub fn send_on(
        line: BorrowedFd<'_>,
        message: &impl bincode::Encode,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = bincode::encode_to_vec(message, standard()).map_err(io::Error::other)?;
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(Errno::MSGSIZE.into());
        }
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let until = Instant::now() + SHORTAGE_TIMEOUT;
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
                Err(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS)
                    if Instant::now() < until =>
                {
                    std::thread::sleep(SHORTAGE_PERIOD);
                }
                Err(error) => {
                    // The other end has closed the line already, or reads its end now.
                    let _ = shutdown(line, Shutdown::Both);
                    return Err(error.into());
                }
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Receives the next message within `limit`; `None` if no message has arrived.
    ///
    /// A signal may end the wait early. Descriptors in the message are closed.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::UnexpectedEof`] if the peer has closed the line, and with
    /// [`io::ErrorKind::InvalidData`] if the message cannot be decoded.
    pub fn receive<T: bincode::Decode<()>>(
        &self,
        limit: impl Into<Option<Duration>>,
    ) -> io::Result<Option<T>> {
        Ok(self.receive_with(limit)?.map(|(message, _)| message))
    }

    /// Acts like [`receive`](Self::receive), and returns the received descriptors.
    ///
    /// # Errors
    /// Fails like [`receive`](Self::receive).
    pub fn receive_with<T: bincode::Decode<()>>(
        &self,
        limit: impl Into<Option<Duration>>,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        if !wait_ready(&self.0, Interest::READ, limit)? {
            return Ok(None);
        }
        let mut bytes = vec![0; MAX_MESSAGE_BYTES];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
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
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        let limited = standard().with_limit::<DECODE_LIMIT>();
        let (message, _) = bincode::decode_from_slice(&bytes[..length], limited)
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
        let path = tempfile::tempdir().expect("a directory");
        let path = path.path().join("job");
        let directory = PrivateDirectory::make(&path).expect("a directory of its own");
        let listener = LineListener::new(&directory, LineSocket::Manager).expect("a socket");
        let one = Line::connect(&path, LineSocket::Manager).expect("connected");
        let other = listener.accept_waiting().expect("a call");
        let begin = ToProcess::Begin {
            generation: Generation(7),
            rank: Rank(1),
            size: 4,
            is_first: true,
            spares: 4,
            failed_at: Some(5),
            variables: vec![("PMIX_RANK".into(), "1".into())],
            descriptor: None,
            adopts_from: None,
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
        // Another manager takes over the name.
        drop((listener, descriptors));
        assert!(Line::connect(&path, LineSocket::Manager).is_err());
        let _listener = LineListener::new(&directory, LineSocket::Manager).expect("a socket");
        Line::connect(&path, LineSocket::Manager).expect("connected");
    }

    /// A message whose list claims 2^62 elements is refused.
    ///
    /// Regression test: such a message ended the receiving process.
    #[test]
    fn a_message_cannot_claim_more_memory_than_it_may_need() {
        let (one, other) = Line::pair().expect("a pair of sockets");
        let read_boards = ToManager::ReadBoards {
            id: 1,
            process: understudy_numbers::ProcessNumber(2),
            workers: Vec::new(),
        };
        let mut bytes = bincode::encode_to_vec(&read_boards, standard()).expect("encoded");
        assert_eq!(bytes.pop(), Some(0), "the length of the list");
        bytes.push(253);
        bytes.extend((1u64 << 62).to_le_bytes());
        rustix::net::send(&one, &bytes, SendFlags::NOSIGNAL).expect("sent");
        let soon = Duration::from_millis(1);
        let error = other.receive::<ToManager>(soon).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
