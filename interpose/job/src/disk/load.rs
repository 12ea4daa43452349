//! Loading of a checkpoint from a file into memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use understudy_formats::epochs::epoch_files::{EpochFileName, EpochKey};
use understudy_formats::epochs::epoch_format::{
    Decoder, EpochError, EpochHead, JobIdentity, SECTION_PAGES,
};
use understudy_formats::private_directories::open_own;
use understudy_image::image_delta::Image;
use understudy_image::store::PageStore;
use understudy_image::wire::{Header, Incoming};

/// Loaded checkpoint of one worker.
pub struct LoadedCheckpoint {
    /// Head of the file.
    pub head: EpochHead,
    /// Pages of the checkpoint.
    pub image: Image,
    pub state: Vec<u8>,
}

/// Reads a whole file, which must match its name and the job's identity.
pub fn load(
    directory: &Path,
    name: EpochFileName,
    own: &JobIdentity,
    store: &mut PageStore,
) -> Result<LoadedCheckpoint, EpochError> {
    let mut decoder = Decoder::new(open_own(&directory.join(name.to_string()), libc::O_RDONLY)?)?;
    if let Some(difference) = own.difference(&decoder.head.identity) {
        return Err(EpochError::Foreign(difference));
    }
    if decoder.head.key != name.key || decoder.head.worker != name.worker {
        return Err(EpochError::Foreign(
            "it was renamed; give it back its name".into(),
        ));
    }
    let state = decoder.read_state()?;
    let incoming = allocate(&decoder, name.key, store)?;
    let head = decoder.head.clone();
    match fill(decoder, &incoming) {
        Ok(()) => {
            let image = incoming
                .into_image(store)
                .map_err(|error| EpochError::Memory(error.to_string()))?;
            store.seal(image.runs());
            Ok(LoadedCheckpoint { head, image, state })
        }
        Err(damage) => {
            incoming.cancel(store);
            Err(damage)
        }
    }
}

fn allocate(
    decoder: &Decoder<File>,
    key: EpochKey,
    store: &mut PageStore,
) -> Result<Incoming, EpochError> {
    let (whole, rest) = (
        decoder.page_count() / SECTION_PAGES as u64,
        decoder.page_count() % SECTION_PAGES as u64,
    );
    let mut chunks = vec![SECTION_PAGES as u32; whole as usize];
    chunks.extend((rest > 0).then_some(rest as u32));
    let header = Header {
        epoch: key.epoch,
        base: None,
        runs: decoder.head.runs.clone(),
        dropped: vec![],
        kept_by_receiver: vec![],
        chunks,
    };
    Incoming::allocate(header, Vec::new(), store)
        .map_err(|error| EpochError::Memory(error.to_string()))
}

fn fill(mut decoder: Decoder<File>, incoming: &Incoming) -> Result<(), EpochError> {
    for chunk in incoming.chunks() {
        // SAFETY: the slots were allocated for this chunk, and no other code uses them.
        decoder.read_section(unsafe { std::slice::from_raw_parts_mut(chunk.ptr, chunk.len) })?;
    }
    decoder.finish()
}
