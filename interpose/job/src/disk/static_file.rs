//! File of the static data of one worker, which reduced replicas omit.
//!
//! The file is written once (`UNDERSTUDY_STATIC=disk`).
//!
//! ```text
//!   magic │ version u32 │ length u32 of the head │ head │ checksum │ zeros │ pages
//! ```
//!
//! The zeros fill the page up. The file has no checksums of pages, because its readers have the
//! checksums. If the store reuses the memory of a page while the page is being written, the page in
//! the file is wrong, which the first reader of the file detects.
#![allow(unsafe_code)]

use crate::system_calls;
use bincode::config::standard;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use understudy_formats::epochs::epoch_files::{PARTIAL_SUFFIX, PREFIX, STATIC_SUFFIX};
use understudy_formats::private_directories::{create_anew, open_own};
use understudy_image::PAGE_SIZE;
use understudy_image::image_delta::Image;
use understudy_image::pages::PageRun;
use understudy_image::store::PageStore;
use understudy_image::threads::with_signals_blocked;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"USTDYSTA";
/// Version of this format, increased with every change.
const VERSION: u32 = 1;
/// Size of magic, version and length of the head, in bytes.
const PREAMBLE: usize = 16;
/// Maximum length of a head in bytes; a file with a greater number is refused.
const LONGEST_HEAD: u32 = 256 << 20;

fn ending(worker: Worker) -> String {
    format!("-w{worker:05}{STATIC_SUFFIX}")
}

/// Returns the path of a worker's file.
pub fn path(directory: &Path, lineage: u64, term: u64, worker: Worker) -> PathBuf {
    directory.join(format!(
        "{PREFIX}{lineage:016x}-{term:04}{}",
        ending(worker)
    ))
}

/// True if this is the name of a worker's file, which may be incomplete.
pub fn is_of_worker(name: &str, worker: Worker) -> bool {
    let whole = name.trim_end_matches(PARTIAL_SUFFIX);
    name.starts_with(PREFIX) && whole.ends_with(&ending(worker))
}

/// File that is being written.
pub struct StaticFileWrite(Receiver<io::Result<()>>);

impl StaticFileWrite {
    /// Returns the outcome once the thread has finished.
    pub fn outcome(&self) -> Option<io::Result<()>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other(
                "the thread that writes the file of static data has ended",
            ))),
        }
    }
}

/// Consecutive pages in the store.
struct StoredPages {
    from: *const c_void,
    length: usize,
}

// SAFETY: this process never reads the pages through the pointer, but passes it to the kernel.
unsafe impl Send for StoredPages {}

/// Starts to write an image, while the program runs.
pub fn write(path: PathBuf, image: &Image, store: &PageStore) -> io::Result<StaticFileWrite> {
    let pages: Vec<PageRun> = image.runs().iter().map(|run| run.pages).collect();
    let piece = |run: &understudy_image::image_delta::SlotRun| StoredPages {
        from: store.ptr(run.slot).cast_const().cast(),
        length: run.pages.pages as usize * PAGE_SIZE,
    };
    let pieces: Vec<StoredPages> = image.runs().iter().map(piece).collect();
    let (done, outcome) = channel();
    let work = move || {
        system_calls::separate_descriptors();
        let _ = done.send(write_all(&path, &pages, &pieces));
    };
    with_signals_blocked(|| {
        std::thread::Builder::new()
            .name("understudy-static".into())
            .spawn(work)
    })?;
    Ok(StaticFileWrite(outcome))
}

