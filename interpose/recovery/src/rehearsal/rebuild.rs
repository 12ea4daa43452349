//! Static data of a part that a process takes: how they are made again comes with the copy.
#![allow(unsafe_code)]

use super::message::Message;
use super::replay_settings::is_used;
use super::template::Asked;
use super::wanted;
use crate::Runtime;
use crate::copies::Copy;
use crate::copies::{Script, Way};
use crate::own_messages::{Peer, tag};
use crate::{fault, world};
use bincode::config::standard;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use understudy_image::PAGE_SIZE;
use understudy_image::absent::{self, Sums};
use understudy_image::epoch::Image;
use understudy_image::runs;
use understudy_image::store::PageStore;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};

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

/// Sends what is missing in copies that are about to be sent, each to the worker with this number,
/// and receives the same from the workers `from`. Empty for copies that lack nothing. An error if a
/// process fails.
pub fn offer(
    rt: &Runtime,
    copies: Vec<(Worker, &Image, Option<&Script>)>,
    from: &[Worker],
) -> mpi::Result<Vec<Option<Offer>>> {
    if !is_used() {
        return Ok(from.iter().map(|_| None).collect());
    }
    let peer = |rank| Peer {
        comm: world::private(rt),
        rank,
        tag: tag::OFFER,
    };
    for (to, image, script) in copies {
        let bytes = encode(image, script);
        let length = (bytes.len() as u64).to_ne_bytes().to_vec();
        rt.rehearsal.messages.borrow_mut().extend(
            [length, bytes]
                .into_iter()
                .filter_map(|bytes| Some((false, Message::send(bytes, peer(to))?))),
        );
    }
    let mut received = Vec::new();
    for &from in from {
        let length = receive(rt, size_of::<u64>(), peer(from))?;
        let length = u64::from_ne_bytes(length.try_into().unwrap_or_default());
        let bytes = receive(rt, length as usize, peer(from))?;
        let offer = bincode::decode_from_slice(&bytes, standard()).ok();
        received.push(offer.map(|(offer, _)| offer));
    }
    let mut messages = rt.rehearsal.messages.borrow_mut();
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

fn receive(rt: &Runtime, length: usize, from: Peer) -> mpi::Result<Vec<u8>> {
    let mut messages = rt.rehearsal.messages.borrow_mut();
    messages.extend(Message::receive(length, from).map(|message| (true, message)));
    loop {
        let Some((true, message)) = messages.last_mut() else {
            return Err(mpi::Error::INTERN);
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
pub(super) fn interrupt(rt: &Runtime) {
    drop(rt.rehearsal.messages.take());
}

/// What a copy lacks, while it is made.
pub struct Rebuild {
    offer: Offer,
    asked: Asked,
    began: Instant,
}

impl Rebuild {
    pub fn start(rt: &Runtime, offer: Offer) -> Result<Rebuild, String> {
        fault::point("replay.begin", Epoch::NONE);
        let began = Instant::now();
        let asked = rt
            .rehearsal
            .seed
            .make(&offer.script, &absent::pages_of(&offer.absent))?;
        Ok(Rebuild {
            offer,
            asked,
            began,
        })
    }

    /// Adds what was missing to the image. Returns the script, and how long it took.
    pub fn finish(
        self,
        rt: &Runtime,
        image: &mut Image,
        store: &mut PageStore,
    ) -> Result<(Script, Duration), String> {
        let Rebuild {
            offer,
            asked,
            began,
        } = self;
        collect(rt, &offer.absent, &offer.script, asked, image, store)?;
        fault::point("replay.end", Epoch::NONE);
        Ok((offer.script, began.elapsed()))
    }
}

/// Has an image keep pages that the seed has been asked for.
pub fn collect(
    rt: &Runtime,
    absent: &[Sums],
    script: &Script,
    asked: Asked,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let pages = absent::pages_of(absent);
    let length = runs::total(&pages) as usize * PAGE_SIZE;
    let mut first = Some(asked);
    let mut replay = || {
        let asked = first
            .take()
            .map_or_else(|| rt.rehearsal.seed.make(script, &pages), Ok)?;
        View::of(&asked.made(&rt.rehearsal.seed, script)?, length)
            .map_err(|error| error.to_string())
    };
    match &script.way {
        Way::Replay(_) => wanted::collect(absent, replay, image, store),
        Way::File(_) => wanted::take(absent, replay()?.as_ref(), image, store),
    }
}

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
