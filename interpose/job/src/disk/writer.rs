//! Thread that writes checkpoints while the program runs.
//!
//! The thread never calls MPI and blocks all signals. The pages that it reads are pinned in the
//! store, so they do not change while newer checkpoints are committed. A file has its final name
//! only when it is complete: it is written under another name, synchronised, and renamed, and then
//! its directory is synchronised.
#![allow(unsafe_code)]

use super::progress::set_time_to_disk;
use super::static_file::StaticFile;
use crate::system_calls;
use understudy_formats::epochs::claim::OwnerFile;
use understudy_formats::epochs::epoch_files::PARTIAL_SUFFIX;
use understudy_formats::epochs::epoch_format::{Encoder, EpochHead};

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Instant;
use understudy_formats::private_directories::create_anew;
use understudy_image::absent_pages::PageSums;
use understudy_image::pages::PageIndex;
use understudy_image::threads::with_signals_blocked;
use understudy_image::{PAGE_SIZE, sums};

/// Pages of a checkpoint.
pub struct CheckpointPages {
    pieces: Vec<PageSource>,
    /// File of static data.
    static_file: Option<PathBuf>,
}

/// Consecutive pages, with their checksums.
pub enum PageSource {
    /// Pages with contiguous copies in memory that does not change.
    Kept(*const u8, PageSums),
    /// Pages in the file of static data.
    Absent(PageSums),
}

impl PageSource {
    /// Returns the first page.
    pub fn first(&self) -> PageIndex {
        let (PageSource::Kept(_, sums) | PageSource::Absent(sums)) = self;
        sums.first
    }
}

// SAFETY: the memory is only read, and is readable and unchanging, as `CheckpointPages::new`
// requires.
unsafe impl Send for CheckpointPages {}

impl CheckpointPages {
    /// Returns the pages of these pieces.
    ///
    /// # Safety
    /// All copies must be readable and must not change until the outcome of their job has been
    /// received.
    pub unsafe fn new(pieces: Vec<PageSource>, static_file: Option<PathBuf>) -> CheckpointPages {
        CheckpointPages {
            pieces,
            static_file,
        }
    }

