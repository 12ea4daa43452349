//! Record of a rank's fatal signal and its position in the program, for the survivors.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Maximum number of frames in a backtrace, including the frame of the fault.
pub const FRAMES: usize = 16;
/// Maximum length of a module's name in bytes.
pub const NAME_LEN: usize = 40;

const NAME_WORDS: usize = NAME_LEN / 8;
const FRAME_WORDS: usize = 2 + NAME_WORDS;
const HEAD_WORDS: usize = 3;
/// Length of a record in the ledger, in words.
pub const NOTE_WORDS: usize = HEAD_WORDS + FRAMES * FRAME_WORDS;

/// An address in the program or in one of its libraries.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Frame {
    /// Address in the failed process.
    pub address: u64,
    /// Offset in the module's file; equal in all processes.
    pub offset: u64,
    /// Name of the file without its directory; empty if the address belongs to no file.
    pub module: String,
}

/// A fatal signal, recorded by the process that it has killed.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Note {
    pub signal: i32,
    /// `si_code`, sigaction(2).
    pub code: i32,
    /// `si_addr`.
    pub address: u64,
    /// Backtrace, innermost frame first; empty if the signal came from outside of the program.
    pub frames: Vec<Frame>,
}

/// The record in the ledger; all zeros without a fatal signal.
///
/// The words are: signal (low half) and code (high half); address; number of frames; frames. A
/// signal handler writes the record, and the process may be killed before any store.
#[repr(C)]
#[derive(Debug)]
pub struct NoteCell {
    words: [AtomicU64; NOTE_WORDS],
}

impl NoteCell {
    pub(super) fn new() -> Self {
        Self {
            words: [const { AtomicU64::new(0) }; NOTE_WORDS],
        }
    }

    /// Records the signal; async-signal-safe.
    ///
    /// Word 0 makes the record valid, so it is stored last.
    pub fn begin(&self, signal: i32, code: i32, address: u64) {
        self.words[1].store(address, SeqCst);
        self.words[0].store(
            u64::from(signal as u32) | u64::from(code as u32) << 32,
            SeqCst,
        );
    }

    /// Adds a frame; async-signal-safe.
    ///
    /// Frames beyond [`FRAMES`] and bytes of a name beyond [`NAME_LEN`] are dropped.
    pub fn add_frame(&self, address: u64, offset: u64, module: &[u8]) {
        let count = self.words[2].load(SeqCst) as usize;
        let start = HEAD_WORDS + count * FRAME_WORDS;
        let Some(words) = self.words.get(start..start + FRAME_WORDS) else {
            return;
        };
        words[0].store(address, SeqCst);
        words[1].store(offset, SeqCst);
        for (word, bytes) in words[2..].iter().zip(module.chunks(8)) {
            let mut text = [0; 8];
            text[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(text), SeqCst);
        }
        self.words[2].store(count as u64 + 1, SeqCst);
    }

    /// Returns the words of the record.
    pub fn words(&self) -> [u64; NOTE_WORDS] {
        std::array::from_fn(|at| self.words[at].load(SeqCst))
    }
}

impl Note {
    /// Decodes the result of [`NoteCell::words`]; `None` if nothing was recorded.
    pub fn from_words(words: &[u64]) -> Option<Note> {
        let (&[head, address, count], rest) = words.split_first_chunk()?;
        let frame = |words: &[u64]| Frame {
            address: words[0],
            offset: words[1],
            module: module_name(&words[2..]),
        };
        let frames = rest
            .chunks_exact(FRAME_WORDS)
            .take(count as usize)
            .map(frame);
        (head != 0).then(|| Note {
            signal: head as u32 as i32,
            code: (head >> 32) as u32 as i32,
            address,
            frames: frames.collect(),
        })
    }
}

/// Decodes a name, which zeros end.
fn module_name(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let cell = NoteCell::new();
        assert_eq!(Note::from_words(&cell.words()), None);
        cell.begin(6, -6, 77);
        cell.add_frame(0x40_1136, 0x1136, b"solver");
        cell.add_frame(5, 0, b"");
        let note = Note::from_words(&cell.words()).unwrap();
        assert_eq!((note.signal, note.code, note.address), (6, -6, 77));
        let frame = |address, offset, module: &str| Frame {
            address,
            offset,
            module: module.into(),
        };
        assert_eq!(
            note.frames,
            [frame(0x40_1136, 0x1136, "solver"), frame(5, 0, "")]
        );
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let cell = NoteCell::new();
        cell.begin(11, 1, 0);
        for at in 0..40 {
            cell.add_frame(at, at, &[b'x'; 100]);
        }
        let note = Note::from_words(&cell.words()).unwrap();
        assert_eq!(note.frames.len(), FRAMES);
        assert!(
            note.frames
                .iter()
                .all(|frame| frame.module == "x".repeat(NAME_LEN))
        );
    }
}
