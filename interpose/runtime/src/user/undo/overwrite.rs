//! Ranges of a file that are about to be overwritten: their old bytes are kept.
//!
//! The bytes are read before the record gets its time. So a record never holds what a rank with a later record has written, and of the
//! records of all ranks about one byte, the first one has that of the cut: in whatever order ranks write, undoing everything from the
//! latest record to the first ends there. A rank needs one record for a byte and a section.

use super::keep::SMALL;
use super::log::{Effect, Id};
use super::note::{Known, Recorder, metadata_of};
use super::ranges::Range;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

impl Recorder {
    /// Notes that these ranges of a file are about to be written, with their old bytes, which are read from `file`.
    pub fn overwrite(&mut self, path: &Path, file: &File, ranges: &[Range]) -> io::Result<()> {
        let metadata = file.metadata()?;
        let id = Id::of(&metadata);
        if !self.known.contains_key(&id) {
            self.meet(path, &metadata)?;
        }
        // Nothing of it matters, or it is at another place.
        if self.known.get(&id) != Some(&Known::Size) {
            return Ok(());
        }
        let known = self.overwritten.entry(id).or_default();
        let mut new = Vec::new();
        for &(offset, length) in ranges {
            let end = offset.saturating_add(length).min(metadata.len());
            known.add((offset, end.saturating_sub(offset)), &mut new);
        }
        let total: u64 = new.iter().map(|(_, length)| length).sum();
        if total == 0 {
            return Ok(());
        }
        let mut old = vec![0; total as usize];
        let mut rest = old.as_mut_slice();
        for &(offset, length) in &new {
            let (part, after) = rest.split_at_mut(length as usize);
            file.read_exact_at(part, offset)?;
            rest = after;
        }
        self.keep_old(path, id, new, old)
    }

    /// Looks at a file for the first time in this section: one that was made since the cut has no bytes that are to come back.
    fn meet(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let id = Id::of(metadata);
        if metadata_of(path).is_none_or(|found| Id::of(&found) != id) {
            return Ok(());
        }
        if self.is_new(path, metadata) {
            self.known.insert(id, Known::Content);
            return Ok(());
        }
        self.size(path, metadata)
    }

    fn keep_old(&mut self, path: &Path, id: Id, ranges: Vec<Range>, bytes: Vec<u8>) -> io::Result<()> {
        let path = path.to_owned();
        if bytes.len() as u64 <= SMALL {
            return self.write(Effect::Overwritten {
                path,
                id,
                ranges,
                bytes,
                backup: None,
            });
        }
        let directory = path.parent().unwrap_or(&path).to_owned();
        let record = |backup: &Path| Effect::Overwritten {
            path: path.clone(),
            id,
            ranges: ranges.clone(),
            bytes: Vec::new(),
            backup: Some(backup.to_owned()),
        };
        self.kept(&directory, record, |backup| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(backup)?.write_all(&bytes)
        })
    }
}

/// Writes old bytes back. If the rank died before the backup was whole, nothing was overwritten.
pub fn put_back(path: &Path, id: Id, ranges: &[Range], bytes: &[u8], backup: Option<&Path>) -> io::Result<()> {
    let total: u64 = ranges.iter().map(|(_, length)| length).sum();
    let kept = match backup {
        Some(backup) => match fs::read(backup) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read?,
        },
        None => bytes.to_vec(),
    };
    let is_it = metadata_of(path).is_some_and(|found| found.is_file() && Id::of(&found) == id);
    if !is_it || (kept.len() as u64) < total {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let mut rest = kept.as_slice();
    for &(offset, length) in ranges {
        let (part, after) = rest.split_at(length as usize);
        file.write_all_at(part, offset)?;
        rest = after;
    }
    Ok(())
}
