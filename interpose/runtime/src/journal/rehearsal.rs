//! Rehearsals: an idle spare replays a worker's journal in a child process, ahead of any failure, and compares the pages
//! that come out with the worker's. What comes out equal can be rebuilt, and need not be kept anywhere.
#![allow(unsafe_code)]

use super::{hold, replay};
use crate::arch::Frame;
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::generated::real;
use crate::handles;
use crate::image::PAGE_SIZE;
use crate::image::epoch::Image;
use crate::image::layout::Layout;
use crate::image::store::PageStore;
use crate::image::vmas::{self, Vma};
use crate::own_messages::{self, Peer, tag};
use crate::real_types::{RealComm, RealRequest, Status};
use crate::requests::ANY_SOURCE;
use crate::{events, world};
use bincode::config::standard;
use ckptd::events::{Kind, Worker};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// How long a child may take, beside ten times as long as the phase took.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names of places that are told at most.
const MOST_PLACES: usize = 32;

/// What a spare needs to rehearse a worker's phase.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Script {
    /// The worker.
    pub worker: u32,
    /// Its journal.
    pub journal: Vec<u8>,
    /// The call of `MPI_Init`.
    pub begin: Frame,
    /// The call at the end: slot, hash of its arguments.
    pub end: (u64, u32),
    /// How long the phase took.
    pub took: Duration,
    /// Hashes of the pages at the end: number of the first page of a run, and one hash for each page.
    pub pages: Vec<(u64, Vec<u64>)>,
}

/// What a child has found out.
#[derive(Default, bincode::Encode, bincode::Decode)]
struct Finding {
    /// Why the replay did not come to its end.
    failure: Option<String>,
    /// Numbers of the pages that are not equal.
    different: Vec<u64>,
    /// Where they are.
    places: Vec<String>,
    /// How long the replay took.
    took: Duration,
}

/// A child at work.
struct Child {
    pid: libc::pid_t,
    output: std::fs::File,
    received: Vec<u8>,
    began: Instant,
    script: Script,
}

#[derive(Default)]
struct State {
    /// Scripts on their way from this worker, with their memory.
    sent: Vec<(Vec<u8>, Vec<RealRequest>)>,
    /// A script on its way to this spare.
    incoming: Option<(Vec<u8>, Vec<RealRequest>)>,
    waiting: Vec<Script>,
    child: Option<Child>,
}

static STATE: Main<Option<State>> = Main::new(None);

fn state() -> &'static mut State {
    STATE.get().get_or_insert_default()
}

/// Hashes of the pages of an image, without those of the stack that `rsp` is in.
pub fn hashes(layout: &Layout, image: &Image, store: &PageStore, rsp: u64) -> Vec<(u64, Vec<u64>)> {
    let stack = layout
        .areas()
        .iter()
        .map(|area| area.range)
        .find(|range| range.contains(rsp));
    let mut found = Vec::new();
    for (first, count, data) in image.extents(store) {
        if stack.is_some_and(|stack| stack.contains(first.addr())) {
            continue;
        }
        let hash = |page: u64| {
            // SAFETY: a page of the store that belongs to the image.
            xxh3_64(unsafe { std::slice::from_raw_parts(data.add(page as usize * PAGE_SIZE), PAGE_SIZE) })
        };
        found.push((first.0, (0..count).map(hash).collect()));
    }
    found
}

/// Sends a script to a spare, if one is idle.
pub fn ask(script: Script) {
    let world = world::get();
    let is_spare = |rank: &&u32| **rank >= world.worker_count && !world.players.contains(rank);
    let spares: Vec<u32> = world.living.iter().filter(is_spare).copied().collect();
    let Some(&spare) = spares.get(script.worker as usize % spares.len().max(1)) else {
        return;
    };
    // The living are in the same order in `control`.
    let Some(rank) = world.living.iter().position(|&living| living == spare) else {
        return;
    };
    let Ok(bytes) = bincode::encode_to_vec(&script, standard()) else {
        return;
    };
    if c_int::try_from(bytes.len()).is_err() {
        log::info!("the journal is too large for one message; whole images are kept");
        return;
    }
    let (mut requests, rank) = (Vec::new(), rank as u32);
    let to = Peer {
        comm: world.control,
        rank,
        tag: tag::SCRIPT,
    };
    // SAFETY: the bytes stay in the list until the request has ended.
    let rc = unsafe { own_messages::send(bytes.as_ptr().cast(), bytes.len(), to, &mut requests) };
    if rc == SUCCESS {
        state().sent.push((bytes, requests));
    }
}

