//! Standard input from a pipe, a socket or a terminal.
//!
//! Such input can be read only once. Therefore the guardian relays it, and stores the bytes that
//! may be needed a second time ([`understudy_wire::line::InputRequest`]). A checkpoint contains the
//! position up to which the program has read. A process that rolls back or replaces another one
//! gets a pipe that the guardian feeds from that position on. Regular files are restored by their
//! offsets (`super::files`).
//!
//! A pipe that a wrapper script has created as standard input is different: no process stores its
//! data. Reads of such a pipe are only detected (inotify(7)), and a recovery that would need the
//! data ends the job.
#![allow(unsafe_code)]

mod feed;
mod readers;
mod remote_input;

use super::{UserError, open_descriptors};
use crate::system_calls::move_owned_descriptor;
use feed::{Feed, FeedError};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use understudy_catalogue::message;
use understudy_numbers::{Epoch, Guardian};

/// Input at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct InputAtCut {
    relayed: Option<RelayedInput>,
    /// Number of cuts that found new reads of a pipe that is not relayed.
    reads: u64,
    /// True if the pipe that is not relayed is empty and has no writer.
    has_ended: bool,
}

/// Input that a guardian relays.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct RelayedInput {
    guardian: u32,
    /// Number of bytes that the program has read.
    position: u64,
    is_at_end: bool,
    /// The program's descriptors of the pipe; true if execve(2) closes a descriptor.
    descriptors: BTreeMap<i32, bool>,
    /// Status flags (open(2)).
    flags: i32,
}

impl RelayedInput {
    /// Returns the input for a process that cannot reach the relay.
    ///
    /// `None` if the program needs the relay.
    fn without_relay(&self) -> Option<io::Result<File>> {
        match self.position {
            _ if self.is_at_end => Some(ended_pipe()),
            0 => Some(remote_input::blocking_pipe()),
            _ => None,
        }
    }
}

/// Standard input of this process.
#[derive(Debug, Default)]
pub(super) struct Input {
    feed: Option<Feed>,
    /// Relayed input that this process cannot reach, and has not needed so far.
    unreachable: Option<RelayedInput>,
    /// Positions at the cuts to which the job may roll back.
    positions: VecDeque<(Epoch, u64)>,
    /// Watch that reports reads of a pipe that is not relayed.
    watch: Option<File>,
    reads: u64,
    has_warned: bool,
}

impl Input {
    /// State at the start of the process.
    pub(super) const START: Input = Input {
        feed: None,
        unreachable: None,
        positions: VecDeque::new(),
        watch: None,
        reads: 0,
        has_warned: false,
    };
}

fn is_pipe(fd: i32) -> bool {
    open_descriptors::stat(fd).is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Watches standard input; `None` on failure, for example if the user has too many watches.
fn watch() -> Option<File> {
    // SAFETY: inotify_init1(2) returns a new descriptor, which only the `File` owns.
    // inotify_add_watch(2) reads a valid string.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        let watch = (fd >= 0).then(|| File::from_raw_fd(fd))?;
        (libc::inotify_add_watch(fd, c"/proc/self/fd/0".as_ptr(), libc::IN_ACCESS) >= 0)
            .then_some(watch)
    }
}

/// Replaces standard input, if it is a pipe, by `/dev/null`.
///
/// Called in a process that only replays a worker's calls. Such a process may have the worker's
/// pipe, and the worker would miss the data that the replay reads.
pub fn replace_by_empty_input() {
    if !is_pipe(libc::STDIN_FILENO) {
        return;
    }
    // SAFETY: open(2) reads a valid string, dup2(2) and close(2) access no memory. This process has
    // one thread, which does not use standard input meanwhile.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        libc::dup2(nothing, libc::STDIN_FILENO);
        libc::close(nothing);
    }
}

impl Input {
    /// Starts to watch the input, before the program runs.
    pub(super) fn start_watch(&mut self) {
        self.begin(Feed::current());
    }

    /// Refuses a cut while the position of relayed input is unknown.
    pub(super) fn check(&self) -> Result<(), UserError> {
        let position = self.feed.as_ref().map(Feed::position).transpose();
        position.map(drop).map_err(|_| UserError::KernelState {
            what: "standard input that another process relays".into(),
            why: "that process does not reply (it may be stopped); let the program read a file",
        })
    }

    /// Records the position at the cut of `epoch`.
    pub(super) fn begin_section(&mut self, epoch: Epoch) {
        if let Some(Ok(position)) = self.feed.as_ref().map(Feed::position) {
            self.positions.retain(|(before, _)| *before < epoch);
            self.positions.push_back((epoch, position));
        }
    }

