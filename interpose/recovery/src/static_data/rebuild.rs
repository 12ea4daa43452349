//! Rebuild of static data in a replacement: the replay plan comes with the replica.
#![allow(unsafe_code)]

use super::rebuilt_pages;
use super::replay_settings::omits_static_data;
use super::template::ReplayRequest;
use crate::Runtime;
use crate::control_messages::{InFlight, Peer, SendQueue, tag};
use crate::copies::Replica;
use crate::copies::{PageSource, ReplayPlan};
use crate::{fault, world};
use bincode::config::standard;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use understudy_image::PAGE_SIZE;
use understudy_image::absent_pages::{self, PageSums};
use understudy_image::image_delta::Image;
use understudy_image::pages;
use understudy_image::store::PageStore;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};

/// Replay plan and list of the pages that a reduced replica omits.
#[derive(bincode::Encode, bincode::Decode)]
pub struct OmittedPages {
    script: ReplayPlan,
    absent: Vec<PageSums>,
}

impl OmittedPages {
    /// Returns the replay plan.
    pub fn plan(&self) -> &ReplayPlan {
        &self.script
    }

    /// Returns the replay plan.
    pub fn into_plan(self) -> ReplayPlan {
        self.script
    }

    /// Returns the omitted pages with their checksums.
    pub fn absent(&self) -> &[PageSums] {
        &self.absent
    }

    /// Marks a received replica as reduced by these pages.
    pub fn mark_reduced(self, copy: &mut Replica) {
        copy.image.add_absent(&self.absent);
        copy.script = Some(self.script);
    }
}

/// Exchanges the lists of pages that replicas omit, before these are sent.
///
/// `copies` has the receivers; `from` are the workers that send replicas to this one. The result
/// has `None` for a replica that omits no pages. The error is the failure of a process.
pub fn exchange_omitted(
    rt: &Runtime,
    copies: Vec<(Worker, &Image, Option<&ReplayPlan>)>,
    from: &[Worker],
) -> mpi::Result<Vec<Option<OmittedPages>>> {
    if !omits_static_data() {
        return Ok(from.iter().map(|_| None).collect());
    }
    let peer = |rank| Peer {
        comm: world::private(rt),
        rank,
        tag: tag::OFFER,
    };
    let mut sent = SendQueue::NONE;
    for (to, image, script) in copies {
        let bytes = encode(image, script);
        sent.send((bytes.len() as u64).to_ne_bytes(), [peer(to)])?;
        sent.send(bytes, [peer(to)])?;
    }
    let mut received = Vec::new();
    for &from in from {
        let receive = |length| InFlight::receive(peer(from), vec![0; length])?.wait();
        let length: Vec<u8> = receive(size_of::<u64>())?;
        let length = u64::from_ne_bytes(length.try_into().unwrap_or_default());
        let offer = bincode::decode_from_slice(&receive(length as usize)?, standard()).ok();
        received.push(offer.map(|(offer, _)| offer));
    }
    while !sent.is_empty() {
        sent.remove_sent()?;
    }
    Ok(received)
}

fn encode(image: &Image, script: Option<&ReplayPlan>) -> Vec<u8> {
    match script {
        Some(script) if !image.absent().is_empty() => {
            bincode::encode_to_vec((script, image.absent()), standard()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Rebuild of omitted pages that is under way.
pub struct Rebuild {
    offer: OmittedPages,
    asked: ReplayRequest,
    began: Instant,
}

impl Rebuild {
    pub fn start(rt: &Runtime, offer: OmittedPages) -> Result<Rebuild, String> {
        fault::point("replay.begin", Epoch::NONE);
        let began = Instant::now();
        let asked = rt
            .static_data
            .template
            .request_pages(&offer.script, &absent_pages::pages_of(&offer.absent))?;
        Ok(Rebuild {
            offer,
            asked,
            began,
        })
    }

    /// Adds the pages to the image; returns the replay plan and the duration.
    pub fn finish(
        self,
        rt: &Runtime,
        image: &mut Image,
        store: &mut PageStore,
    ) -> Result<(ReplayPlan, Duration), String> {
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

/// Stores the pages of a request to the template process in an image.
pub fn collect(
    rt: &Runtime,
    absent: &[PageSums],
    script: &ReplayPlan,
    asked: ReplayRequest,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let pages = absent_pages::pages_of(absent);
    let length = pages::total(&pages) as usize * PAGE_SIZE;
    let mut first = Some(asked);
    let mut replay = || {
        let asked = first
            .take()
            .map_or_else(|| rt.static_data.template.request_pages(script, &pages), Ok)?;
        FileMapping::of(
            &asked.wait_for_pages(&rt.static_data.template, script)?,
            length,
        )
        .map_err(|error| error.to_string())
    };
    match &script.source {
        PageSource::Replay(_) => rebuilt_pages::collect(absent, replay, image, store),
        PageSource::File(_) => rebuilt_pages::take(absent, replay()?.as_ref(), image, store),
    }
}

struct FileMapping(*mut libc::c_void, usize);

impl FileMapping {
    fn of(file: &File, length: usize) -> std::io::Result<FileMapping> {
        if length == 0 {
            return Ok(FileMapping(std::ptr::null_mut(), 0));
        }
        if file.metadata()?.len() < length as u64 {
            return Err(std::io::Error::other("not all pages were given"));
        }
        // SAFETY: a new mapping of a file that is at least this long.
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
        Ok(FileMapping(start, length))
    }
}

impl AsRef<[u8]> for FileMapping {
    fn as_ref(&self) -> &[u8] {
        if self.1 == 0 {
            return &[];
        }
        // SAFETY: the mapping has this length and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        if self.1 > 0 {
            // SAFETY: the mapping has no other users.
            unsafe { libc::munmap(self.0, self.1) };
        }
    }
}
