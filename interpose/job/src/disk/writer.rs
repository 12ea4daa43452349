//! The thread that writes epochs beside the program.
//!
//! It never calls MPI and blocks all signals. What it reads is pinned in the store, so it stays as
//! it is while newer epochs are committed. A file appears under its name when it is whole: it is
//! written under another name, synchronised, renamed, and then its directory is synchronised.
#![allow(unsafe_code)]

use super::static_file::StaticFile;
use crate::sys;
use understudy_formats::epochs::catalogue::PART;
use understudy_formats::epochs::format::{Encoder, Head};

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use understudy_formats::private::create_anew;
use understudy_image::absent::Sums;
use understudy_image::runs::PageIndex;
use understudy_image::threads::without_signals;
use understudy_image::{PAGE_SIZE, sums};

/// What an epoch is made of.
pub struct Pages {
    pieces: Vec<Piece>,
    /// The file of static data.
    others: Option<PathBuf>,
}

/// Consecutive pages, with their checksums.
pub enum Piece {
    /// Their copies are in memory that stays as it is, one after the other.
    Kept(*const u8, Sums),
    /// They are in the file of static data.
    Absent(Sums),
}

impl Piece {
    /// The first page.
    pub fn first(&self) -> PageIndex {
        let (Piece::Kept(_, sums) | Piece::Absent(sums)) = self;
        sums.first
    }
}

// SAFETY: only read, by one thread at a time, as `Pages::new` demands.
unsafe impl Send for Pages {}

impl Pages {
    /// What is to be written.
    ///
    /// # Safety
    /// All copies must be readable, and must not change, until the outcome of its job was taken.
    pub unsafe fn new(pieces: Vec<Piece>, others: Option<PathBuf>) -> Pages {
        Pages { pieces, others }
    }

    /// Gives each page's content, unless it has been damaged since it was captured.
    fn each(&self, mut give: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut others = None;
        for piece in &self.pieces {
            match piece {
                Piece::Kept(copy, sums) => {
                    // SAFETY: readable and unchanging, as `new` demands.
                    let copy =
                        unsafe { std::slice::from_raw_parts(*copy, sums.sums.len() * PAGE_SIZE) };
                    for ((page, sum), content) in sums.each().zip(copy.chunks_exact(PAGE_SIZE)) {
                        give(checked(page, sum, content, "the copy in memory")?)?;
                    }
                }
                Piece::Absent(sums) => {
                    let file = match &others {
                        Some(file) => file,
                        None => others.insert(self.open_others()?),
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

    fn open_others(&self) -> io::Result<StaticFile> {
        let path = self.others.as_deref().ok_or(io::ErrorKind::NotFound)?;
        StaticFile::open(path).map_err(io::Error::other)
    }
}

fn checked<'a>(page: PageIndex, sum: u64, content: &'a [u8], what: &str) -> io::Result<&'a [u8]> {
    match sums::of_page(page, content) == sum {
        true => Ok(content),
        false => Err(io::Error::other(format!("{what} has a wrong checksum"))),
    }
}

/// A file to be written.
pub struct Job {
    pub directory: PathBuf,
    pub name: String,
    pub head: Head,
    pub state: Vec<u8>,
    /// The pages of `head.runs`.
    pub pages: Pages,
    /// Descriptors of the program's files that must be on the disk first: the epoch knows how long
    /// they are.
    pub files: Vec<RawFd>,
}

/// Length of a whole file in bytes.
pub type Outcome = io::Result<u64>;

pub struct Writer {
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
    stop: Arc<AtomicBool>,
    /// The program's files while an epoch is written.
    files: Option<Vec<File>>,
}

impl Writer {
    pub fn start() -> io::Result<Writer> {
        let (jobs, todo) = channel::<Job>();
        let (done, outcomes) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            sys::leave_descriptors();
            for job in todo {
                if done.send(write(&job, &stopped)).is_err() {
                    return;
                }
            }
        };
        without_signals(|| {
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

    /// Starts to write a file; `files` are kept open for it.
    pub fn submit(&mut self, job: Job, files: Vec<File>) {
        self.stop.store(false, Ordering::Relaxed);
        self.files = self.jobs.send(job).is_ok().then_some(files);
    }

    /// The outcome of the last file, once, when there is one.
    pub fn outcome(&mut self) -> Option<Outcome> {
        self.files.as_ref()?;
        let outcome = match self.outcomes.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the writing thread has ended"))
            }
        };
        self.files = None;
        Some(outcome)
    }

    /// Waits for the outcome of the file that is being written.
    pub fn wait(&mut self) -> Option<Outcome> {
        let gone = |_| Err(io::Error::other("the writing thread has ended"));
        let _files = self.files.take()?;
        Some(self.outcomes.recv().unwrap_or_else(gone))
    }

    /// Gives up the file that is being written, and waits for that: the outcome, as it may have
    /// been whole already.
    pub fn stop(&mut self) -> Option<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }
}

/// This thread has a table of its own: opens what the program's thread has under this number.
fn open_again(file: RawFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{file}");
    File::open(&path).or_else(|_| File::options().write(true).open(&path))
}

/// What the program has written gets to the disk. Files of the kernel's (/proc, /sys) have none
/// (EINVAL, fdatasync(2)).
fn sync(file: RawFd) -> io::Result<()> {
    match open_again(file)?.sync_data() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done,
    }
}

fn write(job: &Job, stop: &AtomicBool) -> Outcome {
    job.files.iter().try_for_each(|&file| sync(file))?;
    let length = write_file(job, stop)?;
    File::open(&job.directory)?.sync_all()?;
    Ok(length)
}

/// Writes the file, and removes its parts if that fails.
fn write_file(job: &Job, stop: &AtomicBool) -> Outcome {
    let part = job.directory.join(job.name.clone() + PART);
    let whole = job.directory.join(&job.name);
    let done = write_part(&part, job, stop);
    let done = done.and_then(|length| std::fs::rename(&part, whole).map(|()| length));
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn write_part(part: &Path, job: &Job, stop: &AtomicBool) -> Outcome {
    let mut encoder = Encoder::new(create_anew(part)?, &job.head, &job.state)?;
    job.pages.each(
        |page| match encoder.page(page)? && stop.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        },
    )?;
    let file = encoder.finish()?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
