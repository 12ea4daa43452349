//! Static data of a part that a process takes: how they are made again comes with the copy.
#![allow(unsafe_code)]

use super::child::{Child, Task};
use super::is_used;
use super::message::Message;
use super::own_memory;
use super::script::Script;
use super::thin::Thin;
use crate::cell::Main;
use crate::fault;
use crate::image::PAGE_SIZE;
use crate::image::epoch::Image;
use crate::image::runs::{self, PageIndex, PageRun};
use crate::image::store::PageStore;
use crate::image::sums::of_page;
use crate::own_messages::{Peer, tag};
use crate::world;
use bincode::config::standard;
use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

/// Time between two looks at a child.
const NAP: Duration = Duration::from_micros(200);

/// What a thin copy lacks, for the process that gets it.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Offer {
    script: Script,
    absent: Vec<PageRun>,
}

/// Messages under way.
static MESSAGES: Main<Vec<(bool, Message)>> = Main::new(Vec::new());

/// Sends what is missing in copies that are about to be sent, each to the worker with this number, and receives the same
/// from `from`. Empty for copies that lack nothing. An MPI error code if a process fails.
pub fn offer(thin: Vec<(u32, Option<&Thin>)>, from: Option<u32>) -> Result<Option<Offer>, c_int> {
    if !is_used() {
        return Ok(None);
    }
    let peer = |rank| Peer {
        comm: world::private(),
        rank,
        tag: tag::OFFER,
    };
    let messages = MESSAGES.get();
    for (to, thin) in thin {
        let bytes = thin.map_or(Vec::new(), encode);
        let length = (bytes.len() as u64).to_ne_bytes().to_vec();
        messages.extend(
            [length, bytes]
                .into_iter()
                .filter_map(|bytes| Some((false, Message::send(bytes, peer(to))?))),
        );
    }
    let mut received = Vec::new();
    if let Some(from) = from {
        let length = receive(size_of::<u64>(), peer(from))?;
        let length = u64::from_ne_bytes(length.try_into().unwrap_or_default());
        received = receive(length as usize, peer(from))?;
    }
    while let Some((_, message)) = messages.last_mut() {
        if message.test()? {
            messages.pop();
        }
    }
    Ok(bincode::decode_from_slice(&received, standard())
        .ok()
        .map(|(offer, _)| offer))
}

fn encode(thin: &Thin) -> Vec<u8> {
    let parts = (&thin.script, &thin.absent);
    bincode::encode_to_vec(parts, standard()).unwrap_or_default()
}

fn receive(length: usize, from: Peer) -> Result<Vec<u8>, c_int> {
    let messages = MESSAGES.get();
    messages.extend(Message::receive(length, from).map(|message| (true, message)));
    loop {
        let Some((true, message)) = messages.last_mut() else {
            return Err(crate::errors::ERR_INTERN);
        };
        if message.test()? {
            break;
        }
    }
    Ok(messages.pop().map(|(_, message)| message.bytes).unwrap_or_default())
}

/// After a failure: returns how many messages have not ended within `limit`.
pub(super) fn quiesce(limit: Duration) -> usize {
    let messages = MESSAGES.get().drain(..);
    messages
        .map(|(is_receive, message)| message.quiesce(is_receive, limit))
        .sum()
}

/// How often a phase is replayed whose pages do not all come out right: what depends on something that is not the same
/// twice may have been proved by chance, and may come out right by another.
const MOST_REPLAYS: u32 = 12;

/// A replay that makes what a copy lacks.
pub struct Rebuild {
    offer: Offer,
    child: Child,
    memory: File,
    began: Instant,
}

