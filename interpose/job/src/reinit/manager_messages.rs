//! Messages among this process, its guardian and their node manager (`understudy_wire::line`).
#![allow(unsafe_code)]

use super::instance_state::{POLL_INTERVAL, ReplicaStoreFiles};
use crate::Runtime;
use crate::generated::SLOT_NAMES;
use crate::{arch, process_info, shim, system_calls};
use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::proc_stat;
use understudy_mpi::{call, library};
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::line::{
    self, Boards, CheckpointRequest, Hello, LINE_VARIABLE, Line, LineSocket, ProcessPlace,
    ToManager, ToProcess,
};

// The crates understudy-mpi and understudy-wire do not depend on each other, so both define the
// signal and the shared page.
const _: () = {
    assert!(call::INTERRUPT == line::INTERRUPT);
    assert!(
        size_of::<call::SharedPage>() <= size_of::<line::SharedPage>()
            && size_of::<line::SharedPage>() <= line::PAGE_BYTES
    );
    assert!(offset_of!(call::SharedPage, generation) == offset_of!(line::SharedPage, generation));
    assert!(offset_of!(call::SharedPage, is_inside) == offset_of!(line::SharedPage, is_inside));
    assert!(call::MAIN_THREAD == line::MAIN_THREAD && call::INTERRUPT == line::INTERRUPT);
    assert!(arch::FRAME_SIZE as u64 == line::FRAME_BYTES);
};

/// Connections of this process to its guardian and manager.
pub struct Connections {
    /// Connection to the node manager.
    ///
    /// The guardian keeps the other end open if the manager fails.
    manager: Line,
    guardian: Line,
    pub page: &'static line::SharedPage,
    /// Number of workers that were started on this node.
    neighbours: u32,
}

static LINES: OnceLock<Connections> = OnceLock::new();

/// Selects spares for failed processes; all are identified by their process numbers.
type Chooser = fn(&[ProcessNumber]) -> Vec<ProcessNumber>;

static CHOOSER: OnceLock<Chooser> = OnceLock::new();

static OWN_PLACE: OnceLock<ProcessPlace> = OnceLock::new();

/// Reads the address of the node manager.
///
/// # Errors
/// Fails if the guardian has not set the address, or if the address is malformed; the text is for
/// the user.
pub fn read_manager_address() -> Result<(), String> {
    let text = process_info::variable(LINE_VARIABLE).ok_or(message::NO_GUARDIAN)?;
    let own = ProcessPlace::parse(&text)
        .ok_or_else(|| format!("{LINE_VARIABLE} is `{text}`, not two numbers and a directory"))?;
    let _ = OWN_PLACE.set(own);
    Ok(())
}

/// Returns the job's directory in memory, on this node.
pub fn directory() -> &'static Path {
    OWN_PLACE.get().map_or(Path::new(""), |own| &own.directory)
}

/// Connects to the guardian, which passes on the connection to the node manager.
///
/// Must not be called before `MPI_Init`: until then this process may be the interpreter of a
/// script, and execute the program. Without a connection the process exits.
pub fn connect_to_guardian() {
    if let Some(own) = OWN_PLACE.get()
        && let Err(error) = connect(own)
    {
        system_calls::print_message(message::manager_not_reached(own.directory.display(), error));
        system_calls::exit_now(understudy_catalogue::exit_status::RECOVERY_FAILED);
    }
}

