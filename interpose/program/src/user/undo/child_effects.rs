//! Effects of child processes on files, recorded in a separate log.
//!
//! Children report each effect before it happens (`understudy_abi::child_effects`). A thread
//! records the effect and replies. As soon as a rank is about to roll back, no child receives a
//! reply. Meanwhile the children that were started since the checkpoint are killed.
#![allow(unsafe_code)]

use super::caller::{Caller, Names};
use super::file_call::FileCall;
use super::recorder::Recorder;
use super::undo_log::UndoLog;
use crate::{process_info, system_calls};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use understudy_abi::child_effects::{
    CALL_ALLOWED, LONGEST_NAME, NAMESPACE, NO_NAME, REPORT_RETURN, RETURN_NOTED, Request, SOCKET,
};
use understudy_abi::effect;
use understudy_catalogue::message;
use understudy_image::threads::with_signals_blocked;
use understudy_numbers::Epoch;

/// Time limit for a child to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a request that has failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(1);
/// Length of the backlog (listen(2)).
const BACKLOG: i32 = 4096;
/// Interval at which backups that are no longer needed are removed, in milliseconds.
const CLEAN_INTERVAL_MS: i32 = 200;

/// State that the rank's main thread shares with the thread that records effects of children.
struct ChildRecordingState {
    mode: ReplyMode,
    /// Section of the undo log to which effects belong.
    section: Epoch,
    /// First section that may have to be undone.
    first_needed: Epoch,
    /// Number of times that the log has been undone.
    undone: u64,
    /// True if the log has records.
    has_records: bool,
    /// Recorder that the thread has to use when recording is restarted.
    next_recorder: Option<Recorder>,
}

impl ChildRecordingState {
    const START: ChildRecordingState = ChildRecordingState {
        mode: ReplyMode::Recording,
        section: Epoch::NONE,
        first_needed: Epoch::NONE,
        undone: 0,
        has_records: false,
        next_recorder: None,
    };
}

/// Treatment of a child's request.
#[derive(PartialEq)]
enum ReplyMode {
    /// The effect is recorded, then the child gets a reply.
    Recording,
    /// The child waits for its reply until the recovery has ended.
    Suspended,
    /// The child gets a reply, and the effect is not recorded.
    Ended,
}

struct SharedRecordingState {
    state: Mutex<ChildRecordingState>,
    changed: Condvar,
}

impl SharedRecordingState {
    fn lock(&self) -> MutexGuard<'_, ChildRecordingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the thread that records effects of children.
pub struct ChildEffects {
    shared: Arc<SharedRecordingState>,
    log: PathBuf,
}

impl ChildEffects {
    /// Starts the thread, or warns that effects of children are not recorded.
    pub fn start_or_warn(recorder: Recorder) -> Option<ChildEffects> {
        let warn = |error: &io::Error| {
            if process_info::is_first_to_warn("child-effects") {
                log::warn!("{}", message::child_files_not_restored(error));
            }
        };
        ChildEffects::start(recorder).inspect_err(warn).ok()
    }

    /// Starts the thread; returns once children can connect.
    fn start(recorder: Recorder) -> io::Result<ChildEffects> {
        let shared = Arc::new(SharedRecordingState {
            state: Mutex::new(ChildRecordingState::START),
            changed: Condvar::new(),
        });
        let (ready, is_ready) = channel();
        let log = recorder.log_path().to_owned();
        let mut child_recorder = ChildRecorder {
            shared: Arc::clone(&shared),
            recorder,
            section: Epoch::NONE,
            first_needed: Epoch::NONE,
            undone: 0,
        };
        let thread = std::thread::Builder::new().name("understudy-undo".into());
        with_signals_blocked(|| thread.spawn(move || child_recorder.run(&ready)))?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(ChildEffects { shared, log })
    }

    /// Starts a section at a cut.
    pub fn begin(&self, section: Epoch) {
        self.shared.lock().section = section;
    }

    /// Releases the records of all sections before `first`.
    pub fn forget_before(&self, first: Epoch) {
        self.shared.lock().first_needed = first;
    }

    /// Suspends replies; returns when no request is being processed.
    pub fn suspend(&self) {
        let mut state = self.shared.lock();
        if state.mode == ReplyMode::Recording {
            state.mode = ReplyMode::Suspended;
        }
    }

    /// Starts a section after the log has been undone; replies stay suspended.
    pub fn follow_rollback(&self, section: Epoch) {
        let mut state = self.shared.lock();
        state.section = section;
        state.undone += 1;
    }

