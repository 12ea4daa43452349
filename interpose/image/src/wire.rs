//! Images and deltas as messages: a [`Header`], then the pages in contiguous chunks.
//!
//! The sender decides where chunks end, and says so in the header: a chunk ends at the size
//! limit or where the sender's slots are not consecutive. The receiver allocates so that every
//! chunk is contiguous on its side, too; no bounce buffer is needed on either side.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::{Delta, Image, SlotRun, lay_out, pages_of, parts_of};
use super::runs::{self, PageRun};
use super::store::{Extent, PageStore, StoreError};
use bincode::{Decode, Encode};
use understudy_numbers::Epoch;

/// Default limit of a chunk in bytes.
pub const CHUNK_BYTES: usize = 1 << 20;

/// What the receiver must know before the pages come.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// Epoch the pages belong to.
    pub epoch: Epoch,
    /// Epoch the delta starts from; `None` for a whole image.
    pub base: Option<Epoch>,
    /// The pages in the order they are sent in, which is not always that of addresses.
    pub runs: Vec<PageRun>,
    /// Pages that lost their content, sorted.
    pub dropped: Vec<PageRun>,
    /// Pages that are not sent, since the receiver has said that it has them itself
    /// ([`super::alike`]), sorted.
    pub yours: Vec<PageRun>,
    /// Length of each chunk in pages.
    pub chunks: Vec<u32>,
}

/// A piece of memory to send.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// First byte, valid until the image or delta changes.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: an address; whoever follows it answers for that.
unsafe impl Send for Chunk {}

/// A piece of memory to receive into.
#[derive(Clone, Copy, Debug)]
pub struct ChunkMut {
    /// First byte.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: as of `Chunk`.
unsafe impl Send for ChunkMut {}

#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// Limit of a chunk in bytes.
    pub chunk_bytes: usize,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: CHUNK_BYTES,
        }
    }
}

/// A header and the memory that follows it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// To be sent first.
    pub header: Header,
    /// To be sent next, in this order.
    pub chunks: Vec<Chunk>,
    /// The pages of these chunks, whose checksums ([`super::sums`]) are sent as well.
    pub runs: Vec<SlotRun>,
}

/// Something is wrong with what was received.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The header's bytes cannot be decoded.
    #[error("cannot decode an image header")]
    Decode(#[source] bincode::error::DecodeError),
    /// The header contradicts itself.
    #[error("an image header is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// There is no room for the pages.
    #[error("cannot allocate room for received pages")]
    Allocate(#[source] StoreError),
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Only a hand-written encoder or a writer that runs full can fail.
        bincode::encode_to_vec(self, bincode::config::standard()).expect("encoding into a Vec")
    }

    /// Reads a header from bytes that hold nothing else.
    ///
    /// # Errors
    /// When the bytes are not a consistent header.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let decoded = bincode::decode_from_slice(bytes, bincode::config::standard());
        let (header, used): (Self, usize) = decoded.map_err(WireError::Decode)?;
        if used != bytes.len() {
            return Err(WireError::Inconsistent("bytes behind its end"));
        }
        header.check()?;
        Ok(header)
    }

    /// Number of pages that follow.
    pub fn page_count(&self) -> u64 {
        runs::total(&self.runs)
    }

    fn check(&self) -> Result<(), WireError> {
        let mut sorted = [&self.runs[..], &self.yours].concat();
        sorted.sort_unstable();
        let bad = |run: &PageRun| run.pages == 0 || run.start.0.checked_add(run.pages).is_none();
        let overlap = |list: &[PageRun]| list.windows(2).any(|w| w[0].end() > w[1].start.0);
        let of_chunks: u64 = self.chunks.iter().map(|&pages| u64::from(pages)).sum();
        let why = if self
            .runs
            .iter()
            .chain(&self.yours)
            .chain(&self.dropped)
            .any(bad)
        {
            "an impossible run"
        } else if overlap(&sorted) {
            "a page is sent twice"
        } else if overlap(&self.dropped) {
            "dropped pages are not sorted"
        } else if of_chunks != self.page_count() || self.chunks.contains(&0) {
            "chunks do not add up to the pages"
        } else {
            return Ok(());
        };
        Err(WireError::Inconsistent(why))
    }
}

impl Delta {
    /// The delta as a message, without the pages (sorted) that the receiver has itself.
    pub fn outgoing(
        &self,
        yours: Vec<PageRun>,
        store: &PageStore,
        options: SendOptions,
    ) -> Outgoing {
        let sent = parts_of(&self.runs, &runs::subtract(&self.pages(), &yours));
        let header = Header {
            epoch: self.epoch,
            base: Some(self.base),
            runs: Vec::new(),
            dropped: self.dropped.clone(),
            yours,
            chunks: Vec::new(),
        };
        fill(header, &sent, store, options)
    }
}

impl Image {
    /// The whole image as a message, in slot order: that gives the longest chunks.
    pub fn outgoing(&self, store: &PageStore, options: SendOptions) -> Outgoing {
        let header = Header {
            epoch: self.epoch(),
            base: None,
            runs: Vec::new(),
            dropped: Vec::new(),
            yours: Vec::new(),
            chunks: Vec::new(),
        };
        let mut runs = self.runs().to_vec();
        runs.sort_unstable_by_key(|run| run.slot);
        fill(header, &runs, store, options)
    }
}

