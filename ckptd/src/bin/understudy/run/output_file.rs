//! File of `--output`: the standard output of all workers.
//!
//! Each worker writes to a file of its own ([`WorkerOutput`]), which recoveries and restarts cut to
//! its length at the checkpoint. This file consists of pieces of those files: each byte of each
//! worker once, in the worker's order. Pieces are whole lines while the job runs.
//!
//! The pieces are collected once more from the beginning if a file of a worker was cut or replaced.
//! At the end, checksums show whether a file has changed unnoticed.

use super::failures::{cannot, usage};
use crate::outcome::Failure;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use understudy_catalogue::{exit_status, message};
use understudy_formats::worker_output::WorkerOutput;
use understudy_launch::print_message;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::Xxh3;

/// Number of workers whose files are examined at a poll.
///
/// A poll of all files of a large job would burden the file server.
const WORKERS_PER_POLL: u32 = 64;

/// Size of the buffer for copies, in bytes. Longer lines are divided.
const BUFFER_BYTES: usize = 1 << 20;

/// File that collects the output of all workers.
pub struct OutputFile {
    path: PathBuf,
    file: File,
    workers: WorkerOutput,
    /// The collected part of each worker's output.
    collected: Vec<Collected>,
    /// True once the content of an earlier start was removed.
    has_begun: bool,
    /// Worker with which the next poll begins.
    next: u32,
    /// First error; nothing is written afterwards.
    error: Option<io::Error>,
}

/// The part of a worker's output that is in the file.
#[derive(Clone, Default)]
struct Collected {
    inode: u64,
    length: u64,
    checksum: Xxh3,
}

/// Part of a worker's new output that is collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Lines,
    All,
}