    /// Resumes replies.
    pub fn resume(&self) {
        let mut state = self.shared.lock();
        if state.mode == ReplyMode::Suspended {
            state.mode = ReplyMode::Recording;
            self.shared.changed.notify_all();
        }
    }

    /// True after [`end`](Self::end).
    pub fn has_ended(&self) -> bool {
        self.shared.lock().mode == ReplyMode::Ended
    }

    /// Restarts recording after [`end`](Self::end), in another log.
    pub fn restart(&mut self, recorder: Recorder) {
        recorder.log_path().clone_into(&mut self.log);
        let mut state = self.shared.lock();
        *state = ChildRecordingState {
            undone: state.undone,
            next_recorder: Some(recorder),
            ..ChildRecordingState::START
        };
    }

    /// Stops recording, and removes the log unless it is to be kept.
    pub fn end(&self, is_kept: bool) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.mode = ReplyMode::Ended;
        self.shared.changed.notify_all();
        if is_kept {
            return Ok(());
        }
        UndoLog::open(&self.log)?.map_or(Ok(()), UndoLog::remove)
    }
}

/// State of the thread that records effects of children.
struct ChildRecorder {
    shared: Arc<SharedRecordingState>,
    recorder: Recorder,
    section: Epoch,
    first_needed: Epoch,
    undone: u64,
}

impl ChildRecorder {
    fn run(&mut self, ready: &Sender<io::Result<()>>) {
        // With a separate descriptor table, files that this thread opens do not affect the numbers
        // of the program's next files.
        system_calls::separate_descriptors();
        let listener = match listen() {
            Ok(listener) => listener,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        loop {
            if !self.wait_for_request(&listener) {
                continue;
            }
            let served = listener.accept().and_then(|(child, _)| self.serve(child));
            if let Err(error) = served {
                log::debug!("a child's report of an effect on files has failed: {error}");
                std::thread::sleep(FAILURE_PAUSE);
            }
        }
    }

    /// Waits for a request of a child; false if none has arrived.
    ///
    /// First applies the changes of the rank, which may remove records that are no longer needed.
    fn wait_for_request(&mut self, listener: &UnixListener) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if state.mode == ReplyMode::Recording {
            self.follow(&mut state);
        }
        let has_work = state.has_records && state.mode != ReplyMode::Ended;
        drop(state);
        let mut poll = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = if has_work { CLEAN_INTERVAL_MS } else { -1 };
        // SAFETY: poll(2) of one descriptor.
        unsafe { libc::poll(&raw mut poll, 1, timeout) > 0 }
    }

    /// Applies the changes that the rank has made to the shared state.
    fn follow(&mut self, state: &mut ChildRecordingState) {
        if let Some(recorder) = state.next_recorder.take() {
            self.recorder = recorder;
            (self.section, self.first_needed) = (Epoch::NONE, Epoch::NONE);
        }
        let result = if self.undone != state.undone {
            self.recorder.resume(state.section)
        } else {
            if self.section != state.section {
                self.recorder.begin(state.section);
            }
            match self.first_needed < state.first_needed {
                true => self.recorder.forget_before(state.first_needed),
                false => Ok(()),
            }
        };
        (self.undone, self.section) = (state.undone, state.section);
        self.first_needed = state.first_needed;
        if let Err(error) = result {
            log::warn!("{}", message::child_log_lost(error));
        }
        state.has_records = self.recorder.has_records();
    }