    /// Passes the content of each page to `give`.
    ///
    /// # Errors
    /// Fails if a page cannot be read or does not match the checksum of its capture, or if `give`
    /// fails.
    fn each(&self, mut give: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut static_file = None;
        for piece in &self.pieces {
            match piece {
                PageSource::Kept(copy, sums) => {
                    // SAFETY: readable and unchanging, as `new` requires.
                    let copy =
                        unsafe { std::slice::from_raw_parts(*copy, sums.sums.len() * PAGE_SIZE) };
                    for ((page, sum), content) in sums.each().zip(copy.chunks_exact(PAGE_SIZE)) {
                        give(checked(page, sum, content, "the replica in memory")?)?;
                    }
                }
                PageSource::Absent(sums) => {
                    let file = match &static_file {
                        Some(file) => file,
                        None => static_file.insert(self.open_static_file()?),
                    };
                    let mut content = [0; PAGE_SIZE];
                    for (page, sum) in sums.each() {
                        file.read(page.0, &mut content)?;
                        give(checked(page, sum, &content, "the file of static data")?)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn open_static_file(&self) -> io::Result<StaticFile> {
        let path = self.static_file.as_deref().ok_or(io::ErrorKind::NotFound)?;
        StaticFile::open(path).map_err(io::Error::other)
    }
}

fn checked<'a>(page: PageIndex, sum: u64, content: &'a [u8], what: &str) -> io::Result<&'a [u8]> {
    match sums::page_sum(page, content) == sum {
        true => Ok(content),
        false => Err(io::Error::other(format!("{what} has a wrong checksum"))),
    }
}

/// File to be written.
pub struct WriteJob {
    pub directory: PathBuf,
    /// Owner file of this job, without which the file gets no name.
    pub owner: OwnerFile,
    pub name: String,
    /// Time of the cut.
    pub cut: Instant,
    pub head: EpochHead,
    pub state: Vec<u8>,
    /// Pages of `head.runs`.
    pub pages: CheckpointPages,
    /// Descriptors of the program's files that must be on disk first.
    ///
    /// The checkpoint contains their lengths.
    pub files: Vec<RawFd>,
}

/// Length of a complete file in bytes.
pub type WriteOutcome = io::Result<u64>;

/// Thread that writes one file at a time.
pub struct Writer {
    jobs: Sender<WriteJob>,
    outcomes: Receiver<WriteOutcome>,
    stop: Arc<AtomicBool>,
    /// Program's files, which are kept open while a checkpoint is written.
    ///
    /// `None` while no checkpoint is written.
    files: Option<Vec<File>>,
}

impl Writer {
    pub fn start() -> io::Result<Writer> {
        let (jobs, todo) = channel::<WriteJob>();
        let (done, outcomes) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            system_calls::separate_descriptors();
            for job in todo {
                if done.send(write(&job, &stopped)).is_err() {
                    return;
                }
            }
        };
        with_signals_blocked(|| {
            std::thread::Builder::new()
                .name("understudy-disk".into())
                .spawn(work)
        })?;
        Ok(Writer {
            jobs,
            outcomes,
            stop,
            files: None,
        })
    }

    /// Starts to write a file; `files` are kept open until the outcome has been received.
    pub fn submit(&mut self, job: WriteJob, files: Vec<File>) {
        self.stop.store(false, Ordering::Relaxed);
        self.files = self.jobs.send(job).is_ok().then_some(files);
    }

    /// Returns the outcome of the last file, once, when the thread has finished it.
    pub fn outcome(&mut self) -> Option<WriteOutcome> {
        self.files.as_ref()?;
        let outcome = match self.outcomes.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(io::Error::other(
                "the thread that writes checkpoints has ended",
            )),
        };
        self.files = None;
        Some(outcome)
    }

    /// Waits for the outcome of the file that is being written.
    ///
    /// `None` if no file is being written.
    pub fn wait(&mut self) -> Option<WriteOutcome> {
        let gone = |_| {
            Err(io::Error::other(
                "the thread that writes checkpoints has ended",
            ))
        };
        let _files = self.files.take()?;
        Some(self.outcomes.recv().unwrap_or_else(gone))
    }

    /// Abandons the file that is being written, and waits for its outcome.
    ///
    /// Returns the outcome, since the file may have been complete already.
    pub fn stop(&mut self) -> Option<WriteOutcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }
}

/// Opens a file of the program by its descriptor in the main thread.
///
/// The writing thread has its own descriptor table; `/proc/self` contains the main thread's
/// descriptors.
fn reopen(file: RawFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{file}");
    File::open(&path).or_else(|_| File::options().write(true).open(&path))
}

/// Synchronises a file of the program.
///
/// Files of the kernel (/proc, /sys) do not support this (EINVAL, fdatasync(2)).
fn sync(file: RawFd) -> io::Result<()> {
    match reopen(file)?.sync_data() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done,
    }
}

fn write(job: &WriteJob, stop: &AtomicBool) -> WriteOutcome {
    job.files.iter().try_for_each(|&file| sync(file))?;
    let length = write_file(job, stop)?;
    File::open(&job.directory)?.sync_all()?;
    set_time_to_disk(job.cut.elapsed());
    Ok(length)
}

/// Fails if another job has taken over the directory.
fn check_owner(job: &WriteJob) -> io::Result<()> {
    match job.owner.is_in_place()? {
        true => Ok(()),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Writes the file; removes the incomplete file after an error.
fn write_file(job: &WriteJob, stop: &AtomicBool) -> WriteOutcome {
    let part = job.directory.join(job.name.clone() + PARTIAL_SUFFIX);
    let whole = job.directory.join(&job.name);
    let done = write_part(&part, job, stop).and_then(|length| {
        check_owner(job)?;
        std::fs::rename(&part, whole).map(|()| length)
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn write_part(part: &Path, job: &WriteJob, stop: &AtomicBool) -> WriteOutcome {
    let mut encoder = Encoder::new(create_anew(part)?, &job.head, &job.state)?;
    job.pages.each(
        |page| match encoder.write_page(page)? && stop.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        },
    )?;
    let file = encoder.finish()?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
