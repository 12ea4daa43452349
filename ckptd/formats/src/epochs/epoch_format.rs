//! Format of a checkpoint file: the state of one worker at one checkpoint.
//!
//! ```text
//!   magic, version u32, length u32 of the head │ head │ checksum
//!   encoded state                              │ checksum
//!   for every 256 pages: a bit for each page that is not zero │ these pages │ checksum
//!   end mark
//! ```
//!
//! Each line above but the last is a section. The checksum of a section is XXH3-64 with the
//! section's number as the seed, so that exchanged sections are detected. The head contains the
//! length of the state and the number of pages, so that truncated files are detected. Integers are
//! little-endian.

use super::epoch_files::EpochKey;
use crate::pages::{self, PAGE_SIZE, PageRun};
use bincode::config::standard;
use std::io::{self, ErrorKind, Read, Write};
use understudy_catalogue::message;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: &[u8; 8] = b"USTDYEPO";
/// Version of the format.
///
/// Any change of this format, or of a type in [`EpochHead`], requires a new version.
pub const VERSION: u32 = 2;
const END: &[u8; 8] = b"USTDYEND";

/// Maximum number of pages in a section.
pub const SECTION_PAGES: usize = 256;
/// Length of the bitmap at the begin of a section of pages.
const MAP_BYTES: usize = SECTION_PAGES / 8;
static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];
/// Maximum length of a head; a longer one counts as damaged.
const MAX_HEAD_BYTES: u32 = 256 << 20;

/// Properties of a job that must be equal for a restart.
///
/// `program` is an exception: [`JobIdentity::difference`] only shows it in a message.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct JobIdentity {
    /// Checksum of understudy's own libraries.
    pub build: u64,
    pub mpi: String,
    /// Number of workers of the job.
    pub workers: u32,
    /// Path of the program.
    pub program: String,
    pub arguments: Vec<Vec<u8>>,
    /// Properties that must be equal in all ranks of a job: addresses, libraries, the processor.
    pub layout: Vec<(String, u64)>,
}

/// Head of a file.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct EpochHead {
    pub key: EpochKey,
    pub worker: Worker,
    pub identity: JobIdentity,
    /// Checksum of the environment.
    pub environment: u64,
    /// Length of the encoded state.
    pub state: u64,
    /// Pages that follow the state, in order.
    pub runs: Vec<PageRun>,
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The file cannot be read.
    #[error("{}", message::checkpoint_unreadable(.0))]
    Read(io::Error),
    /// The file does not exist.
    #[error("{}", message::CHECKPOINT_MISSING)]
    Missing,
    /// The file is truncated.
    #[error("{}", message::CHECKPOINT_TRUNCATED)]
    Truncated,
    /// The file contains data behind its end mark.
    #[error("{}", message::CHECKPOINT_TOO_LONG)]
    TooLong,
    /// The file has another type.
    #[error("{}", message::NOT_A_CHECKPOINT)]
    Magic,
    /// The file was written by another version.
    #[error(
        "{}", message::checkpoint_version(.0, VERSION))]
    Version(u32),
    /// A section is damaged: its checksum does not match, or its content is impossible.
    #[error("{}", message::checkpoint_damaged(.0))]
    Damaged(String),
    /// The head is intact, but its content is impossible.
    #[error("{}", message::CHECKPOINT_INCONSISTENT)]
    Head,
    /// The file belongs to another program, build, MPI library or number of workers.
    #[error("{0}")]
    Foreign(String),
    /// No memory for the content.
    #[error("{}", message::no_memory_for_checkpoint(.0))]
    Memory(String),
}

fn read_error(error: io::Error) -> EpochError {
    match error.kind() {
        ErrorKind::UnexpectedEof => EpochError::Truncated,
        ErrorKind::NotFound => EpochError::Missing,
        _ => EpochError::Read(error),
    }
}

impl From<io::Error> for EpochError {
    fn from(error: io::Error) -> EpochError {
        read_error(error)
    }
}

