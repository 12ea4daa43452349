//! Processes that the program has spawned (`MPI_Comm_spawn`; MPI 4.1, 11.8), at their guardian.
//!
//! Spawned processes run without understudy. If the worker that has spawned a process is rolled
//! back, it spawns the process again, which prints its output a second time. The two processes have
//! the same name, and each line of the streams of a name is passed on once. For example, if the
//! first process has printed ten lines when it is killed, and its successor prints the same ten
//! lines and two more, only the last two lines of the successor are passed on.

use crate::fence_tie::{FenceTie, TiedProcesses};
use crate::output::Output;
use crate::tied_child::{die_with_parent, or_end, pidfd_of};
use parking_lot::Mutex;
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use understudy_pmi::{DESCRIPTOR, Identity, adopt};
use understudy_relay::Position;
use understudy_sockets::{Registry, Source};
use understudy_wire::io::{Interest, wait_ready};
use understudy_wire::line::{ChildStart, ChildState};

/// Position up to which the streams of each name and descriptor were passed on.
type ForwardedPositions = Arc<Mutex<BTreeMap<(String, i32), Position>>>;

/// Time limit for the end of streams whose bytes have been written.
///
/// The processes have ended, but a process that they have left behind may keep a stream open.
const OPEN_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Number of bytes that are passed on at once.
const BUFFER_BYTES: usize = 1 << 16;
/// Greatest capacity of a pipe without privilege (pipe(7)).
const MAX_PIPE_BYTES: usize = 1 << 20;

/// A spawned process whose end was not detected yet.
struct Running {
    id: u64,
    child: Child,
    pidfd: Source<OwnedFd>,
    /// Tie of the process's group to the fence of the node.
    _fence_tie: Option<FenceTie>,
}

/// Output of a process that a thread passes on.
struct Stream {
    thread: JoinHandle<()>,
    /// Duplicate of the descriptor that the thread reads.
    from: OwnedFd,
    progress: Arc<Progress>,
}

/// Progress of the thread of a stream.
#[derive(Default)]
struct Progress {
    /// True while the thread has bytes that it has not written.
    is_busy: AtomicBool,
    /// Number of bytes that it has written.
    written: AtomicU64,
}

impl Stream {
    /// True if all bytes that were waiting when `before` bytes had been written are written.
    fn has_written(&self, before: u64) -> bool {
        let is_empty = ioctl_fionread(&self.from).map_or(true, |length| length == 0);
        let is_idle = is_empty && !self.progress.is_busy.load(Ordering::Acquire);
        // A process that was left behind may print without end, so that at most as many bytes are
        // awaited as the pipe and the thread can have contained.
        let capacity = fcntl_getpipe_size(&self.from).unwrap_or(MAX_PIPE_BYTES) + BUFFER_BYTES;
        let since = self.written() - before;
        is_idle || self.thread.is_finished() || since >= capacity as u64
    }

    fn written(&self) -> u64 {
        self.progress.written.load(Ordering::Acquire)
    }
}

#[derive(Default)]
pub struct SpawnedChildren {
    running: Vec<Running>,
    streams: Vec<Stream>,
    forwarded: ForwardedPositions,
}

impl SpawnedChildren {
    /// Starts a process.
    ///
    /// `line` is the process's connection to the MPI library's server, if the library has one;
    /// `preload` is the value of `LD_PRELOAD`, and `directory` that of the job. The poller of the
    /// registry is woken when the process ends.
    pub fn start(
        &mut self,
        start: ChildStart,
        line: Option<OwnedFd>,
        preload: String,
        directory: &Path,
        registry: &Registry,
    ) -> ChildState {
        let id = start.id;
        match self.try_start(start, line, preload, directory, registry) {
            Ok(running) => {
                self.running.push(running);
                ChildState::Started
            }
            Err((file, error)) => {
                let why = format!("{file} cannot be started: {error}");
                log::info!("child {id}: {why}");
                ChildState::NotStarted { why }
            }
        }
    }