impl OutputFile {
    /// Opens the file, and creates the directory for the output of the workers.
    ///
    /// The content of the file is kept until the job begins or continues.
    pub fn create(path: &Path, workers: u32) -> Result<OutputFile, Failure> {
        if path.metadata().is_ok_and(|file| !file.is_file()) {
            return Err(usage(format_args!(
                "--output: {} is not a regular file, so it cannot be cut when the job goes back \
                 to a checkpoint. Name a file, or redirect the output of `understudy run` instead.",
                path.display()
            )));
        }
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).open(path);
        let file = file.map_err(|error| cannot(refusal(path, &error)))?;
        if matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
            return Err(cannot(format!(
                "--output: another job writes {}. Name another file.",
                path.display()
            )));
        }
        let output = WorkerOutput::beside(path);
        match std::fs::create_dir(output.directory()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot(refusal(output.directory(), &error)));
            }
            _ => {}
        }
        Ok(OutputFile {
            path: path.to_owned(),
            file,
            workers: output,
            collected: vec![Collected::default(); workers as usize],
            has_begun: false,
            next: 0,
            error: None,
        })
    }

    /// Collects new lines of some of the workers.
    pub fn poll(&mut self) {
        let all = self.collected.len() as u32;
        let count = all.min(WORKERS_PER_POLL);
        let polled = (self.next..self.next + count).map(|worker| worker % all);
        self.collect_or_fail(&polled.collect::<Vec<_>>(), Part::Lines);
        self.next = (self.next + count) % all;
    }

    /// Collects the rest of the output after the end of the job.
    ///
    /// Prints what processes have written before a job began that has not begun. If the job cannot
    /// be continued (`is_over`), the files of the workers are removed. Returns the exit status if
    /// the file is incomplete.
    pub fn finish(mut self, is_over: bool) -> Option<u8> {
        let all: Vec<u32> = (0..self.collected.len() as u32).collect();
        // Without its files the output of the workers is collected again, as far as there is any.
        self.has_begun = self.is_unchanged().unwrap_or(false);
        self.collect_or_fail(&all, Part::All);
        self.print_start_files();
        let synchronised = || self.file.sync_all().err();
        let directory = self.workers.directory();
        if let Some(error) = self.error.take().or_else(synchronised) {
            let path = self.path.display();
            print_message(message::output_file_not_written(
                path,
                error,
                directory.display(),
            ));
            return Some(exit_status::STATE_NOT_SAVED as u8);
        }
        if is_over {
            for worker in all.into_iter().map(Worker) {
                let _ = std::fs::remove_file(self.workers.file(worker));
            }
            // The directory of an earlier job with more workers is left.
            let _ = std::fs::remove_dir(directory);
        }
        None
    }

    fn collect_or_fail(&mut self, workers: &[u32], part: Part) {
        if self.error.is_some() {
            return;
        }
        let collected = self.collect(workers, part);
        self.error = collected.err();
    }

    /// Collects new output of these workers.
    ///
    /// Begins again with all workers if a file was cut or replaced.
    fn collect(&mut self, workers: &[u32], part: Part) -> io::Result<()> {
        let mut files = Vec::new();
        for &worker in workers {
            let path = self.workers.file(Worker(worker));
            match File::open(path) {
                Ok(file) => files.push((worker, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut is_consistent = self.has_begun || files.is_empty();
        for (worker, file) in &files {
            let (about, collected) = (file.metadata()?, &self.collected[*worker as usize]);
            let is_same = collected.length == 0 || about.ino() == collected.inode;
            is_consistent &= is_same && about.len() >= collected.length;
        }
        if !is_consistent {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.has_begun = true;
            self.collected.fill(Collected::default());
            let all: Vec<u32> = (0..self.collected.len() as u32).collect();
            return self.collect(&all, part);
        }
        for (worker, file) in files {
            self.append(worker, file, part)?;
        }
        Ok(())
    }

    /// Appends the new output of a worker.
    fn append(&mut self, worker: u32, mut from: File, part: Part) -> io::Result<()> {
        let collected = &mut self.collected[worker as usize];
        collected.inode = from.metadata()?.ino();
        from.seek(SeekFrom::Start(collected.length))?;
        let mut buffer = Vec::new();
        loop {
            let mut chunk = (&from).take(BUFFER_BYTES as u64);
            let is_end = chunk.read_to_end(&mut buffer)? == 0;
            let last_line_end = || buffer.iter().rposition(|&byte| byte == b'\n');
            let whole = match part {
                Part::Lines if buffer.len() < BUFFER_BYTES => {
                    last_line_end().map_or(0, |last| last + 1)
                }
                _ => buffer.len(),
            };
            self.file.write_all(&buffer[..whole])?;
            collected.checksum.update(&buffer[..whole]);
            collected.length += whole as u64;
            buffer.drain(..whole);
            if is_end {
                return Ok(());
            }
        }
    }

    /// True if the files of the workers still begin with what was collected.
    fn is_unchanged(&self) -> io::Result<bool> {
        for (worker, collected) in (0..).map(Worker).zip(&self.collected) {
            if collected.length == 0 {
                continue;
            }
            let file = File::open(self.workers.file(worker))?;
            let (mut file, mut checksum) = (file.take(collected.length), Xxh3::new());
            let mut buffer = vec![0; BUFFER_BYTES];
            while let length @ 1.. = file.read(&mut buffer)? {
                checksum.update(&buffer[..length]);
            }
            if file.limit() > 0 || checksum.digest() != collected.checksum.digest() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prints the output of processes whose job has neither begun nor continued.
    fn print_start_files(&self) {
        for worker in (0..self.collected.len() as u32).map(Worker) {
            let path = self.workers.start_file(worker);
            if let Ok(text) = std::fs::read(&path) {
                let _ = io::stdout().write_all(&text);
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn refusal(path: &Path, error: &io::Error) -> String {
    format!(
        "--output: {} cannot be written: {error}. Name a file in a directory that can be written \
         to.",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the output of a worker to its file.
    fn write_output(output: &OutputFile, worker: u32, text: &str) {
        std::fs::write(output.workers.file(Worker(worker)), text).expect("writable");
    }

    #[test]
    fn the_file_equals_cut_and_changed_output() {
        let work = tempfile::tempdir().expect("there is room");
        let path = work.path().join("out.txt");
        std::fs::write(&path, "an earlier job\n").expect("writable");
        let mut output = OutputFile::create(&path, 2).expect("writable");
        let text = || std::fs::read_to_string(&path).expect("text");
        output.poll();
        assert_eq!(text(), "an earlier job\n", "no worker has begun");
        write_output(&output, 0, "a1\na2\npart");
        output.poll();
        assert_eq!(text(), "a1\na2\n", "whole lines");
        write_output(&output, 1, "b1\n");
        output.poll();
        assert_eq!(text(), "a1\na2\nb1\n");
        write_output(&output, 0, "a1\n");
        output.poll();
        assert_eq!(text(), "a1\nb1\n", "worker 0 went back");
        // Between two polls, worker 0 goes back and prints as many bytes of another text.
        write_output(&output, 0, "c1\nc2");
        assert_eq!(output.finish(true), None);
        assert_eq!(text(), "c1\nc2b1\n");
        assert!(!work.path().join("out.txt.workers").exists());
    }
}