impl Outgoing {
    /// Pages that belong to others than those in the slots: see [`super::parity`].
    pub fn of(
        epoch: Epoch,
        base: Option<Epoch>,
        mut runs: Vec<SlotRun>,
        store: &PageStore,
    ) -> Self {
        let header = Header {
            epoch,
            base,
            runs: Vec::new(),
            dropped: Vec::new(),
            yours: Vec::new(),
            chunks: Vec::new(),
        };
        runs.sort_unstable_by_key(|run| run.slot);
        fill(header, &runs, store, SendOptions::default())
    }
}

fn fill(mut header: Header, runs: &[SlotRun], store: &PageStore, how: SendOptions) -> Outgoing {
    let limit = (how.chunk_bytes / PAGE_SIZE).clamp(1, u32::MAX as usize) as u64;
    let mut extents: Vec<Extent> = Vec::new();
    for run in runs {
        header.runs.push(run.pages);
        match extents.last_mut() {
            Some(last) if last.first.0 + last.len == run.slot.0 => last.len += run.pages.pages,
            _ => extents.push(run.extent()),
        }
    }
    let mut chunks = Vec::new();
    for mut extent in extents {
        while extent.len > 0 {
            let pages = extent.len.min(limit);
            header.chunks.push(pages as u32);
            chunks.push(Chunk {
                ptr: store.ptr(extent.first),
                len: pages as usize * PAGE_SIZE,
            });
            extent.first.0 += pages;
            extent.len -= pages;
        }
    }
    Outgoing {
        header,
        chunks,
        runs: runs.to_vec(),
    }
}

/// Pages on their way in.
#[derive(Debug)]
pub struct Incoming {
    header: Header,
    chunks: Vec<ChunkMut>,
    /// As the header lists them.
    runs: Vec<SlotRun>,
    /// Those that are not sent, in slots of the receiver's own image.
    alike: Vec<SlotRun>,
    sums: Vec<u64>,
}

impl Incoming {
    /// Room for an image or a delta that is about to arrive. `alike` has the slots of the pages
    /// that are not sent, each with a reference of its own ([`PageStore::share`]).
    ///
    /// # Errors
    /// When the header is inconsistent, it leaves out other pages, or there is no room.
    pub fn expect(
        header: Header,
        alike: Vec<SlotRun>,
        store: &mut PageStore,
    ) -> Result<Self, WireError> {
        header.check()?;
        if header.yours != pages_of(&alike) {
            return Err(WireError::Inconsistent(
                "it leaves out other pages than the receiver has",
            ));
        }
        let parts: Vec<u64> = header.chunks.iter().map(|&n| u64::from(n)).collect();
        let extents = store.alloc_parts(&parts).map_err(WireError::Allocate)?;
        let runs = lay_out(&header.runs, &extents);
        let sums = vec![0; header.page_count() as usize];
        let into = |extent: &Extent| ChunkMut {
            ptr: store.ptr(extent.first),
            len: extent.len as usize * PAGE_SIZE,
        };
        let chunks = extents.iter().map(into).collect();
        Ok(Self {
            header,
            chunks,
            runs,
            alike,
            sums,
        })
    }

    /// Where the chunks go, in the order the header lists them.
    pub fn chunks(&self) -> &[ChunkMut] {
        &self.chunks
    }

    /// Where the checksums go, in the same order; they stay in place.
    pub fn sums(&mut self) -> &mut [u64] {
        &mut self.sums
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The pages, sorted, whatever they belong to; their slots are the caller's.
    pub fn into_runs(self) -> Vec<SlotRun> {
        let mut runs = self.runs;
        runs.sort_unstable_by_key(|run| run.pages);
        runs
    }

    /// Gives the room back, for example when the sender died.
    pub fn cancel(self, store: &mut PageStore) {
        store.release(self.runs.into_iter().chain(self.alike).map(SlotRun::extent));
    }

    /// The received delta, once every chunk and the checksums have arrived.
    ///
    /// # Errors
    /// When this is a whole image; the room is given back then.
    pub fn into_delta(self, store: &mut PageStore) -> Result<Delta, WireError> {
        let Some(base) = self.header.base else {
            self.cancel(store);
            return Err(WireError::Inconsistent("an image came instead of a delta"));
        };
        Ok(Delta {
            base,
            epoch: self.header.epoch,
            runs: self.kept(store),
            dropped: self.header.dropped,
        })
    }

    /// The received image, once every chunk and the checksums have arrived.
    ///
    /// # Errors
    /// When this is a delta; the room is given back then.
    pub fn into_image(self, store: &mut PageStore) -> Result<Image, WireError> {
        if self.header.base.is_some() {
            self.cancel(store);
            return Err(WireError::Inconsistent("a delta came instead of an image"));
        }
        Ok(Image::from_parts(self.header.epoch, self.kept(store)))
    }

    /// What becomes of `image` with what has been received, whose checksums are noted; nothing else
    /// changes.
    pub fn preview(&self, image: &Image, store: &mut PageStore) -> Image {
        let runs = self.kept(store);
        match self.header.base {
            None => Image::from_parts(self.header.epoch, runs),
            Some(base) => image.after(&Delta {
                base,
                epoch: self.header.epoch,
                runs,
                dropped: self.header.dropped.clone(),
            }),
        }
    }

    /// What was received, by page, with the checksums noted.
    fn kept(&self, store: &mut PageStore) -> Vec<SlotRun> {
        store.note_sums(&self.runs, &self.sums);
        let mut runs = [&self.runs[..], &self.alike].concat();
        runs.sort_unstable_by_key(|run| run.pages);
        runs
    }
}
