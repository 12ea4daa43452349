//! Static data of a part that a process takes: how they are made again comes with the copy.
#![allow(unsafe_code)]

use super::child::{self, Child, Task};
use super::is_used;
use super::message::Message;
use super::script::{Script, Way};
use super::wanted;
use crate::cell::Main;
use crate::checkpoint::Copy;
use crate::fault;
use crate::image::PAGE_SIZE;
use crate::image::absent::{self, Sums};
use crate::image::epoch::Image;
use crate::image::runs;
use crate::image::store::PageStore;
use crate::own_messages::{Peer, tag};
use crate::world;
use bincode::config::standard;
use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Time between two looks at a child.
const NAP: Duration = Duration::from_micros(200);

/// What a thin copy lacks, for the process that gets it.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Offer {
    script: Script,
    absent: Vec<Sums>,
}

impl Offer {
    /// How it can be made.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Whether only a process that stands at the end of `MPI_Init` can make it.
    pub fn needs_start(&self) -> bool {
        matches!(self.script.way, Way::Replay(_))
    }

    /// How it can be made.
    pub fn into_script(self) -> Script {
        self.script
    }

    /// The pages.
    pub fn absent(&self) -> &[Sums] {
        &self.absent
    }

    /// What was received is a copy that lacks this.
    pub fn note_in(self, copy: &mut Copy) {
        copy.image.lack(&self.absent);
        copy.script = Some(self.script);
    }
}

/// Messages under way.
static MESSAGES: Main<Vec<(bool, Message)>> = Main::new(Vec::new());

/// Sends what is missing in copies that are about to be sent, each to the worker with this number, and receives the same
/// from the workers `from`. Empty for copies that lack nothing. An MPI error code if a process fails.
pub fn offer(copies: Vec<(u32, &Image, Option<&Script>)>, from: &[u32]) -> Result<Vec<Option<Offer>>, c_int> {
    if !is_used() {
        return Ok(from.iter().map(|_| None).collect());
    }
    let peer = |rank| Peer {
        comm: world::private(),
        rank,
        tag: tag::OFFER,
    };
    for (to, image, script) in copies {
        let bytes = encode(image, script);
        let length = (bytes.len() as u64).to_ne_bytes().to_vec();
        MESSAGES.borrow_mut().extend(
            [length, bytes]
                .into_iter()
                .filter_map(|bytes| Some((false, Message::send(bytes, peer(to))?))),
        );
    }
    let mut received = Vec::new();
    for &from in from {
        let length = receive(size_of::<u64>(), peer(from))?;
        let length = u64::from_ne_bytes(length.try_into().unwrap_or_default());
        let bytes = receive(length as usize, peer(from))?;
        let offer = bincode::decode_from_slice(&bytes, standard()).ok();
        received.push(offer.map(|(offer, _)| offer));
    }
    let mut messages = MESSAGES.borrow_mut();
    while let Some((_, message)) = messages.last_mut() {
        if message.test()? {
            messages.pop();
        }
    }
    Ok(received)
}

fn encode(image: &Image, script: Option<&Script>) -> Vec<u8> {
    match script {
        Some(script) if !image.absent().is_empty() => {
            bincode::encode_to_vec((script, image.absent()), standard()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn receive(length: usize, from: Peer) -> Result<Vec<u8>, c_int> {
    let mut messages = MESSAGES.borrow_mut();
    messages.extend(Message::receive(length, from).map(|message| (true, message)));
    loop {
        let Some((true, message)) = messages.last_mut() else {
            return Err(crate::errors::ERR_INTERN);
        };
        if message.test()? {
            break;
        }
    }
    Ok(messages
        .pop()
        .map(|(_, message)| message.bytes.to_vec())
        .unwrap_or_default())
}

/// After a failure: messages are forgotten.
pub(super) fn interrupt() {
    drop(MESSAGES.take());
}

/// A child that makes what a copy lacks.
pub struct Rebuild {
    offer: Offer,
    child: Child,
    memory: File,
    began: Instant,
}

impl Rebuild {
    /// Starts it. This process must still stand at the end of `MPI_Init` if the offer [`Offer::needs_start`], and stay there
    /// until the end.
    pub fn start(offer: Offer) -> Result<Rebuild, String> {
        fault::point("replay.begin", 0);
        let tell = |error: std::io::Error| error.to_string();
        let memory = child::memory_file().map_err(tell)?;
        let child =
            Child::start(&offer.script, &Task::Write(&absent::pages_of(&offer.absent), &memory)).map_err(tell)?;
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
            child,
            memory,
            began,
        } = self;
        let pages = absent::pages_of(&offer.absent);
        let length = runs::total(&pages) as usize * PAGE_SIZE;
        let mut first = Some(child);
        let mut replay = || {
            let child = first.take().map_or_else(
                || Child::start(&offer.script, &Task::Write(&pages, &memory)).map_err(|error| error.to_string()),
                Ok,
            )?;
            contents(child, &memory, length)
        };
        match &offer.script.way {
            Way::Replay(_) => wanted::collect(&offer.absent, replay, image, store)?,
            Way::File(_) => wanted::take(&offer.absent, replay()?.as_ref(), image, store)?,
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
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
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