/// Decodes and checks a head; `None` if the bytes are not a valid head.
///
/// Damaged length fields could cause huge allocations, so the size of the decoded head is limited.
/// The limit is 32 times the upper bound of the input's size class: 2 MiB below 64 KiB, 512 MiB
/// below 16 MiB, and 8 GiB otherwise.
fn decode_head(bytes: &[u8]) -> Option<EpochHead> {
    let (head, used) = match bytes.len() {
        0..0x1_0000 => decode_limited::<0x20_0000>(bytes),
        0x1_0000..0x100_0000 => decode_limited::<0x2000_0000>(bytes),
        _ => decode_limited::<{ 32 * (MAX_HEAD_BYTES as usize) }>(bytes),
    }?;
    (used == bytes.len() && pages::is_list(&head.runs)).then_some(head)
}

fn decode_limited<const LIMIT: usize>(bytes: &[u8]) -> Option<(EpochHead, usize)> {
    bincode::decode_from_slice(bytes, standard().with_limit::<LIMIT>()).ok()
}

fn checksum(bytes: &[u8], section: u64) -> [u8; 8] {
    xxh3_64_with_seed(bytes, section).to_le_bytes()
}

/// Writer of a checkpoint file, page by page.
pub struct Encoder<W: Write> {
    out: W,
    /// Number of the current section.
    section: u64,
    /// Bitmap and pages of the current section.
    buffer: Vec<u8>,
    /// Bitmap of the pages of the section that are not zero.
    map: [u8; MAP_BYTES],
    /// Number of pages in the current section so far.
    filled: usize,
}

impl<W: Write> Encoder<W> {
    /// Writes head and state.
    ///
    /// The caller then writes the pages in the order of `head.runs`, and calls `finish`.
    pub fn new(mut out: W, head: &EpochHead, state: &[u8]) -> io::Result<Encoder<W>> {
        let content = bincode::encode_to_vec(head, standard()).map_err(io::Error::other)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes.extend(checksum(&bytes, 0));
        out.write_all(&bytes)?;
        out.write_all(state)?;
        out.write_all(&checksum(state, 1))?;
        Ok(Encoder {
            out,
            section: 2,
            buffer: Vec::with_capacity(MAP_BYTES + SECTION_PAGES * PAGE_SIZE + 8),
            map: [0; MAP_BYTES],
            filled: 0,
        })
    }

    /// Writes a page; returns true if the page completes a section.
    pub fn write_page(&mut self, page: &[u8]) -> io::Result<bool> {
        if self.filled == 0 {
            self.buffer.clear();
            self.buffer.extend([0; MAP_BYTES]);
        }
        if page != ZEROS {
            self.map[self.filled / 8] |= 1 << (self.filled % 8);
            self.buffer.extend_from_slice(page);
        }
        self.filled += 1;
        if self.filled == SECTION_PAGES {
            self.flush()?;
        }
        Ok(self.filled == 0)
    }

    /// Writes the current section.
    fn flush(&mut self) -> io::Result<()> {
        self.buffer[..MAP_BYTES].copy_from_slice(&self.map);
        let sum = checksum(&self.buffer, self.section);
        self.buffer.extend(sum);
        self.out.write_all(&self.buffer)?;
        self.section += 1;
        (self.filled, self.map) = (0, [0; MAP_BYTES]);
        Ok(())
    }

    /// Writes the last section and the end mark.
    pub fn finish(mut self) -> io::Result<W> {
        if self.filled > 0 {
            self.flush()?;
        }
        self.out.write_all(END)?;
        Ok(self.out)
    }
}

