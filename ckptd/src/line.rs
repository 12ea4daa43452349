//! What a process of the program and its process manager say to each other: the *line*.
//!
//! A pair of sockets that keep the bounds of messages (unix(7), SOCK_SEQPACKET), and a page of memory that both map. The
//! process finds the descriptors of both by the variable [`LINE`].
//!
//! ```text
//!   process                                   manager
//!     │  Ready(g)  ── MPI is as before MPI_Init ──► │   all that are to be in generation g are ready:
//!     │ ◄── Begin { g, rank, size, variables } ──── │
//!     │  MPI_Init …                                 │
//!     │  Running(g) ────────────────────────────── ► │
//!     │ ◄── page: generation g + 1, signal ──────── │   a process has died
//!     │  Ready(g + 1)                               │
//!     │  AtEnd ── in MPI_Finalize ────────────────► │   all workers are there:
//!     │ ◄── End ──────────────────────────────────── │
//! ```

use bincode::config::standard;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// In the environment: the numbers of the two descriptors, with a comma in between.
pub const LINE: &str = "UNDERSTUDY_LINE";

/// Longest message in bytes: the environment of a rank is the greatest part.
const LONGEST: usize = 128 << 10;

/// What the manager says.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub enum ToProcess {
    /// This process is a rank of a generation.
    Begin {
        generation: u32,
        rank: u32,
        size: u32,
        /// For the MPI library's environment: names and values.
        variables: Vec<(String, String)>,
    },
    /// All workers are at the end: nobody's death matters any more.
    End,
}

/// What a process says.
#[derive(Clone, PartialEq, Eq, Debug, bincode::Encode, bincode::Decode)]
pub enum ToManager {
    /// MPI is as before `MPI_Init`, for this generation.
    Ready { generation: u32 },
    /// This worker goes on with the program in this generation, and all can go back to an epoch.
    Running { generation: u32 },
    /// This generation has failed here, although nobody has died.
    Failed { generation: u32 },
    /// This worker is in `MPI_Finalize`, and needs the others no more.
    AtEnd { generation: u32 },
    /// The whole job is to end with this status.
    Abort { status: i32 },
}

/// One end of a line.
#[derive(Debug)]
pub struct Line(OwnedFd);

/// Two ends, both closed on exec.
///
/// # Errors
/// Those of socketpair(2).
pub fn pair() -> io::Result<(Line, Line)> {
    let kind = SocketType::SEQPACKET;
    let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok((Line(one), Line(other)))
}

impl From<OwnedFd> for Line {
    fn from(descriptor: OwnedFd) -> Line {
        Line(descriptor)
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Line {
    /// Sends a message.
    ///
    /// # Errors
    /// Those of send(2); the other side has gone.
    pub fn send(&self, message: &impl bincode::Encode) -> io::Result<()> {
        let bytes = bincode::encode_to_vec(message, standard()).map_err(io::Error::other)?;
        loop {
            match send(&self.0, &bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next message within `limit`, or nothing; a signal may end the wait early.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the other side has gone, or what it has sent cannot be understood.
    pub fn receive<T: bincode::Decode<()>>(&self, limit: Duration) -> io::Result<Option<T>> {
        let mut polls = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        match rustix::event::poll(&mut polls, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = vec![0; LONGEST];
        match recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((length, _)) => {
                let decoded = bincode::decode_from_slice(&bytes[..length], standard());
                decoded
                    .map(|(message, _)| Some(message))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_one_by_one_and_an_end_is_an_error() {
        let (one, other) = pair().expect("a pair");
        let begin = ToProcess::Begin {
            generation: 7,
            rank: 1,
            size: 4,
            variables: vec![("PMIX_RANK".into(), "1".into())],
        };
        one.send(&begin).expect("sent");
        one.send(&ToProcess::End).expect("sent");
        let soon = Duration::from_millis(1);
        assert_eq!(other.receive(soon).expect("whole"), Some(begin));
        assert_eq!(other.receive(soon).expect("whole"), Some(ToProcess::End));
        assert_eq!(other.receive::<ToProcess>(soon).expect("nothing"), None);
        drop(one);
        let gone = other.receive::<ToProcess>(soon).expect_err("the end");
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
    }
}