fn connect(own: &ProcessPlace) -> io::Result<()> {
    let line = Line::connect(&own.directory, LineSocket::Guardian(own.guardian))?;
    let guardian = Line::from(system_calls::move_owned_descriptor(line.into()));
    report_wrapper(own, &guardian);
    guardian.send(&Hello::Process {
        number: own.number,
        library: library::file(),
    })?;
    let (_, manager) = await_descriptor(&guardian, |said| {
        matches!(said, ToProcess::Connection).then_some(())
    })?;
    let manager = Line::from(system_calls::move_owned_descriptor(manager));
    let (neighbours, page) = await_descriptor(&manager, |said| match said {
        ToProcess::Page { workers } => Some(workers),
        _ => None,
    })?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            line::PAGE_BYTES,
            access,
            libc::MAP_SHARED,
            page.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page is never unmapped, and its words are atomic.
    let page = unsafe { &*mapped.cast::<line::SharedPage>() };
    for (word, address) in [
        (&page.calls.state, &raw const arch::CALL_STATE as u64),
        (&page.calls.frame_end, &raw const arch::BASE as u64),
        (&page.calls.names, SLOT_NAMES.as_ptr() as u64),
    ] {
        word.store(address, Ordering::Release);
    }
    let _ = LINES.set(Connections {
        manager,
        guardian,
        page,
        neighbours,
    });
    // SAFETY: the page is never unmapped, and begins with the words of this type (asserted above).
    call::use_page(unsafe { &*mapped.cast::<call::SharedPage>() });
    call::leave_instance();
    // The snapshot of the MPI side is taken later, so the shim keeps the function after a reset.
    shim::delay_exit(is_over);
    Ok(())
}

/// Logs a wrapper process between the guardian and this process, once per job.
///
/// The guardian only receives the status of the wrapper, and reports this process as failed when
/// the wrapper has exited.
fn report_wrapper(own: &ProcessPlace, guardian: &Line) {
    let peer = guardian.peer().map(|peer| peer.as_raw_nonzero().get());
    let (0, Ok(peer)) = (own.number.0, peer) else {
        return;
    };
    let Some(wrapper) = wrapper_below(peer as u32) else {
        return;
    };
    let name = std::fs::read_to_string(format!("/proc/{wrapper}/comm")).unwrap_or_default();
    let name = name.trim_end();
    log::warn!("{}", message::wrapper_waits(name));
}

/// Returns the child of the guardian that is an ancestor of this process.
///
/// `None` if this process is that child, or not a descendant of the guardian.
fn wrapper_below(guardian: u32) -> Option<u32> {
    let mut process = std::os::unix::process::parent_id();
    while process != guardian {
        let parent = parent_of(process)?;
        if parent == guardian {
            return Some(process);
        }
        process = parent;
    }
    None
}

/// Returns the parent of a process; `None` for the first process of the machine.
fn parent_of(process: u32) -> Option<u32> {
    let parent = proc_stat::number(process, proc_stat::PARENT)?;
    (parent != 0).then_some(parent)
}

/// True if the MPI instance has ended; called by any thread of the MPI library.
extern "C" fn is_over() -> bool {
    call::is_over()
}

/// Returns the first message of a kind, and the descriptor that it carries.
fn await_descriptor<T>(
    line: &Line,
    kind: impl Fn(ToProcess) -> Option<T>,
) -> io::Result<(T, OwnedFd)> {
    loop {
        if let Some((said, mut descriptors)) = line.receive_with(None)?
            && let Some(said) = kind(said)
        {
            return Ok((said, descriptors.pop().ok_or(io::ErrorKind::InvalidData)?));
        }
    }
}

pub fn lines() -> &'static Connections {
    LINES
        .get()
        .expect("this process is connected to its guardian")
}

pub fn send(message: &ToManager) {
    or_exit(lines().manager.send(message));
}

/// Exits after an error of a connection: the process cannot continue without its guardian.
fn or_exit<T>(talk: std::io::Result<T>) -> T {
    talk.unwrap_or_else(|_| {
        system_calls::print_message(message::guardian_gone(std::process::id()));
        system_calls::exit_now(understudy_catalogue::exit_status::RECOVERY_FAILED)
    })
}

/// Returns the next message within `limit`.
///
/// `None` also after a message that [`receive_with_descriptors`] handles itself.
pub fn receive(rt: &Runtime, limit: Duration) -> Option<ToProcess> {
    receive_with_descriptors(rt, limit).map(|(message, _)| message)
}

/// Returns the next message within `limit`, with its descriptors.
///
/// Handles replica stores and requests for placement hints, and returns `None` after them.
pub fn receive_with_descriptors(
    rt: &Runtime,
    limit: impl Into<Option<Duration>>,
) -> Option<(ToProcess, Vec<OwnedFd>)> {
    match or_exit(lines().manager.receive_with(limit)) {
        Some((ToProcess::AdoptStore { from, status }, files)) => {
            store_received(rt, from, status, files);
            None
        }
        Some((ToProcess::RequestPlacementHints { failed }, _)) => {
            choose(&failed);
            None
        }
        received => received,
    }
}