    fn begin(&mut self, feed: Option<Feed>) {
        self.feed = feed;
        let is_not_relayed =
            open_descriptors::stat(libc::STDIN_FILENO).is_some_and(|stat| !self.is_relayed(&stat));
        self.watch = (is_not_relayed && is_pipe(libc::STDIN_FILENO))
            .then(watch)
            .flatten();
    }

    /// True for the program's descriptors of relayed input, which no other module restores.
    pub(super) fn is_relayed(&self, stat: &libc::stat) -> bool {
        let id = (stat.st_dev, stat.st_ino);
        self.feed.as_ref().is_some_and(|feed| feed.is_pipe(id))
    }

    /// Returns the program's descriptors of the relayed pipe.
    fn descriptors(&self) -> Vec<i32> {
        let is_relayed =
            |fd: &i32| open_descriptors::stat(*fd).is_some_and(|stat| self.is_relayed(&stat));
        open_descriptors::descriptors()
            .into_iter()
            .filter(is_relayed)
            .collect()
    }

    /// Records how far the program has read.
    ///
    /// All threads of the program must be stopped.
    pub(super) fn capture(&mut self) -> Result<InputAtCut, UserError> {
        let relayed = self.feed.as_ref().map(|feed| self.capture_relayed(feed));
        let relayed = relayed.transpose().map_err(|error| {
            UserError::Input(format!(
                "the process that relays it does not reply ({error})"
            ))
        })?;
        let relayed = relayed.or_else(|| self.unreachable.clone());
        let mut events = [0; 4096];
        if let Some(watch) = &mut self.watch
            && watch.read(&mut events).is_ok_and(|length| length > 0)
        {
            self.reads += 1;
        }
        let has_ended = self.watch.is_some() && has_ended(libc::STDIN_FILENO);
        if self.reads > 0 && !has_ended && !self.has_warned {
            self.has_warned = true;
            log::warn!("{}", message::INPUT_FROM_WRAPPER);
        }
        Ok(InputAtCut {
            relayed,
            reads: self.reads,
            has_ended,
        })
    }

    fn capture_relayed(&self, feed: &Feed) -> io::Result<RelayedInput> {
        let position = feed.position()?;
        // SAFETY: fcntl(2) that only queries.
        let is_close_on_exec =
            |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } & libc::FD_CLOEXEC != 0;
        let descriptors = self.descriptors().into_iter();
        Ok(RelayedInput {
            guardian: feed.guardian.0,
            position,
            is_at_end: feed.ends_at(position),
            descriptors: descriptors.map(|fd| (fd, is_close_on_exec(&fd))).collect(),
            // SAFETY: fcntl(2) that only queries the flags of the pipe.
            flags: unsafe { libc::fcntl(feed.pipe().as_raw_fd(), libc::F_GETFL) },
        })
    }

    /// Releases input before the cut of `epoch`.
    ///
    /// The job cannot roll back to a cut before that of `epoch`.
    pub(super) fn forget_before(&mut self, epoch: Epoch) {
        while self.positions.front().is_some_and(|(cut, _)| *cut < epoch) {
            self.positions.pop_front();
        }
        // After a recovery the position of the restored checkpoint may be missing. Then nothing is
        // released.
        let first = self.positions.front().filter(|(cut, _)| *cut == epoch);
        if let (Some(feed), Some((_, position))) = (&self.feed, first) {
            feed.release(*position);
        }
    }

    /// Restores the position of the program's input, after all other descriptors.
    ///
    /// `is_survivor` is true in a process that rolls back.
    pub(super) fn restore(
        &mut self,
        saved: &InputAtCut,
        is_survivor: bool,
    ) -> Result<(), UserError> {
        match &saved.relayed {
            Some(relayed) => self.restore_relayed(relayed)?,
            None => self.detach(),
        }
        self.restore_other(saved, is_survivor)
    }

    /// Ends relayed input of this process, because the saved process had none.
    fn detach(&mut self) {
        self.unreachable = None;
        let descriptors = self.descriptors();
        if let Some(end) = self.feed.take().and_then(|_| ended_pipe().ok()) {
            descriptors
                .into_iter()
                .for_each(|fd| duplicate_to(&end, fd, false));
        }
    }

    /// Restores input that is not relayed, or refuses if its data would be needed again.
    fn restore_other(&mut self, saved: &InputAtCut, is_survivor: bool) -> Result<(), UserError> {
        const WRAPPER_PIPE: &str = "it is a pipe that the program's wrapper has made";
        if is_survivor {
            let now = self.capture()?;
            return match (now.reads, now.has_ended) == (saved.reads, saved.has_ended) {
                true => Ok(()),
                false => Err(UserError::Input(WRAPPER_PIPE.into())),
            };
        }
        if saved.reads > 0 {
            if !saved.has_ended {
                return Err(UserError::Input(WRAPPER_PIPE.into()));
            }
            let pipe = ended_pipe().map_err(|error| UserError::Input(error.to_string()))?;
            duplicate_to(&pipe, libc::STDIN_FILENO, false);
        }
        self.reads = saved.reads;
        Ok(())
    }

    fn restore_relayed(&mut self, saved: &RelayedInput) -> Result<(), UserError> {
        let guardian = Guardian(saved.guardian);
        let before = self.descriptors();
        let is_as_saved = self.feed.as_ref().is_some_and(|feed| {
            feed.guardian == guardian
                && feed
                    .position()
                    .is_ok_and(|position| position == saved.position)
        });
        let mut substitute = None;
        if !is_as_saved {
            self.unreachable = None;
            self.feed = match Feed::from_position(guardian, saved.position) {
                Ok(feed) => Some(feed),
                Err(error) => {
                    let pipe = saved.without_relay().ok_or_else(|| input_lost(&error))?;
                    let failed = |error: io::Error| UserError::Input(error.to_string());
                    substitute = Some(pipe.map_err(failed)?);
                    self.unreachable = Some(saved.clone());
                    None
                }
            };
            self.positions.clear();
        }
        let pipe = self.feed.as_ref().map(Feed::pipe).or(substitute.as_ref());
        if let Some(pipe) = pipe {
            for (&fd, &is_close_on_exec) in &saved.descriptors {
                duplicate_to(pipe, fd, is_close_on_exec);
            }
            // SAFETY: fcntl(2) with F_SETFL accesses no memory.
            unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, saved.flags) };
        }
        let is_new = |fd: &&i32| !saved.descriptors.contains_key(fd);
        for fd in before.iter().filter(is_new) {
            // SAFETY: close(2) of a descriptor that the program has opened after the cut.
            unsafe { libc::close(*fd) };
        }
        Ok(())
    }
}

