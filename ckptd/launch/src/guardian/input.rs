//! Relay of standard input, which is repeated from the position of a checkpoint.
//!
//! A pipe, a socket or a terminal gives each byte once. The guardian that has such an input reads
//! ahead of its process, passes the input on by a pipe, and keeps what a recovery may need. A
//! process that resumes from a checkpoint, or replaces the reader, requests a pipe that is fed from
//! the position of the checkpoint ([`understudy_wire::line::InputRequest`]). A regular file
//! needs no relay: its offset is restored.
#![allow(unsafe_code)]

use super::input_spool::Spool;
use crate::Error;
use crate::print_message::print_message;
use crate::spawn_thread::spawn_thread;
use rustix::fs::{FileType, MemfdFlags, SeekFrom, fstat, ftruncate, memfd_create, seek};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::termios::{isatty, tcgetpgrp};
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_formats::private_directories::PrivateDirectory;
use understudy_numbers::{Guardian, ProcessNumber};
use understudy_sockets::{Poller, RETRY, Registry, Source};
use understudy_wire::io::{Interest, Outbox, wait_ready};
use understudy_wire::line::{
    InputPage, InputReply, InputRequest, Line, LineListener, LineSocket, PAGE_BYTES,
};

/// Number of bytes that are read ahead of the pipe.
const READ_AHEAD_BYTES: usize = 1 << 16;
/// Poll interval for a terminal while this process is not in its foreground group.
const BACKGROUND_POLL: Duration = Duration::from_millis(200);
/// Time limit for the relay's reply.
const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// Standard input of a guardian's processes.
pub struct Input {
    directory: PathBuf,
    rank: Guardian,
    kind: InputKind,
}

enum InputKind {
    /// A stream that the relay reads.
    Relayed,
    /// A regular file, with its offset at the start.
    File(u64),
    Other,
}

impl Input {
    /// Starts the relay, if standard input is a pipe, a socket or a terminal.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub fn new(directory: PathBuf, rank: Guardian) -> Result<Input, Error> {
        let source = rustix::stdio::stdin();
        let kind = match seek(source, SeekFrom::Current(0)) {
            Ok(offset) if is_of_type(source, &[FileType::RegularFile]) => InputKind::File(offset),
            _ if is_of_type(source, &[FileType::Fifo, FileType::Socket]) || isatty(source) => {
                relay(source, &directory, rank).map_err(Error::system("standard input"))?;
                InputKind::Relayed
            }
            _ => InputKind::Other,
        };
        Ok(Input {
            directory,
            rank,
            kind,
        })
    }

    /// Returns the standard input for a process that is being started.
    ///
    /// A process whose number is not the guardian's rank has no input until it takes over.
    ///
    /// # Errors
    /// Errors of the connection to the relay, and of lseek(2).
    pub fn for_process(&self, number: ProcessNumber) -> io::Result<Stdio> {
        if number.0 != self.rank.0 {
            return Ok(Stdio::null());
        }
        match self.kind {
            InputKind::Relayed => Ok(self
                .pipe_of_beginning()?
                .map_or_else(Stdio::null, Stdio::from)),
            InputKind::File(offset) => {
                seek(rustix::stdio::stdin(), SeekFrom::Start(offset))?;
                Ok(Stdio::inherit())
            }
            InputKind::Other => Ok(Stdio::inherit()),
        }
    }

    /// Returns a pipe that is fed from the beginning of the input.
    ///
    /// `None` if the beginning has been released.
    fn pipe_of_beginning(&self) -> io::Result<Option<OwnedFd>> {
        let line = Line::connect(&self.directory, LineSocket::Input(self.rank))?;
        line.send(&InputRequest::From { position: 0 })?;
        match line.receive_with(REPLY_LIMIT)? {
            Some((InputReply::Pipe, descriptors)) => Ok(descriptors.into_iter().next()),
            Some(_) => Ok(None),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn is_of_type(descriptor: BorrowedFd<'_>, types: &[FileType]) -> bool {
    fstat(descriptor).is_ok_and(|stat| types.contains(&FileType::from_raw_mode(stat.st_mode)))
}

/// Starts the thread that relays a stream.
fn relay(source: BorrowedFd<'_>, directory: &Path, rank: Guardian) -> io::Result<()> {
    let directory = PrivateDirectory::open(directory)?.ok_or(io::ErrorKind::NotFound)?;
    let listener = LineListener::new(&directory, LineSocket::Input(rank))?;
    let relay = Relay::new(source, listener)?;
    spawn_thread(move || relay.run())
}

/// Pipe that is being fed.
///
/// The relay keeps the read end to find out how many bytes the pipe contains.
struct Pipe {
    reader: OwnedFd,
    /// `None` after the end of the input.
    writer: Option<Source<PipeWriter>>,
}

impl Pipe {
    fn new(registry: &Registry) -> io::Result<Pipe> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&writer, true)?;
        Ok(Pipe {
            reader: reader.into(),
            writer: Some(Source::new(registry, writer, Interest::NONE)?),
        })
    }
}

