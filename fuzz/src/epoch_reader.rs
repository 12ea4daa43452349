//! The reader of checkpoints on disk, fed with arbitrary bytes.

use super::sums;
use understudy_formats::epochs::epoch_format::{Decoder, Encoder, EpochError, SECTION_PAGES};
use understudy_formats::pages::PAGE_SIZE;

/// Largest permitted allocation in bytes for a short file: the buffers of a section.
///
/// Lengths that the file claims must not increase an allocation.
pub const MAX_ALLOCATION: usize = 4 << 20;

/// Reads all bytes but the first as a checkpoint file.
///
/// The first byte determines whether checksums are corrected. If a file can be read completely, its
/// head and its state must not change when they are written and read again.
pub fn drive(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut file = bytes.to_vec();
    if how & 0x80 == 0 {
        sums::epoch(&mut file);
    }
    // Pages of zeros take no room in the file, so a short file can claim very many pages. A file
    // that claims more pages than this limit is not read to its end.
    let _ = read(&file, (file.len() + 1) * SECTION_PAGES);
}

fn read(file: &[u8], most: usize) -> Result<(), EpochError> {
    let mut decoder = Decoder::new(file)?;
    let head = decoder.head.clone();
    let state = decoder.read_state()?;
    let mut again = Encoder::new(Vec::new(), &head, &state).expect("memory can be written to");
    let (mut left, mut buffer) = (decoder.page_count(), vec![1; SECTION_PAGES * PAGE_SIZE]);
    assert!(
        head.runs
            .iter()
            .all(|run| run.range().len() == run.pages * PAGE_SIZE as u64)
    );
    if left > most as u64 {
        return Ok(());
    }
    while left > 0 {
        let pages = left.min(SECTION_PAGES as u64) as usize;
        let section = &mut buffer[..pages * PAGE_SIZE];
        decoder.read_section(section)?;
        for page in section.chunks(PAGE_SIZE) {
            again.write_page(page).expect("memory can be written to");
        }
        left -= pages as u64;
    }
    decoder.finish()?;
    let again = again.finish().expect("memory can be written to");
    let mut decoder = Decoder::new(again.as_slice())?;
    assert_eq!(decoder.head, head);
    assert_eq!(decoder.read_state()?, state);
    Ok(())
}
