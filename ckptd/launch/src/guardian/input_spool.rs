//! Input that was read from the launcher and may be needed again.

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, ftruncate, memfd_create, open,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Least number of bytes that are released at once.
const MIN_RELEASE_BYTES: u64 = 1 << 20;

/// Greatest number of bytes that are kept, because TMPDIR or memory may be small.
const MAX_KEPT_BYTES: u64 = 1 << 30;

/// The input between two positions, in a file without a name.
pub struct Spool {
    /// `None` after a write has failed.
    file: Option<File>,
    /// Position of the first byte that is kept.
    kept: u64,
    /// Position that follows the last byte received.
    end: u64,
}

impl Spool {
    /// Creates an empty spool in `directory`, or in memory where this is impossible.
    ///
    /// # Errors
    /// Errors of memfd_create(2).
    pub fn new(directory: &Path) -> io::Result<Spool> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(directory, flags, Mode::RUSR | Mode::WUSR)
            .or_else(|_| memfd_create("understudy-input", MemfdFlags::CLOEXEC))?;
        Ok(Spool {
            file: Some(file.into()),
            kept: 0,
            end: 0,
        })
    }

    pub fn kept(&self) -> u64 {
        self.kept
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends input that was received.
    ///
    /// After a failure the spool is empty; the error is returned once.
    ///
    /// # Errors
    /// Errors of pwrite(2); an error if more than [`MAX_KEPT_BYTES`] bytes would be kept.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = self.end;
        self.end += bytes.len() as u64;
        let Some(file) = &self.file else {
            self.kept = self.end;
            return Ok(());
        };
        let written = match self.end - self.kept {
            kept if kept > MAX_KEPT_BYTES => Err(io::Error::other(
                "more than 1 GiB was read since the last checkpoint",
            )),
            _ => file.write_all_at(bytes, at),
        };
        if written.is_err() {
            let _ = ftruncate(file, 0);
            self.file = None;
            self.kept = self.end;
        }
        written
    }

    /// Reads the input from `position` on.
    ///
    /// # Errors
    /// Errors of pread(2); `InvalidInput` if `position` is not kept.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let is_kept = (self.kept..self.end).contains(&position);
        let file = self.file.as_ref().filter(|_| is_kept);
        file.ok_or(io::ErrorKind::InvalidInput)?
            .read_at(bytes, position)
    }

    /// Releases the input before `position`, at least [`MIN_RELEASE_BYTES`] at once.
    pub fn release(&mut self, position: u64) {
        let position = position.min(self.end);
        if position < self.kept + MIN_RELEASE_BYTES {
            return;
        }
        if let Some(file) = &self.file {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // If this fails, the file only occupies more space.
            let _ = fallocate(file, flags, self.kept, position - self.kept);
        }
        self.kept = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_kept_until_it_is_released() {
        let mut spool = Spool::new(&std::env::temp_dir()).expect("a spool");
        let bytes: Vec<u8> = (0..3u32 << 20).map(|at| (at % 251) as u8).collect();
        spool.append(&bytes[..1000]).expect("room");
        spool.append(&bytes[1000..]).expect("room");
        let mut read = [0; 100];
        assert_eq!(spool.read_at(950, &mut read).expect("kept"), 100);
        assert_eq!(read, bytes[950..1050]);
        spool.release(2 << 20);
        assert!(spool.read_at(950, &mut read).is_err());
        assert_eq!(spool.read_at(2 << 20, &mut read).expect("kept"), 100);
        assert_eq!(read, bytes[2 << 20..][..100]);
        assert!(spool.read_at(spool.end(), &mut read).is_err());
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let mut spool = Spool::new(&std::env::temp_dir()).expect("a spool");
        spool.append(b"abc").expect("room");
        spool.end += MAX_KEPT_BYTES;
        assert!(spool.append(b"def").is_err());
        assert_eq!(spool.kept(), spool.end());
    }

    #[test]
    fn nothing_is_kept_after_a_write_has_failed() {
        let mut spool = Spool::new(Path::new("/")).expect("a spool");
        spool.file = Some(File::open("/dev/null").expect("a file that is only read"));
        assert!(spool.append(b"abc").is_err());
        assert!(spool.append(b"def").is_ok());
        assert_eq!((spool.kept(), spool.end()), (6, 6));
    }
}