/// State of the relay's thread.
struct Relay {
    poller: Poller,
    /// Input stream; `None` after its end.
    source: Option<Source<OwnedFd>>,
    is_terminal: bool,
    spool: Spool,
    pipe: Pipe,
    /// Input from position `fed` on for which the pipe has no room yet.
    ahead: Outbox,
    fed: u64,
    page: OwnedFd,
    positions: &'static InputPage,
    listener: Source<LineListener>,
    lines: Vec<Source<Line>>,
}

impl Relay {
    fn new(source: BorrowedFd<'_>, listener: LineListener) -> io::Result<Relay> {
        let page = memfd_create("understudy-input-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&page, PAGE_BYTES as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, as long as its file, and never unmapped. The fields of an
        // `InputPage` are atomic, so that other processes may change them.
        let positions = unsafe {
            let mapped = mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                access,
                MapFlags::SHARED,
                &page,
                0,
            )?;
            &*mapped.cast::<InputPage>()
        };
        positions.begin();
        let poller = Poller::new()?;
        let registry = poller.registry();
        let duplicate = source.try_clone_to_owned()?;
        Ok(Relay {
            source: Some(Source::new(registry, duplicate, Interest::NONE)?),
            is_terminal: isatty(source),
            spool: Spool::new(&std::env::temp_dir())?,
            pipe: Pipe::new(registry)?,
            ahead: Outbox::new(2 * READ_AHEAD_BYTES),
            fed: 0,
            page,
            positions,
            listener: Source::new(registry, listener, Interest::READ)?,
            lines: Vec::new(),
            poller,
        })
    }

    fn run(mut self) -> ! {
        loop {
            self.wait();
            self.reply();
            self.spool.release(self.positions.released());
            if let Err(error) = self.fill() {
                print_message(message::kept_input_not_read(error));
                std::process::exit(exit_status::STATE_NOT_SAVED);
            }
            self.feed();
        }
    }

    /// Waits for input, for room in the pipe, or for a request.
    fn wait(&mut self) {
        let wants_more = self.wants_more() && self.source.is_some();
        let is_readable = wants_more && !self.is_in_background();
        let timeout = match self.ahead.is_empty() && self.next() < self.spool.end() {
            true => Some(Duration::ZERO),
            false => (wants_more && !is_readable).then_some(BACKGROUND_POLL),
        };
        let is_watched = self.watch(is_readable);
        let _ = self
            .poller
            .wait(is_watched.map_or(Some(RETRY), |()| timeout));
    }

    fn watch(&mut self, is_readable: bool) -> io::Result<()> {
        let has_bytes = !self.ahead.is_empty();
        if let Some(source) = &mut self.source {
            source.set_interest(Interest::new(is_readable, false))?;
        }
        if let Some(writer) = &mut self.pipe.writer {
            writer.set_interest(Interest::new(false, has_bytes))?;
        }
        Ok(())
    }

    /// Returns the position that follows the bytes that were read ahead.
    fn next(&self) -> u64 {
        self.fed + self.ahead.len() as u64
    }

    fn wants_more(&self) -> bool {
        self.ahead.len() < READ_AHEAD_BYTES
    }

    /// True if reading would stop this process (termios(3), SIGTTIN).
    fn is_in_background(&self) -> bool {
        let is_own = |group| group == rustix::process::getpgrp();
        self.is_terminal
            && self
                .source
                .as_ref()
                .is_some_and(|source| !tcgetpgrp(source).is_ok_and(is_own))
    }