fn store_received(rt: &Runtime, from: ProcessNumber, status: c_int, files: Vec<OwnedFd>) {
    let mut received = rt.reinit.received_stores.borrow_mut();
    received.of = Some(from);
    if let Ok(files) = files
        .into_iter()
        .map(system_calls::move_owned_descriptor)
        .collect::<Vec<_>>()
        .try_into()
    {
        received.unused = Some(ReplicaStoreFiles {
            from,
            status,
            files,
        });
    }
}

/// Sets the function that selects spares.
///
/// The leader requests placement hints before an MPI instance that follows a failure, from one of
/// the processes with a chooser.
pub fn set_chooser(chooser: Chooser) {
    let _ = CHOOSER.set(chooser);
}

fn choose(failed: &[ProcessNumber]) {
    let hints = CHOOSER.get().map_or(Vec::new(), |chooser| chooser(failed));
    for spare in hints {
        send(&ToManager::PlacementHint { spare });
    }
    send(&ToManager::PlacementHintsEnd {
        generation: call::required_instance(),
    });
}

/// True if the replica store of this failed process was the last to arrive.
pub fn has_store_from(rt: &Runtime, dead: ProcessNumber) -> bool {
    rt.reinit.received_stores.borrow().of == Some(dead)
}

/// Returns the number of workers that were started on this node.
pub fn neighbours() -> u32 {
    LINES.get().map_or(0, |lines| lines.neighbours)
}

/// True if this process can select spares.
pub fn can_choose() -> bool {
    CHOOSER.get().is_some()
}

/// Returns the replica store of a failed process.
///
/// `None` if no store has arrived since the last call.
pub fn take_store(rt: &Runtime) -> Option<ReplicaStoreFiles> {
    rt.reinit.received_stores.borrow_mut().unused.take()
}

/// Hands over this process's replica store, for the replacement of `worker` if this process fails.
///
/// The files replace files that were handed over before.
pub fn hand_over(worker: Worker, files: [&impl AsFd; 2]) {
    let (message, lines) = (ToManager::StoreReplicas { worker }, lines());
    // The guardian is first, since it also keeps the files for a later manager.
    for line in [&lines.guardian, &lines.manager] {
        if let Err(error) = line.send_with(&message, &files.map(AsFd::as_fd)) {
            log::warn!("{}", message::replicas_end_with_process(error));
        }
    }
}

/// Reports that nothing of this process's replica store is needed if this process fails.
pub fn report_no_store() {
    or_exit(lines().guardian.send(&ToManager::ReleaseReplicas));
    send(&ToManager::ReleaseReplicas);
}

/// Kills the node manager, for a test.
pub fn kill_manager() {
    let manager = LINES
        .get()
        .map(|lines| lines.page.manager.load(Ordering::Acquire));
    if let Some(manager @ 1..) = manager {
        // SAFETY: kill(2) accesses no memory.
        unsafe { libc::kill(manager as libc::pid_t, libc::SIGKILL) };
    }
}

/// Returns the number of failures of idle spares, counted from an arbitrary start.
pub fn spare_deaths() -> u32 {
    LINES
        .get()
        .map_or(0, |lines| lines.page.spare_deaths.load(Ordering::Acquire))
}

/// True if this process is connected to its node manager.
pub fn is_connected() -> bool {
    LINES.get().is_some()
}

/// Returns the last request for a checkpoint on disk.
pub fn checkpoint_request() -> Option<CheckpointRequest> {
    let number = lines().page.checkpoint_request.load(Ordering::Acquire);
    CheckpointRequest::from_number(number)
}

/// Returns the number of the last order to leave the job.
pub fn leave_order() -> u32 {
    let order = |lines: &Connections| lines.page.leave_order.load(Ordering::Acquire);
    LINES.get().map_or(0, order)
}

/// Returns the order to leave the job at the next checkpoint, if any.
pub fn order_to_leave() -> Option<u32> {
    Some(leave_order()).filter(|order| order % 2 == 1)
}

/// Reports that this worker stands still after a commit.
pub fn report_can_leave(order: u32, is_replicated: bool) {
    send(&ToManager::CanLeave {
        generation: call::own_instance(),
        order,
        is_replicated,
    });
}