    /// Receives a request, records its effect, and replies.
    fn serve(&mut self, mut child: UnixStream) -> io::Result<()> {
        child.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let Some(process) = process_of(&child)? else {
            return Ok(());
        };
        let (request, names) = receive(&mut child)?;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        while state.mode == ReplyMode::Suspended {
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let mut was_awaited = self.recorder.awaits_name_of(request.thread);
        if state.mode == ReplyMode::Recording && state.section != Epoch::NONE {
            self.follow(&mut state);
            if request.kind != effect::NAME_CREATED {
                // A thread reports a created name before its next call. A name that is still
                // awaited here is therefore that of an earlier thread with this number, which was
                // killed.
                self.recorder.forget_name_of(request.thread);
                was_awaited = false;
            }
            if has_ended(&child) {
                return Ok(());
            }
            self.record(process, &request, &names);
            state.has_records = self.recorder.has_records();
        }
        let is_awaited = self.recorder.awaits_name_of(request.thread);
        let reply = match (is_awaited, was_awaited) {
            (true, false) => REPORT_RETURN,
            (false, true) => RETURN_NOTED,
            _ => CALL_ALLOWED,
        };
        child.write_all(&[reply])
    }

    /// Records the effect of a request.
    fn record(&mut self, process: i32, request: &Request, names: &[Option<CString>; 2]) {
        let caller = Caller::other(process);
        let names = [
            (request.directory, names[0].as_deref()),
            (request.other_directory, names[1].as_deref()),
        ];
        self.recorder.set_thread(request.thread);
        let result = match request.kind {
            effect::NAME_CREATED => self.recorder.name_created(),
            effect::UNSEEN_PROGRAM => {
                let name = names[0]
                    .1
                    .map_or_else(Default::default, |name| name.to_string_lossy());
                return warn_of_unseen(Path::new(&*name));
            }
            effect::ATTRIBUTE => match caller.attributed(names, request.value) {
                Some(path) => self.recorder.change_attribute(&path, names[1].1),
                None => Ok(()),
            },
            kind => match call(&caller, kind, names, request.value) {
                Some(call) => self.recorder.record_call(&call),
                None => Ok(()),
            },
        };
        if let Err(error) = result {
            self.recorder.warn(
                Path::new("a file that a child process changes"),
                &error.to_string(),
            );
        }
    }
}

/// Returns the inode of this process's pid namespace.
pub fn namespace() -> io::Result<u64> {
    fs::metadata(OsStr::from_bytes(NAMESPACE.to_bytes())).map(|about| about.ino())
}

/// Creates the listener at this process's address.
fn listen() -> io::Result<UnixListener> {
    let name = format!("{SOCKET}{}-{}", namespace()?, std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    // SAFETY: listen(2) on a listener of this function, to increase the default backlog.
    match unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) } {
        0 => Ok(listener),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the call that leads to an effect.
///
/// A child reports no single writes. Therefore opening a file for writing, except for appending,
/// counts as truncation: the whole content is backed up.
fn call(caller: &Caller, kind: u32, names: Names<'_>, value: i64) -> Option<FileCall> {
    let open = |descriptor| caller.open_file(descriptor);
    match kind {
        effect::FTRUNCATE => Some(FileCall::Truncate {
            path: open(names[0].0)?,
            length: value,
        }),
        effect::OVERWRITE => Some(FileCall::Open {
            path: open(names[0].0)?,
            flags: libc::O_RDWR | libc::O_TRUNC,
        }),
        effect::OPEN => match caller.call(kind, names, value)? {
            FileCall::Open { path, flags } if overwrites(flags) => Some(FileCall::Open {
                path,
                flags: flags | libc::O_TRUNC,
            }),
            call => Some(call),
        },
        _ => caller.call(kind, names, value),
    }
}

/// True if a descriptor with these flags may overwrite content.
fn overwrites(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_APPEND == 0
}

/// Returns the process at the other end, if it belongs to this process's user.
fn process_of(child: &UnixStream) -> io::Result<Option<i32>> {
    // SAFETY: getsockopt(2) fills the structure; geteuid(2).
    unsafe {
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let place = (&raw mut peer).cast();
        match libc::getsockopt(child.as_raw_fd(), level, option, place, &raw mut length) {
            0 => Ok((peer.uid == libc::geteuid()).then_some(peer.pid)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn receive(child: &mut UnixStream) -> io::Result<(Request, [Option<CString>; 2])> {
    let mut bytes = [0; size_of::<Request>()];
    child.read_exact(&mut bytes)?;
    // SAFETY: any bytes are a valid request.
    let request: Request = unsafe { std::mem::transmute(bytes) };
    let mut names = [None, None];
    for (name, length) in names.iter_mut().zip(request.lengths) {
        if length == NO_NAME {
            continue;
        }
        let mut bytes = vec![0; (length as usize).min(LONGEST_NAME)];
        child.read_exact(&mut bytes)?;
        *name = Some(CString::new(bytes)?);
    }
    Ok((request, names))
}

/// True if the process at the other end has closed the connection.
fn has_ended(child: &UnixStream) -> bool {
    let mut poll = libc::pollfd {
        fd: child.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: poll(2) of one descriptor; the call does not block.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// Warns of a program that a child executes without the preload library.
fn warn_of_unseen(program: &Path) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if !HAS_WARNED.swap(true, Ordering::Relaxed) && process_info::is_first_to_warn("unseen-program")
    {
        log::warn!("{}", message::child_without_preload(program.display()));
    }
}