/// Reader of a checkpoint file, section by section.
pub struct Decoder<R: Read> {
    from: R,
    pub head: EpochHead,
    /// Number of the next section of pages.
    section: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Decoder<R> {
    /// Reads and checks the head.
    pub fn new(mut from: R) -> Result<Decoder<R>, EpochError> {
        let mut bytes = vec![0; 16];
        from.read_exact(&mut bytes)?;
        if &bytes[..8] != MAGIC {
            return Err(EpochError::Magic);
        }
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (version, length) = (u32_at(8), u32_at(12));
        if version != VERSION {
            return Err(EpochError::Version(version));
        }
        if length > MAX_HEAD_BYTES {
            return Err(EpochError::Damaged("head".into()));
        }
        let length = u64::from(length) + 8;
        if from.by_ref().take(length).read_to_end(&mut bytes)? as u64 != length {
            return Err(EpochError::Truncated);
        }
        let (bytes, sum) = bytes.split_at(bytes.len() - 8);
        if checksum(bytes, 0) != sum {
            return Err(EpochError::Damaged("head".into()));
        }
        Ok(Decoder {
            from,
            head: decode_head(&bytes[16..]).ok_or(EpochError::Head)?,
            section: 2,
            buffer: Vec::new(),
        })
    }

    /// Reads the encoded state, which follows the head.
    pub fn read_state(&mut self) -> Result<Vec<u8>, EpochError> {
        let mut bytes = Vec::new();
        let length = self.head.state.saturating_add(8);
        if self.from.by_ref().take(length).read_to_end(&mut bytes)? as u64 != length {
            return Err(EpochError::Truncated);
        }
        let sum = bytes.split_off(self.head.state as usize);
        if checksum(&bytes, 1) != *sum {
            return Err(EpochError::Damaged("state".into()));
        }
        Ok(bytes)
    }

    /// Returns the number of pages.
    pub fn page_count(&self) -> u64 {
        pages::total(&self.head.runs)
    }

    /// Reads the next section of pages into `pages`, which is as long as the section.
    pub fn read_section(&mut self, pages: &mut [u8]) -> Result<(), EpochError> {
        self.buffer.resize(MAP_BYTES, 0);
        self.from.read_exact(&mut self.buffer)?;
        let present: usize = self
            .buffer
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum();
        let length = MAP_BYTES + present * PAGE_SIZE;
        self.buffer.resize(length + 8, 0);
        self.from.read_exact(&mut self.buffer[MAP_BYTES..])?;
        let (content, sum) = self.buffer.split_at(length);
        let (map, mut data) = content.split_at(MAP_BYTES);
        let is_present = |page: usize| map[page / 8] & (1 << (page % 8)) != 0;
        let is_intact = checksum(content, self.section) == *sum;
        let page_count = pages.len() / PAGE_SIZE;
        if !is_intact || (page_count..SECTION_PAGES).any(is_present) {
            return Err(EpochError::Damaged(format!(
                "part {} of the pages",
                self.section - 1
            )));
        }
        for (index, page) in pages.chunks_exact_mut(PAGE_SIZE).enumerate() {
            if is_present(index) {
                let (first, rest) = data.split_at(PAGE_SIZE);
                page.copy_from_slice(first);
                data = rest;
            } else {
                page.fill(0);
            }
        }
        self.section += 1;
        Ok(())
    }

    /// Reads the end mark, behind which the file must end.
    pub fn finish(mut self) -> Result<(), EpochError> {
        let mut end = [0; 8];
        self.from.read_exact(&mut end)?;
        if &end != END {
            return Err(EpochError::Damaged("end".into()));
        }
        match self.from.read(&mut end)? {
            0 => Ok(()),
            _ => Err(EpochError::TooLong),
        }
    }
}

impl JobIdentity {
    /// Returns a message for the user about the first property that differs in `theirs`.
    ///
    /// `None` if a file with the identity `theirs` belongs to this job.
    pub fn difference(&self, theirs: &JobIdentity) -> Option<String> {
        if self.build != theirs.build {
            return Some(message::CHECKPOINT_OF_OTHER_BUILD.into());
        }
        if self.workers != theirs.workers {
            let (had, has) = (theirs.workers, self.workers);
            return Some(message::checkpoint_of_other_size(had, has).to_string());
        }
        if self.mpi != theirs.mpi {
            return Some(message::checkpoint_of_other_mpi(&theirs.mpi).to_string());
        }
        if self.arguments != theirs.arguments {
            let text: Vec<_> = theirs
                .arguments
                .iter()
                .map(|text| String::from_utf8_lossy(text))
                .collect();
            return Some(message::checkpoint_of_other_arguments(text.join(" ")).to_string());
        }
        let differs = self
            .layout
            .iter()
            .zip(&theirs.layout)
            .find(|(ours, theirs)| ours != theirs);
        let what = match differs {
            Some((ours, theirs)) if ours.0 == theirs.0 => ours.0.clone(),
            Some((ours, theirs)) => format!("{} instead of {}", ours.0, theirs.0),
            None if self.layout.len() != theirs.layout.len() => {
                "the number of loaded libraries".into()
            }
            None => return None,
        };
        Some(message::checkpoint_of_other_program(what, &theirs.program).to_string())
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