/// Reports that this process has got a signal that requests a checkpoint on disk.
pub fn request_checkpoint(signal: c_int) {
    send(&ToManager::RequestCheckpoint { signal });
}

/// Returns the time at which each signal was last forwarded to all ranks.
///
/// Times are in nanoseconds since 1970; zero if never.
pub fn passed_signals() -> impl Iterator<Item = (i32, u64)> {
    let times = lines()
        .page
        .signal_times
        .iter()
        .map(|time| time.load(Ordering::Relaxed));
    line::REPEATED_SIGNALS.into_iter().zip(times)
}

/// Reports `Running`: from now on a failure is recovered instead of restarting the job.
pub fn report_running() {
    lines().page.has_run.store(1, Ordering::Release);
    set_interruptible(true);
    send(&ToManager::Running {
        generation: call::own_instance(),
    });
}

/// Sets the flag that allows interrupting the main thread when another process has failed.
pub fn set_interruptible(is_interruptible: bool) {
    lines()
        .page
        .is_interruptible
        .store(is_interruptible.into(), Ordering::Release);
}

/// Requests new spares; `spares` is the number of missing ones.
pub fn request_spares(spares: u32) {
    send(&ToManager::Replenish { spares });
}

/// Owner file of the job in the directory of checkpoints.
static OWNER_FILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Reports that the job owns a directory of checkpoints by this file.
///
/// The manager rewrites the file at intervals.
pub fn report_owner_file(file: &Path) {
    *lock(&OWNER_FILE) = Some(file.to_owned());
    repeat_owner_file();
}

/// Reports the owner file again, since a manager may have been replaced.
pub fn repeat_owner_file() {
    if let Some(file) = lock(&OWNER_FILE).clone() {
        send(&ToManager::OwnsDirectory { file });
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that this worker is about to spawn processes for the `number`-th time.
pub fn report_spawn(worker: Worker, number: u64) {
    send(&ToManager::Spawns { worker, number });
}

/// Reports that spawns up to `number` precede a cut that may not be committed yet.
pub fn report_captured(worker: Worker, number: u64) {
    send(&ToManager::SpawnedCaptured { worker, number });
}

/// Reports that this worker has rolled back to a state after `number` spawns.
pub fn report_rolled_back(worker: Worker, number: u64) {
    send(&ToManager::RolledBack { worker, number });
}

/// Reports that spawns up to `number` are not rolled back any more.
pub fn report_committed(worker: Worker, number: u64) {
    send(&ToManager::SpawnedPermanent { worker, number });
}

/// Returns the boards of workers: the ports and names that they have published.
///
/// All of these workers are on the node of `process`.
///
/// `None` if another MPI instance is required before the answer.
///
/// # Errors
/// Fails if the answer cannot be read.
pub fn boards(
    rt: &Runtime,
    process: ProcessNumber,
    workers: Vec<Worker>,
) -> io::Result<Option<Boards>> {
    static NEXT_BOARD_REQUEST: AtomicU64 = AtomicU64::new(0);
    let id = NEXT_BOARD_REQUEST.fetch_add(1, Ordering::Relaxed);
    send(&ToManager::ReadBoards {
        id,
        process,
        workers,
    });
    while !call::is_over() {
        if let Some((ToProcess::BoardContents { id: answered }, mut files)) =
            receive_with_descriptors(rt, POLL_INTERVAL)
            && answered == id
        {
            let mut bytes = Vec::new();
            File::from(files.pop().ok_or(io::ErrorKind::InvalidData)?).read_to_end(&mut bytes)?;
            let decoded = bincode::decode_from_slice(&bytes, bincode::config::standard());
            return decoded
                .map(|(boards, _)| Some(boards))
                .map_err(io::Error::other);
        }
    }
    Ok(None)
}

/// Aborts the whole job with this status.
pub fn abort(status: c_int) -> ! {
    // Before `MPI_Init` there is no connection: the guardian receives the exit status of this
    // process.
    if LINES.get().is_some() {
        send(&ToManager::Abort { status });
    }
    system_calls::exit_now(if status & 0xff == 0 { 1 } else { status })
}