/// After a failure: messages end, and so does the child. Returns how many messages have not ended within `limit`.
pub fn quiesce(limit: Duration) -> usize {
    let Some(state) = STATE.get().as_mut() else { return 0 };
    let mut left = 0;
    for (_, requests) in &mut state.sent {
        left += own_messages::end(requests, limit);
    }
    if let Some((_, requests)) = &mut state.incoming {
        left += own_messages::drive(requests, limit);
    }
    if let Some(child) = state.child.take() {
        child.end();
    }
    if left == 0 {
        *STATE.get() = None;
    }
    left
}

/// A spare's part: takes scripts, and looks after the child.
pub fn poll(control: RealComm) {
    if !crate::boot::config().rehearse {
        return;
    }
    let state = state();
    receive(state, control);
    if let Some(child) = &mut state.child {
        if !child.is_done() {
            return;
        }
        if let Some(child) = state.child.take() {
            child.tell();
        }
    }
    if let Some(script) = state.waiting.pop() {
        state.child = Child::start(script)
            .inspect_err(|error| log::info!("no rehearsal: {error}"))
            .ok();
    }
}

fn receive(state: &mut State, control: RealComm) {
    match &mut state.incoming {
        Some((_, requests)) => {
            if own_messages::test(requests) == Ok(true)
                && let Some((bytes, _)) = state.incoming.take()
                && let Ok((script, _)) = bincode::decode_from_slice(&bytes, standard())
            {
                state.waiting.insert(0, script);
            }
        }
        None => {
            let (mut flag, mut status) = (0, crate::requests::EMPTY);
            // SAFETY: a probe on a communicator of ours.
            let rc = unsafe { real::PMPI_Iprobe(ANY_SOURCE, tag::SCRIPT, control, &mut flag, &mut status) };
            if rc == SUCCESS && flag != 0 {
                state.incoming = post(control, &status);
            }
        }
    }
}

fn post(control: RealComm, status: &Status) -> Option<(Vec<u8>, Vec<RealRequest>)> {
    let mut length = 0;
    // SAFETY: the status of a message of bytes.
    unsafe { real::PMPI_Get_count(status, handles::byte_type(), &mut length) };
    let mut bytes = vec![0u8; length.max(0) as usize];
    let mut requests = Vec::new();
    let from = Peer {
        comm: control,
        rank: status.source as u32,
        tag: tag::SCRIPT,
    };
    // SAFETY: the memory is kept beside the request.
    let rc = unsafe { own_messages::receive(bytes.as_mut_ptr().cast(), bytes.len(), from, &mut requests) };
    (rc == SUCCESS).then_some((bytes, requests))
}

impl Child {
    fn start(script: Script) -> std::io::Result<Child> {
        let (mut ends, check) = ([0; 2], |rc: c_int| match rc {
            -1 => Err(std::io::Error::last_os_error()),
            rc => Ok(rc),
        });
        // SAFETY: pipe2(2) and fork(2); the child does not come back.
        unsafe {
            check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK))?;
            let (output, input) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
            let pid = check(libc::fork())?;
            if pid == 0 {
                rehearse(&script, input.as_raw_fd());
            }
            Ok(Child {
                pid,
                output: output.into(),
                received: Vec::new(),
                began: Instant::now(),
                script,
            })
        }
    }

    /// Reads what the child says; whether it has said all.
    fn is_done(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(_) => break,
            }
        }
        if self.began.elapsed() > PATIENCE + 10 * self.script.took {
            // SAFETY: a child of ours that has not been waited for.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        false
    }

    fn end(self) {
        // SAFETY: a child of ours that has not been waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }

    /// Tells what came of it.
    fn tell(self) {
        let mut status = 0;
        // SAFETY: a child of ours that has closed its pipe.
        unsafe { libc::waitpid(self.pid, &mut status, 0) };
        let finding = bincode::decode_from_slice::<Finding, _>(&self.received, standard());
        let (finding, _) = finding.unwrap_or_else(|_| {
            let failure = Some(format!("the replay ended with wait status {status:#x}"));
            let failed = Finding {
                failure,
                ..Finding::default()
            };
            (failed, 0)
        });
        let pages = self
            .script
            .pages
            .iter()
            .map(|(_, hashes)| hashes.len() as u64)
            .sum::<u64>();
        log::info!(
            "rehearsal of worker {}: {} of {pages} pages differ, {:?} instead of {:?}{}",
            self.script.worker,
            finding.different.len(),
            finding.took,
            self.script.took,
            finding.failure.as_ref().map_or(String::new(), |why| format!("; {why}"))
        );
        events::emit(Kind::Rehearsal {
            worker: Worker(self.script.worker),
            journal: self.script.journal.len() as u64,
            pages,
            different: finding.different.len() as u64,
            places: finding.places,
            failure: finding.failure,
            replay_ns: finding.took.as_nanos() as u64,
            phase_ns: self.script.took.as_nanos() as u64,
        });
    }
}

