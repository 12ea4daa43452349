//! Rebuild of static data in a replacement, which receives the replay plan with the replica.
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
pub struct ReducedReplicaPlan {
    plan: ReplayPlan,
    absent: Vec<PageSums>,
}

impl ReducedReplicaPlan {
    /// Returns the replay plan.
    pub fn plan(&self) -> &ReplayPlan {
        &self.plan
    }

    /// Returns the replay plan.
    pub fn into_plan(self) -> ReplayPlan {
        self.plan
    }

    /// Returns the omitted pages with their checksums.
    pub fn absent(&self) -> &[PageSums] {
        &self.absent
    }

    /// Marks a received replica as reduced by these pages.
    pub fn mark_reduced(self, copy: &mut Replica) {
        copy.image.add_absent(&self.absent);
        copy.replay_plan = Some(self.plan);
    }
}

/// Exchanges the lists of pages that replicas omit, before the replicas are sent.
///
/// `copies` are the replicas that this worker sends, with their receivers and plans; `from` are the
/// workers that send replicas to this worker. The result has one entry for each worker in `from`,
/// which is `None` for a replica that omits no pages.
///
/// # Errors
/// Fails if a process has failed.
pub fn exchange_omitted(
    rt: &Runtime,
    copies: Vec<(Worker, &Image, Option<&ReplayPlan>)>,
    from: &[Worker],
) -> mpi::Result<Vec<Option<ReducedReplicaPlan>>> {
    if !omits_static_data() {
        return Ok(from.iter().map(|_| None).collect());
    }
    let peer = |rank| Peer {
        comm: world::private(rt),
        rank,
        tag: tag::OFFER,
    };
    let mut sent = SendQueue::NONE;
    for (to, image, plan) in copies {
        let bytes = encode(image, plan);
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

fn encode(image: &Image, plan: Option<&ReplayPlan>) -> Vec<u8> {
    match plan {
        Some(plan) if !image.absent().is_empty() => {
            bincode::encode_to_vec((plan, image.absent()), standard()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Rebuild of omitted pages that is under way.
pub struct Rebuild {
    offer: ReducedReplicaPlan,
    request: ReplayRequest,
    began: Instant,
}

impl Rebuild {
    /// Requests the omitted pages from the template process.
    pub fn start(rt: &Runtime, offer: ReducedReplicaPlan) -> Result<Rebuild, String> {
        fault::point("replay.begin", Epoch::NONE);
        let began = Instant::now();
        let request = rt
            .static_data
            .template
            .request_pages(&offer.plan, &absent_pages::pages_of(&offer.absent))?;
        Ok(Rebuild {
            offer,
            request,
            began,
        })
    }

    /// Adds the rebuilt pages to the image; returns the replay plan and the duration.
    pub fn finish(
        self,
        rt: &Runtime,
        image: &mut Image,
        store: &mut PageStore,
    ) -> Result<(ReplayPlan, Duration), String> {
        let Rebuild {
            offer,
            request,
            began,
        } = self;
        collect(rt, &offer.absent, &offer.plan, request, image, store)?;
        fault::point("replay.end", Epoch::NONE);
        Ok((offer.plan, began.elapsed()))
    }
}

/// Stores in an image the pages that a request to the template process returns.
///
/// Repeats the request if pages of a replay are wrong.
pub fn collect(
    rt: &Runtime,
    absent: &[PageSums],
    plan: &ReplayPlan,
    request: ReplayRequest,
    image: &mut Image,
    store: &mut PageStore,
) -> Result<(), String> {
    let pages = absent_pages::pages_of(absent);
    let length = pages::total(&pages) as usize * PAGE_SIZE;
    let mut first = Some(request);
    let mut replay = || {
        let request = first
            .take()
            .map_or_else(|| rt.static_data.template.request_pages(plan, &pages), Ok)?;
        FileMapping::map(
            &request.wait_for_pages(&rt.static_data.template, plan)?,
            length,
        )
        .map_err(|error| format!("the rebuilt pages cannot be read: {error}"))
    };
    match &plan.source {
        PageSource::Replay(_) => rebuilt_pages::collect(absent, replay, image, store),
        PageSource::File(_) => rebuilt_pages::take(absent, replay()?.as_ref(), image, store),
    }
}

/// Mapping of a file: address and length.
struct FileMapping(*mut libc::c_void, usize);

impl FileMapping {
    fn map(file: &File, length: usize) -> std::io::Result<FileMapping> {
        if length == 0 {
            return Ok(FileMapping(std::ptr::null_mut(), 0));
        }
        if file.metadata()?.len() < length as u64 {
            return Err(std::io::Error::other(
                "the template process has not written all pages",
            ));
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