/// Returns the reason why input cannot be read a second time.
fn input_lost(error: &FeedError) -> UserError {
    UserError::Input(match error {
        FeedError::Released => "not all of it could be kept".into(),
        FeedError::Absent(error) => {
            format!("it arrives at another node, or the process that relays it is gone ({error})")
        }
    })
}

/// True for an empty pipe without a writer.
fn has_ended(fd: i32) -> bool {
    open_descriptors::events(fd, libc::POLLIN) & (libc::POLLIN | libc::POLLHUP) == libc::POLLHUP
}

/// Returns a pipe in which a reader finds the end of the input.
fn ended_pipe() -> io::Result<File> {
    let (reader, _) = io::pipe()?;
    Ok(File::from(move_owned_descriptor(reader.into())))
}

/// Makes `fd` of the program a descriptor of this pipe.
fn duplicate_to(pipe: &File, fd: i32, is_close_on_exec: bool) {
    let mode = if is_close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: dup3(2); the program does not use the object that `fd` refers to.
    unsafe { libc::dup3(pipe.as_raw_fd(), fd, mode) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reads_of_a_wrappers_pipe_are_noticed_and_a_replay_makes_none() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        // SAFETY: dup2(2); no other test uses standard input.
        unsafe { libc::dup2(reader.as_raw_fd(), libc::STDIN_FILENO) };
        let mut input = Input::default();
        input.begin(None);
        writer.write_all(b"abc").expect("there is room");
        let capture = |input: &mut Input| input.capture().expect("captured");
        let before = capture(&mut input);
        assert!(input.restore(&before, true).is_ok(), "nothing was read");
        let mut byte = [0];
        reader.read_exact(&mut byte).expect("there is a byte");
        assert!(input.restore(&before, true).is_err());
        let after = capture(&mut input);
        assert!(input.restore(&after, true).is_ok(), "it was read before");
        // A replacement starts with another pipe.
        let mut other = Input::default();
        assert!(other.restore(&before, false).is_ok());
        assert!(other.restore(&after, false).is_err(), "the rest is lost");
        drop(writer);
        reader.read_to_end(&mut Vec::new()).expect("readable");
        let end = capture(&mut input);
        assert!(end.has_ended);
        assert!(other.restore(&end, false).is_ok());
        assert_eq!(std::io::stdin().read(&mut byte).expect("readable"), 0);
        replace_by_empty_input();
        assert!(!is_pipe(libc::STDIN_FILENO));
        assert_eq!(std::io::stdin().read(&mut byte).expect("readable"), 0);
    }
}
