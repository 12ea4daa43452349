//! Images and deltas as messages: a [`Header`], then the pages in contiguous chunks.
//!
//! The sender determines the chunks and lists their lengths in the header. A chunk ends at the size
//! limit, or if the sender's next slot is not adjacent. The receiver allocates adjacent slots for
//! each chunk. So both sides transfer directly from and to slots, without a bounce buffer.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::{Delta, Image, SlotRun, lay_out, pages_of, select_pages};
use super::pages::{self, PageRun};
use super::store::{Extent, PageStore, StoreError};
use bincode::{Decode, Encode};
use understudy_numbers::Epoch;

/// Default size limit of a chunk in bytes.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Description of the pages, which the receiver needs before they arrive.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// Epoch of the pages.
    pub epoch: Epoch,
    /// Epoch from which the delta starts; `None` for a whole image.
    pub base: Option<Epoch>,
    /// Pages in the order of sending, which can differ from the address order.
    pub runs: Vec<PageRun>,
    /// Pages (sorted) that have only the content of their mapping again.
    pub dropped: Vec<PageRun>,
    /// Pages that are not sent, sorted.
    ///
    /// The receiver has reported that its own image contains them ([`super::deduplication`]).
    pub kept_by_receiver: Vec<PageRun>,
    /// Length of each chunk in pages.
    pub chunks: Vec<u32>,
}

/// Memory to send.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// First byte; valid until the image or the delta changes.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: a plain address; code that dereferences it is responsible for its validity.
unsafe impl Send for Chunk {}

/// Memory to receive into.
#[derive(Clone, Copy, Debug)]
pub struct ChunkMut {
    /// First byte.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

// SAFETY: a plain address; code that dereferences it is responsible for its validity.
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

/// Header and the memory that follows.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// First message.
    pub header: Header,
    /// Following messages, in order.
    pub chunks: Vec<Chunk>,
    /// Pages of these chunks; their checksums ([`super::sums`]) are also sent.
    pub runs: Vec<SlotRun>,
}

/// Error in received data.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes of a header or a page query cannot be decoded.
    #[error("cannot decode the description of pages")]
    Decode(#[source] bincode::error::DecodeError),
    /// The header or page query contradicts itself, or does not fit the receiver.
    #[error("a description of pages is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// No room for the pages.
    #[error("cannot allocate room for received pages")]
    Allocate(#[source] StoreError),
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> Vec<u8> {
        // Encoding fails only in custom encoders or if a writer is full.
        bincode::encode_to_vec(self, bincode::config::standard()).expect("encoding into a Vec")
    }

    /// Decodes a header from bytes that contain nothing else.
    ///
    /// # Errors
    /// Fails if the bytes are not a consistent header.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let decoded = bincode::decode_from_slice(bytes, bincode::config::standard());
        let (header, used): (Self, usize) = decoded.map_err(WireError::Decode)?;
        if used != bytes.len() {
            return Err(WireError::Inconsistent("bytes behind its end"));
        }
        header.check()?;
        Ok(header)
    }

    /// Returns the number of pages that follow.
    pub fn page_count(&self) -> u64 {
        pages::total(&self.runs)
    }

    fn check(&self) -> Result<(), WireError> {
        let mut sorted = [&self.runs[..], &self.kept_by_receiver].concat();
        sorted.sort_unstable();
        let is_impossible =
            |run: &PageRun| run.pages == 0 || run.start.0.checked_add(run.pages).is_none();
        let overlap =
            |list: &[PageRun]| list.windows(2).any(|pair| pair[0].end() > pair[1].start.0);
        let chunk_pages: u64 = self.chunks.iter().map(|&pages| u64::from(pages)).sum();
        let contradiction = if self
            .runs
            .iter()
            .chain(&self.kept_by_receiver)
            .chain(&self.dropped)
            .any(is_impossible)
        {
            "an impossible run"
        } else if overlap(&sorted) {
            "a page is sent twice"
        } else if overlap(&self.dropped) {
            "dropped pages are not sorted"
        } else if chunk_pages != self.page_count() || self.chunks.contains(&0) {
            "chunks do not add up to the pages"
        } else {
            return Ok(());
        };
        Err(WireError::Inconsistent(contradiction))
    }
}

impl Delta {
    /// Prepares the delta for sending, without the pages (sorted) that the receiver has itself.
    pub fn outgoing(
        &self,
        kept_by_receiver: Vec<PageRun>,
        store: &PageStore,
        options: SendOptions,
    ) -> Outgoing {
        let sent = select_pages(
            &self.runs,
            &pages::subtract(&self.pages(), &kept_by_receiver),
        );
        let header = Header {
            epoch: self.epoch,
            base: Some(self.base),
            runs: Vec::new(),
            dropped: self.dropped.clone(),
            kept_by_receiver,
            chunks: Vec::new(),
        };
        fill(header, &sent, store, options)
    }
}