    fn try_start(
        &mut self,
        mut start: ChildStart,
        line: Option<OwnedFd>,
        preload: String,
        directory: &Path,
        registry: &Registry,
    ) -> Result<Running, (String, io::Error)> {
        let program = start.program;
        let mut command = Command::new(&program.file);
        if let Some((name, arguments)) = program.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        command.env("LD_PRELOAD", preload);
        // UCX messages about a parent that has died are not output of the program.
        command.env("UCX_LOG_FILE", "stderr");
        // Variables of the parent's MPI library describe its own generation, not the child's.
        let is_of_generation =
            |name: &String| start.defaults.iter().any(|(default, _)| default == name);
        command.envs(
            program
                .variables
                .iter()
                .filter(|(name, _)| !is_of_generation(name))
                .cloned(),
        );
        let os = |list: Vec<(String, String)>| -> Vec<(OsString, OsString)> {
            list.into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        };
        // The descriptor has another number in this process.
        let number = line.as_ref().map(|line| line.as_raw_fd().to_string());
        start
            .variables
            .extend(number.map(|number| (DESCRIPTOR.into(), number)));
        let identity = Identity {
            variables: os(start.variables),
            defaults: os(start.defaults),
            descriptor: line,
        };
        adopt(&mut command, identity);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.process_group(0);
        die_with_parent(&mut command);
        let failed = |error: io::Error| (program.file.clone(), error);
        let mut child = command.spawn().map_err(failed)?;
        self.streams.retain(|stream| !stream.thread.is_finished());
        let forwarding = self
            .forward_output(&mut child, &start.name)
            .and_then(|()| pidfd_of(&child))
            .and_then(|pidfd| Source::new(registry, pidfd, Interest::READ));
        let pidfd = or_end(&mut child, forwarding).map_err(failed)?;
        let group = TiedProcesses::Group(Pid::from_child(&child));
        let tie = FenceTie::new(directory, group);
        let fence_tie = or_end(&mut child, tie).map_err(failed)?;
        Ok(Running {
            id: start.id,
            child,
            pidfd,
            _fence_tie: fence_tie,
        })
    }

    /// Passes on the output of a process.
    fn forward_output(&mut self, child: &mut Child, name: &str) -> io::Result<()> {
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        if let Some(from) = out {
            let stream = self.forward(
                from,
                name.to_owned(),
                rustix::stdio::stdout(),
                libc::STDOUT_FILENO,
            )?;
            self.streams.push(stream);
        }
        if let Some(from) = errors {
            let stream = self.forward(
                from,
                name.to_owned(),
                rustix::stdio::stderr(),
                libc::STDERR_FILENO,
            )?;
            self.streams.push(stream);
        }
        Ok(())
    }

    /// Passes on a stream, except for output that another process of this name has printed.
    fn forward(
        &self,
        mut from: impl Read + AsFd + Send + 'static,
        name: String,
        to: BorrowedFd<'_>,
        descriptor: i32,
    ) -> io::Result<Stream> {
        let (mut to, forwarded) = (Output::new(to)?, Arc::clone(&self.forwarded));
        let duplicate = from.as_fd().try_clone_to_owned()?;
        let progress = Arc::new(Progress::default());
        let thread_progress = Arc::clone(&progress);
        let thread = std::thread::Builder::new().spawn(move || {
            let (mut at, mut bytes) = (Position::START, [0; BUFFER_BYTES]);
            loop {
                if !matches!(wait_ready(&from, Interest::READ, None), Ok(true)) {
                    continue;
                }
                // Set before the bytes leave the pipe.
                thread_progress.is_busy.store(true, Ordering::Release);
                let Ok(length @ 1..) = from.read(&mut bytes) else {
                    return;
                };
                let bytes = &bytes[..length];
                let mut forwarded = forwarded.lock();
                let mark = forwarded
                    .entry((name.clone(), descriptor))
                    .or_insert(Position::START);
                to.write(&bytes[at.below(*mark, bytes)..]);
                at = at.after(bytes);
                *mark = at.max(*mark);
                thread_progress
                    .written
                    .fetch_add(length as u64, Ordering::Release);
                thread_progress.is_busy.store(false, Ordering::Release);
            }
        })?;
        Ok(Stream {
            thread,
            from: duplicate,
            progress,
        })
    }

