//! Ranges of a file that are about to be overwritten: their old bytes are kept.
//!
//! The bytes are read before the record gets its time. So a record never holds what a rank with a later record has written, and of the
//! records of all ranks about one byte, the first one has that of the cut: in whatever order ranks write, undoing everything from the
//! latest record to the first ends there. A rank needs one record for a byte and a section.

use super::keep::{self, SMALL};
use super::log::{Effect, Id};
use super::note::{Known, Recorder, metadata_of};
use super::ranges::Range;
use std::cell::OnceCell;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

impl Recorder {
    /// Notes that these ranges of a file, which has this name now, are about to be written, with their old bytes, which are read from
    /// `file`.
    pub fn overwrite(&mut self, path: &Path, file: &File, ranges: &[Range]) -> io::Result<()> {
        let metadata = file.metadata()?;
        let id = Id::of(&metadata);
        if !self.known.contains_key(&id) {
            self.meet(path, &metadata)?;
        }
        // Nothing of it matters.
        if self.known.get(&id) != Some(&Known::Size) {
            return Ok(());
        }
        let known = self.overwritten.entry(id).or_default();
        let mut new = Vec::new();
        for &(offset, length) in ranges {
            let end = offset.saturating_add(length).min(metadata.len());
            known.add((offset, end.saturating_sub(offset)), &mut new);
        }
        match new.iter().map(|(_, length)| length).sum::<u64>() {
            0 => Ok(()),
            total if total <= SMALL => self.keep_small(path, id, file, new, total as usize),
            _ => self.keep_large(path, id, file, new),
        }
    }

    /// Looks at a file for the first time in this section: one that was made since the cut has no bytes that are to come back.
    fn meet(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        if self.is_new(path, metadata) {
            self.known.insert(Id::of(metadata), Known::Content);
            return Ok(());
        }
        self.size(path, metadata)
    }

    fn keep_small(&mut self, path: &Path, id: Id, file: &File, ranges: Vec<Range>, total: usize) -> io::Result<()> {
        let mut bytes = vec![0; total];
        let mut rest = bytes.as_mut_slice();
        for &(offset, length) in &ranges {
            let (part, after) = rest.split_at_mut(length as usize);
            file.read_exact_at(part, offset)?;
            rest = after;
        }
        let path = path.to_owned();
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes,
            backup: None,
        })
    }

    /// Copies the bytes to a backup beside the file, however many they are. It has a record of its own as long as it is not whole: otherwise it
    /// would stay for ever if the rank died meanwhile.
    fn keep_large(&mut self, path: &Path, id: Id, file: &File, ranges: Vec<Range>) -> io::Result<()> {
        let directory = path.parent().unwrap_or(path).to_owned();
        let named = OnceCell::new();
        let make = |backup: &Path| {
            let mut options = OpenOptions::new();
            let to = options.write(true).create_new(true).mode(0o600).open(backup)?;
            let mut end = 0;
            ranges.iter().try_for_each(|&(offset, length)| {
                end += length;
                keep::copy_range((file, offset), (&to, end - length), length)
            })
        };
        let record = |path: &Path| Effect::Created { path: path.to_owned() };
        let made = self.kept(&directory, record, |backup| {
            make(named.get_or_init(|| backup.to_owned()))
        });
        let backup = named.into_inner().unwrap_or_default();
        if made.is_err() {
            let _ = fs::remove_file(&backup);
            return made;
        }
        let path = path.to_owned();
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes: Vec::new(),
            backup: Some(backup),
        })
    }
}

/// Writes old bytes back.
pub fn put_back(path: &Path, id: Id, ranges: &[Range], bytes: &[u8], backup: Option<&Path>) -> io::Result<()> {
    let is_it = metadata_of(path).is_some_and(|found| found.is_file() && Id::of(&found) == id);
    if !is_it {
        return Ok(());
    }
    let kept = match backup.map(File::open) {
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        kept => kept.transpose()?,
    };
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let mut at = 0;
    for &(offset, length) in ranges {
        match &kept {
            Some(kept) => keep::copy_range((kept, at), (&file, offset), length)?,
            None => file.write_all_at(&bytes[at as usize..(at + length) as usize], offset)?,
        }
        at += length;
    }
    Ok(())
}