impl Image {
    /// Prepares the whole image for sending, in slot order, which gives the longest chunks.
    pub fn outgoing(&self, store: &PageStore, options: SendOptions) -> Outgoing {
        let header = Header {
            epoch: self.epoch(),
            base: None,
            runs: Vec::new(),
            dropped: Vec::new(),
            kept_by_receiver: Vec::new(),
            chunks: Vec::new(),
        };
        let mut runs = self.runs().to_vec();
        runs.sort_unstable_by_key(|run| run.slot);
        fill(header, &runs, store, options)
    }
}

impl Outgoing {
    /// Prepares the sending of runs whose page numbers [`super::parity`] has assigned.
    pub fn of_parity(
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
            kept_by_receiver: Vec::new(),
            chunks: Vec::new(),
        };
        runs.sort_unstable_by_key(|run| run.slot);
        fill(header, &runs, store, SendOptions::default())
    }
}

/// Divides runs into chunks, and completes the header.
fn fill(mut header: Header, runs: &[SlotRun], store: &PageStore, options: SendOptions) -> Outgoing {
    let limit = (options.chunk_bytes / PAGE_SIZE).clamp(1, u32::MAX as usize) as u64;
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

/// Pages that are being received.
#[derive(Debug)]
pub struct Incoming {
    header: Header,
    chunks: Vec<ChunkMut>,
    /// Received pages and their slots, in the order of the header.
    runs: Vec<SlotRun>,
    /// Pages that are not sent, in slots of the receiver's own image.
    kept: Vec<SlotRun>,
    sums: Vec<u64>,
}

impl Incoming {
    /// Allocates room for an image or a delta.
    ///
    /// `kept` contains the slots of the pages that are not sent. The caller has added a reference
    /// to each slot ([`PageStore::share`]).
    ///
    /// # Errors
    /// Fails if the header is inconsistent, if it omits other pages than `kept`, or if the store
    /// has no room.
    pub fn allocate(
        header: Header,
        kept: Vec<SlotRun>,
        store: &mut PageStore,
    ) -> Result<Self, WireError> {
        header.check()?;
        if header.kept_by_receiver != pages_of(&kept) {
            return Err(WireError::Inconsistent(
                "the omitted pages are not those that the receiver has",
            ));
        }
        let lengths: Vec<u64> = header.chunks.iter().map(|&pages| pages.into()).collect();
        let extents = store.alloc_extents(&lengths).map_err(WireError::Allocate)?;
        let runs = lay_out(&header.runs, &extents);
        let sums = vec![0; header.page_count() as usize];
        let buffer = |extent: &Extent| ChunkMut {
            ptr: store.ptr(extent.first),
            len: extent.len as usize * PAGE_SIZE,
        };
        let chunks = extents.iter().map(buffer).collect();
        Ok(Self {
            header,
            chunks,
            runs,
            kept,
            sums,
        })
    }

    /// Returns the buffers of the chunks, in the order of the header.
    pub fn chunks(&self) -> &[ChunkMut] {
        &self.chunks
    }

    /// Returns the checksums in header order.
    ///
    /// The caller may take the vector to receive checksums into it, and must put it back.
    pub fn sums(&mut self) -> &mut Vec<u64> {
        &mut self.sums
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the received pages, sorted by number; the caller then owns their slots.
    pub fn into_runs(self) -> Vec<SlotRun> {
        let mut runs = self.runs;
        runs.sort_unstable_by_key(|run| run.pages);
        runs
    }

    /// Releases all slots, for example after a failure of the sender.
    pub fn cancel(self, store: &mut PageStore) {
        store.release(self.runs.into_iter().chain(self.kept).map(SlotRun::extent));
    }

    /// Returns the received delta, once every chunk and the checksums have arrived.
    ///
    /// # Errors
    /// Fails if a whole image was received; its slots are released then.
    pub fn into_delta(self, store: &mut PageStore) -> Result<Delta, WireError> {
        let Some(base) = self.header.base else {
            self.cancel(store);
            return Err(WireError::Inconsistent(
                "an image was received instead of a delta",
            ));
        };
        Ok(Delta {
            base,
            epoch: self.header.epoch,
            runs: self.store_sums(store),
            dropped: self.header.dropped,
        })
    }

    /// Returns the received image, once every chunk and the checksums have arrived.
    ///
    /// # Errors
    /// Fails if a delta was received; its slots are released then.
    pub fn into_image(self, store: &mut PageStore) -> Result<Image, WireError> {
        if self.header.base.is_some() {
            self.cancel(store);
            return Err(WireError::Inconsistent(
                "a delta was received instead of an image",
            ));
        }
        Ok(Image::from_parts(self.header.epoch, self.store_sums(store)))
    }

    /// Returns the image that results from applying the received pages to `image`.
    ///
    /// The checksums of the received pages are stored; nothing else changes.
    pub fn preview(&self, image: &Image, store: &mut PageStore) -> Image {
        let runs = self.store_sums(store);
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

    /// Stores the received checksums and returns the pages, sorted by number.
    fn store_sums(&self, store: &mut PageStore) -> Vec<SlotRun> {
        store.set_sums(&self.runs, &self.sums);
        let mut runs = [&self.runs[..], &self.kept].concat();
        runs.sort_unstable_by_key(|run| run.pages);
        runs
    }
}