    /// Returns the descriptor of a process whose end was not detected yet.
    pub fn descriptor(&self, id: u64) -> Option<BorrowedFd<'_>> {
        let running = self.running.iter().find(|running| running.id == id)?;
        Some(running.pidfd.as_fd())
    }

    /// Returns the processes that have ended since the last call.
    pub fn take_ended(&mut self) -> Vec<(u64, ChildState)> {
        let mut news = Vec::new();
        self.running.retain_mut(|running| {
            let Ok(Some(status)) = running.child.try_wait() else {
                return true;
            };
            let ended = ChildState::Ended {
                status: status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
                is_killed: status.signal().is_some(),
            };
            news.push((running.id, ended));
            false
        });
        news
    }

    /// Waits until the output of ended processes is written, even if its reader is slow.
    pub fn flush(&self) {
        let streams = self.streams.iter();
        let mut behind: Vec<_> = streams.map(|stream| (stream, stream.written())).collect();
        while !behind.is_empty() {
            behind.retain(|(stream, before)| !stream.has_written(*before));
            std::thread::sleep(POLL_INTERVAL);
        }
        let until = Instant::now() + OPEN_OUTPUT_TIMEOUT;
        let is_open = |stream: &Stream| !stream.thread.is_finished();
        while self.streams.iter().any(is_open) && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn are_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Kills the processes that still run.
    pub fn kill_all(&self) {
        for running in &self.running {
            let _ = kill_process_group(Pid::from_child(&running.child), Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// More bytes than a pipe and the thread can buffer.
    const LENGTH: usize = 5 * BUFFER_BYTES / 2;

    #[test]
    fn nothing_is_lost_where_the_reader_is_slow() {
        let (from, mut writer) = io::pipe().expect("a pipe");
        let (mut reader, to) = io::pipe().expect("a pipe");
        let mut children = SpawnedChildren::default();
        let stream = children.forward(from, "n.0".into(), to.as_fd(), libc::STDOUT_FILENO);
        children.streams.push(stream.expect("a thread"));
        drop(to);
        writer.write_all(&[b'a'; LENGTH]).expect("there is room");
        drop(writer);
        let reading = std::thread::spawn(move || {
            std::thread::sleep(2 * OPEN_OUTPUT_TIMEOUT);
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).expect("a pipe");
            bytes.len()
        });
        children.flush();
        assert!(children.streams[0].thread.is_finished());
        drop(children);
        assert_eq!(reading.join().expect("all is read"), LENGTH);
    }

    #[test]
    fn output_that_stays_open_is_not_waited_for() {
        let (_writer, from) = UnixStream::pair().expect("a socket");
        let (to, _reader) = UnixStream::pair().expect("a socket");
        assert_is_left(from, &to);
    }

    #[test]
    fn output_without_end_is_not_waited_for() {
        let (mut writer, from) = UnixStream::pair().expect("a socket");
        let (to, mut reader) = UnixStream::pair().expect("a socket");
        std::thread::spawn(move || while writer.write_all(b"on and on\n").is_ok() {});
        std::thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        assert_is_left(from, &to);
    }

    #[track_caller]
    fn assert_is_left(from: UnixStream, to: &UnixStream) {
        let mut children = SpawnedChildren::default();
        let stream = children.forward(from, "n.0".into(), to.as_fd(), libc::STDOUT_FILENO);
        children.streams.push(stream.expect("a thread"));
        children.flush();
        assert!(!children.streams[0].thread.is_finished());
    }
}