fn file_in_memory() -> std::io::Result<File> {
    // SAFETY: memfd_create(2); the descriptor is new.
    unsafe {
        match libc::memfd_create(c"understudy static data".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(std::io::Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

impl Rebuild {
    /// Starts it. This process must still stand at the end of `MPI_Init`, and stay there until the end.
    pub fn start(offer: Offer) -> Result<Rebuild, String> {
        fault::point("replay.begin", 0);
        let memory = file_in_memory().map_err(|error| error.to_string())?;
        let child =
            Child::start(&offer.script, &Task::Write(&offer.absent, &memory)).map_err(|error| error.to_string())?;
        Ok(Rebuild {
            offer,
            child,
            memory,
            began: Instant::now(),
        })
    }

    /// Adds what was missing to the image. Returns the script, and how long it took.
    pub fn finish(self, image: &mut Image, store: &mut PageStore) -> Result<(Script, Duration), String> {
        let Rebuild {
            offer,
            mut child,
            memory,
            began,
        } = self;
        let length = runs::total(&offer.absent) as usize * PAGE_SIZE;
        let wanted = Wanted::of(&offer)?;
        let mut collected: Option<Vec<u8>> = None;
        for replay in 1.. {
            let view = contents(child, &memory, length)?;
            let wrong = match &mut collected {
                None => {
                    let wrong = wanted.wrong(view.bytes());
                    if wrong.is_empty() {
                        wanted.add(view.bytes(), image, store)?;
                        break;
                    }
                    collected = Some(view.bytes().to_vec());
                    wrong
                }
                Some(collected) => {
                    wanted.take_right(view.bytes(), collected);
                    wanted.wrong(collected)
                }
            };
            match (wrong.first(), &collected) {
                (None, Some(collected)) => {
                    wanted.add(collected, image, store)?;
                    break;
                }
                (Some(page), _) if replay == MOST_REPLAYS => {
                    return Err(format!("page {:#x} comes out otherwise", page.addr()));
                }
                _ => log::info!("{} pages come out otherwise; once more", wrong.len()),
            }
            let again = Child::start(&offer.script, &Task::Write(&offer.absent, &memory));
            child = again.map_err(|error| error.to_string())?;
        }
        fault::point("replay.end", 0);
        Ok((offer.script, began.elapsed()))
    }
}

/// Waits for a child; what it has written.
fn contents(mut child: Child, memory: &File, length: usize) -> Result<View, String> {
    while !child.is_done() {
        std::thread::sleep(NAP);
    }
    match child.finding().failure {
        Some(why) => Err(why),
        None => View::of(memory, length).map_err(|error| error.to_string()),
    }
}

/// A file's contents.
struct View(*mut libc::c_void, usize);

impl View {
    fn of(file: &File, length: usize) -> std::io::Result<View> {
        if length == 0 {
            return Ok(View(std::ptr::null_mut(), 0));
        }
        if file.metadata()?.len() < length as u64 {
            return Err(std::io::Error::other("not all pages were given"));
        }
        // SAFETY: a new mapping of a file that is as long.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(View(start, length))
    }

    fn bytes(&self) -> &[u8] {
        if self.1 == 0 {
            return &[];
        }
        // SAFETY: the mapping.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.1 > 0 {
            // SAFETY: the mapping, which nobody uses any more.
            unsafe { libc::munmap(self.0, self.1) };
        }
    }
}

/// Adds what was missing to the image, from the memory of this process, which has not changed it since the phase.
pub fn from_own_memory(offer: Offer, image: &mut Image, store: &mut PageStore) -> Result<Script, String> {
    let mut bytes = Vec::with_capacity(runs::total(&offer.absent) as usize * PAGE_SIZE);
    for run in &offer.absent {
        let at = bytes.len();
        let length = run.pages as usize * PAGE_SIZE;
        bytes.resize(at + length, 0);
        if !own_memory::read(run.start.addr(), &mut bytes[at..]) {
            return Err(format!("not all of {:x?} is there", run.range()));
        }
    }
    let wanted = Wanted::of(&offer)?;
    if let Some(page) = wanted.wrong(&bytes).first() {
        return Err(format!("page {:#x} comes out otherwise", page.addr()));
    }
    wanted.add(&bytes, image, store)?;
    Ok(offer.script)
}

/// The pages that a copy lacks, with their checksums.
struct Wanted<'a> {
    pages: &'a [PageRun],
    sums: Vec<u64>,
}

impl<'a> Wanted<'a> {
    fn of(offer: &'a Offer) -> Result<Wanted<'a>, String> {
        let (pages, sums) = (&*offer.absent, offer.script.sums(&offer.absent));
        match runs::total(pages) == sums.len() as u64 {
            true => Ok(Wanted { pages, sums }),
            false => Err("the checksums of some pages are missing".into()),
        }
    }

    /// Which pages are right, in contents that have one after the other.
    fn judge<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = (PageIndex, bool)> + 'b {
        let numbers = self.pages.iter().flat_map(|run| run.start.0..run.end()).map(PageIndex);
        let pages = numbers.zip(bytes.chunks_exact(PAGE_SIZE)).zip(&self.sums);
        pages.map(|((page, content), &sum)| (page, of_page(page, content) == sum))
    }

    fn wrong(&self, bytes: &[u8]) -> Vec<PageIndex> {
        let wrong = self.judge(bytes).filter(|(_, is_right)| !is_right);
        wrong.map(|(page, _)| page).collect()
    }

    /// Copies the pages that are right.
    fn take_right(&self, from: &[u8], to: &mut [u8]) {
        let pages = from.chunks_exact(PAGE_SIZE).zip(to.chunks_exact_mut(PAGE_SIZE));
        for ((from, to), (_, is_right)) in pages.zip(self.judge(from)) {
            if is_right {
                to.copy_from_slice(from);
            }
        }
    }

    /// Adds them to the image; all are right.
    fn add(&self, bytes: &[u8], image: &mut Image, store: &mut PageStore) -> Result<(), String> {
        let inserted = image.insert(self.pages, bytes, &self.sums, store);
        inserted.map_err(|error| error.to_string())
    }
}