/// In the child: the replay, and what came of it.
fn rehearse(script: &Script, output: c_int) -> ! {
    // SAFETY: system calls in a process that has one thread and is about to end.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // Everything of the runtime side: the other processes must not take this one for the spare.
        let kept = libc::dup2(output, understudy_abi::RUNTIME_FD_BASE);
        libc::fcntl(kept, libc::F_SETFL, 0);
        libc::close_range(kept as u32 + 1, u32::MAX, 0);
    }
    let finding = find(script);
    let bytes = bincode::encode_to_vec(&finding, standard()).unwrap_or_default();
    // SAFETY: the rest of the pipe's end, and the end of the process.
    unsafe {
        let mut pipe = std::fs::File::from_raw_fd(understudy_abi::RUNTIME_FD_BASE);
        let _ = std::io::Write::write_all(&mut pipe, &bytes);
        libc::_exit(0)
    }
}

fn find(script: &Script) -> Finding {
    let began = Instant::now();
    let failed = |why: String| Finding {
        failure: Some(why),
        ..Finding::default()
    };
    if let Err(error) = hold::begin() {
        return failed(format!("system calls cannot be held back: {error}"));
    }
    // SAFETY: this process stands where the worker stood at the end of MPI_Init.
    let played = unsafe { replay::run(&script.journal, &script.begin, script.end) };
    let took = began.elapsed();
    if let Err(why) = hold::end()
        .map_err(|error| error.to_string())
        .and(played.map_err(|why| why.to_string()))
    {
        return failed(why);
    }
    let different: Vec<u64> = script
        .pages
        .iter()
        .flat_map(|(first, hashes)| compare(*first, hashes))
        .collect();
    Finding {
        places: places(&different),
        different,
        took,
        failure: None,
    }
}

/// Numbers of the pages of a run that have other hashes here, or are not there.
fn compare(first: u64, hashes: &[u64]) -> Vec<u64> {
    let mut page = [0u8; PAGE_SIZE];
    let differs = |(offset, hash): (u64, &u64)| {
        let number = first + offset;
        let to = libc::iovec {
            iov_base: page.as_mut_ptr().cast(),
            iov_len: PAGE_SIZE,
        };
        let from = libc::iovec {
            iov_base: (number * PAGE_SIZE as u64) as *mut _,
            iov_len: PAGE_SIZE,
        };
        // SAFETY: process_vm_readv(2) of this process, which fails where nothing is mapped.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        (read != PAGE_SIZE as isize || xxh3_64(&page) != *hash).then_some(number)
    };
    (0..).zip(hashes).filter_map(differs).collect()
}

fn label(vma: &Vma) -> String {
    match vma.path.as_slice() {
        [] => format!("anonymous memory at {:#x}", vma.range.start),
        path => String::from_utf8_lossy(path).into_owned(),
    }
}

/// Names of the mappings that pages are in, with how many there are in each.
fn places(pages: &[u64]) -> Vec<String> {
    let Ok(all) = vmas::read_self() else { return Vec::new() };
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for page in pages {
        let address = page * PAGE_SIZE as u64;
        let vma = all.iter().find(|vma| vma.range.contains(address));
        *found.entry(vma.map_or("nothing mapped".into(), label)).or_default() += 1;
    }
    let told = found.into_iter().take(MOST_PLACES);
    told.map(|(name, count)| format!("{name}: {count}")).collect()
}
