//! The reader of checkpoints on disk under any bytes.

use super::sums;
use understudy_formats::epochs::epoch_format::{Decoder, Encoder, EpochError, SECTION_PAGES};
use understudy_formats::pages::PAGE_SIZE;

/// Largest permitted allocation for a short file: buffers of a section, whatever the file claims.
pub const MAX_ALLOCATION: usize = 4 << 20;

/// Reads all bytes but the first as a checkpoint file.
///
/// The first byte decides if checksums are corrected. A file that can be read completely must have
/// an equal head and state after it was written again.
pub fn drive(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut file = bytes.to_vec();
    if how & 0x80 == 0 {
        sums::epoch(&mut file);
    }
    // A file that claims only zero pages may claim very many.
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