    /// Replies to the requests that have arrived.
    fn reply(&mut self) {
        let (line, registry) = (self.listener.accept_waiting(), self.poller.registry());
        // A connection that cannot be polled is closed.
        self.lines
            .extend(line.and_then(|line| Source::new(registry, line, Interest::READ).ok()));
        for line in std::mem::take(&mut self.lines) {
            match line.receive::<InputRequest>(Duration::ZERO) {
                Ok(None) => {}
                // A process that has ended meanwhile needs no reply.
                Ok(Some(request)) => drop(self.reply_to(request, &line)),
                Err(_) => continue,
            }
            self.lines.push(line);
        }
    }

    fn reply_to(&mut self, request: InputRequest, line: &Line) -> io::Result<()> {
        if let InputRequest::From { position } = request {
            let kept = self.spool.kept();
            if position < kept {
                return line.send(&InputReply::Released { kept });
            }
            self.restart(position)?;
        }
        let mut descriptors = vec![self.pipe.reader.as_fd(), self.page.as_fd()];
        descriptors.extend(self.pipe.writer.as_deref().map(AsFd::as_fd));
        line.send_with(&InputReply::Pipe, &descriptors)
    }

    /// Feeds another pipe, from `position` on.
    fn restart(&mut self, position: u64) -> io::Result<()> {
        self.pipe = Pipe::new(self.poller.registry())?;
        self.ahead.clear();
        self.fed = position;
        self.positions.end_write(position);
        Ok(())
    }

    /// Reads ahead, from the spool or from the launcher.
    fn fill(&mut self) -> io::Result<()> {
        if self.next() < self.spool.end() {
            self.fill_from_spool()?;
        } else if self.wants_more() && self.is_source_readable() {
            self.fill_from_source();
        }
        if self.source.is_none() && self.ahead.is_empty() && self.fed >= self.spool.end() {
            self.end_pipe();
        }
        Ok(())
    }

    /// Closes the write end everywhere, so that the reader finds the end of the input.
    fn end_pipe(&mut self) {
        if self.pipe.writer.take().is_some() {
            // Processes have duplicates of the write end and must close them, too. A process that
            // cannot be notified has ended, so that its duplicate is closed.
            let is_notified = |line: &Source<Line>| line.send(&InputReply::Ended).is_ok();
            self.lines.retain(is_notified);
        }
    }

    fn fill_from_spool(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; READ_AHEAD_BYTES.saturating_sub(self.ahead.len())];
        if !bytes.is_empty() {
            let length = self.spool.read_at(self.next(), &mut bytes)?;
            self.read_ahead(&bytes[..length]);
        }
        Ok(())
    }

    fn is_source_readable(&self) -> bool {
        let Some(source) = self.source.as_ref().filter(|_| !self.is_in_background()) else {
            return false;
        };
        wait_ready(source, Interest::READ, Duration::ZERO).unwrap_or(false)
    }

    fn fill_from_source(&mut self) {
        let Some(source) = &self.source else { return };
        let mut bytes = vec![0; READ_AHEAD_BYTES];
        let length = match read(source, &mut *bytes) {
            Err(Errno::INTR | Errno::AGAIN) => return,
            // Reading fails after a terminal or a connection was closed.
            Err(_) | Ok(0) => {
                self.source = None;
                return self.positions.set_length(self.spool.end());
            }
            Ok(length) => length,
        };
        let begin = self.spool.end();
        if let Err(error) = self.spool.append(&bytes[..length]) {
            print_message(message::input_not_kept(error));
        }
        // In a job that was restarted from disk, the pipe begins behind input that the program has
        // read before the restart.
        let skipped = self.next().saturating_sub(begin).min(length as u64) as usize;
        self.read_ahead(&bytes[skipped..length]);
    }

    /// Queues bytes behind the input that has been read ahead.
    fn read_ahead(&mut self, bytes: &[u8]) {
        // Fewer than `READ_AHEAD_BYTES` are queued before, and at most as many are read at once.
        self.ahead.push(bytes).expect("the outbox has room");
    }

    /// Writes to the pipe as many bytes as it has room for.
    fn feed(&mut self) {
        let Some(writer) = self.pipe.writer.as_ref().filter(|_| !self.ahead.is_empty()) else {
            return;
        };
        self.positions.begin_write(self.next());
        let next = self.next();
        // The relay itself holds a read end, so that writing fails only if the pipe is full.
        let _ = self.ahead.flush(&**writer);
        self.fed = next - self.ahead.len() as u64;
        self.positions.end_write(self.fed);
    }
}