fn write_all(path: &Path, pages: &[PageRun], pieces: &[StoredPages]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(PARTIAL_SUFFIX);
    let part = PathBuf::from(part);
    let written = write_part(&part, pages, pieces).and_then(|()| {
        std::fs::rename(&part, path)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        File::open(directory)?.sync_all()
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn write_part(part: &Path, pages: &[PageRun], pieces: &[StoredPages]) -> io::Result<()> {
    let head = bincode::encode_to_vec(pages, standard()).map_err(io::Error::other)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend(head);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(PAGE_SIZE), 0);
    let mut file = create_anew(part)?;
    file.write_all(&bytes)?;
    for piece in pieces {
        let mut done = 0;
        while done < piece.length {
            // SAFETY: write(2) from the arena, which stays mapped until the process ends. The
            // kernel copies the current contents, which may already belong to another page.
            let count = unsafe {
                libc::write(
                    file.as_raw_fd(),
                    piece.from.byte_add(done),
                    piece.length - done,
                )
            };
            match count {
                -1 => return Err(io::Error::last_os_error()),
                count => done += count as usize,
            }
        }
    }
    file.sync_all()
}

/// Open file of static data.
pub struct StaticFile {
    file: File,
    /// Runs of pages, with their positions in the file.
    runs: Vec<(PageRun, u64)>,
}

impl StaticFile {
    /// Opens a file and reads its head.
    pub fn open(path: &Path) -> Result<StaticFile, String> {
        let with_path = |why: &dyn std::fmt::Display| {
            format!(
                "the file of static data {} cannot be read: {why}",
                path.display()
            )
        };
        let file = open_own(path, libc::O_RDONLY).map_err(|error| with_path(&error))?;
        let read = |length: usize| -> Result<Vec<u8>, String> {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, 0)
                .map_err(|error| with_path(&error))?;
            Ok(bytes)
        };
        let start = read(PREAMBLE)?;
        let number = |at: usize| {
            u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]])
        };
        let length = number(12);
        if &start[..8] != MAGIC || number(8) != VERSION || length > LONGEST_HEAD {
            return Err(with_path(
                &"it is not a file of static data, or it is of another version",
            ));
        }
        let all = read(PREAMBLE + length as usize + size_of::<u64>())?;
        let (content, sum) = all.split_at(PREAMBLE + length as usize);
        if xxh3_64(content).to_le_bytes() != *sum {
            return Err(with_path(
                &"its head is damaged (the checksum does not match)",
            ));
        }
        let (pages, _) =
            bincode::decode_from_slice::<Vec<PageRun>, _>(&content[PREAMBLE..], standard())
                .map_err(|error| with_path(&error))?;
        let mut at = all.len().next_multiple_of(PAGE_SIZE) as u64;
        let mut runs = Vec::with_capacity(pages.len());
        for run in pages {
            runs.push((run, at));
            at += run.pages * PAGE_SIZE as u64;
        }
        Ok(StaticFile { file, runs })
    }

    /// Reads a page, without comparing any checksum.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not contain the page.
    pub fn read(&self, page: u64, into: &mut [u8; PAGE_SIZE]) -> io::Result<()> {
        let index = self.runs.partition_point(|(run, _)| run.end() <= page);
        let found = self.runs.get(index).filter(|(run, _)| run.start.0 <= page);
        let (run, at) = found.ok_or_else(|| {
            io::Error::other(format!("the file of static data lacks page {page:#x}"))
        })?;
        self.file
            .read_exact_at(into, at + (page - run.start.0) * PAGE_SIZE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_back_and_damage_is_detected() {
        let directory =
            std::env::temp_dir().join(format!("understudy-static-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = path(&directory, 7, 1, Worker(3));
        let content: Vec<u8> = (0..3u8).flat_map(|page| [page + 1; PAGE_SIZE]).collect();
        let pages = [PageRun::between(10, 12), PageRun::between(20, 21)];
        let piece = |first: usize, count: usize| StoredPages {
            from: content[first * PAGE_SIZE..].as_ptr().cast(),
            length: count * PAGE_SIZE,
        };
        write_all(&file, &pages, &[piece(0, 2), piece(2, 1)]).unwrap();
        let opened = StaticFile::open(&file).unwrap();
        let mut page = [0; PAGE_SIZE];
        for (number, value) in [(10, 1), (11, 2), (20, 3)] {
            opened.read(number, &mut page).unwrap();
            assert_eq!(page, [value; PAGE_SIZE]);
        }
        assert!(opened.read(12, &mut page).is_err());
        assert!(opened.read(21, &mut page).is_err());
        let names: Vec<String> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let count = |worker| {
            names
                .iter()
                .filter(|name| is_of_worker(name, worker))
                .count()
        };
        assert_eq!((count(Worker(3)), count(Worker(30))), (1, 0));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[PREAMBLE] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert!(StaticFile::open(&file).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
