//! The reader of epochs on disk under any bytes.

use super::sums;
use understudy_formats::epochs::epoch_format::{Decoder, Encoder, EpochError, SECTION_PAGES};
use understudy_formats::pages::PAGE_SIZE;

/// What may be allocated at once, whatever the file claims: a section, and what is written of it
/// again.
pub const MOST: usize = 4 << 20;

/// Takes the bytes behind the first one, which says whether checksums are put right, for an epoch's
/// file. What can be read as a whole can be written again.
pub fn drive(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let mut file = bytes.to_vec();
    if how & 0x80 == 0 {
        sums::epoch(&mut file);
    }
    // A file that says that it has no page that is not zero may say that it has very many.
    let _ = read(&file, (file.len() + 1) * SECTION_PAGES);
}

fn read(file: &[u8], most: usize) -> Result<(), EpochError> {
    let mut decoder = Decoder::new(file)?;
    let head = decoder.head.clone();
    let state = decoder.state()?;
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
        decoder.section(section)?;
        for page in section.chunks(PAGE_SIZE) {
            again.page(page).expect("memory can be written to");
        }
        left -= pages as u64;
    }
    decoder.finish()?;
    let again = again.finish().expect("memory can be written to");
    let mut decoder = Decoder::new(again.as_slice())?;
    assert_eq!(decoder.head, head);
    assert_eq!(decoder.state()?, state);
    Ok(())
}
