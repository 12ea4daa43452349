//! What somebody outside of a job has to say about failures to come: a batch system's hook, a
//! monitor, its user (`understudy warn`).
//!
//! It is a file with words: `mtbf=10m` (from now on a failure is expected that often), `checkpoint`
//! (one is wanted now). It counts once, each time it is written. A job reads the file that
//! `UNDERSTUDY_WARNINGS` names, or else one in its directory in memory, on each of its nodes; what
//! one process has read counts for all.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No warning is longer, in bytes.
const LONGEST: u64 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warning {
    /// The mean time between failures from now on.
    pub mtbf: Option<Duration>,
    /// A checkpoint is wanted now.
    pub checkpoint: bool,
}

/// What a file says, and for how long it has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    pub warning: Warning,
    /// Since it was written, by the clock of whoever keeps the file.
    pub age: Duration,
}

impl Warning {
    /// Reads the words of a file.
    ///
    /// # Errors
    /// The word that makes no sense.
    pub fn parse(text: &str) -> Result<Warning, String> {
        let mut warning = Warning::default();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                None if word == "checkpoint" => warning.checkpoint = true,
                Some(("mtbf", time)) => {
                    let time = crate::advice::duration(time);
                    warning.mtbf =
                        Some(time.ok_or_else(|| format!("`{word}` names no time (`mtbf=10m`)"))?);
                }
                _ => return Err(format!("`{word}` is neither `checkpoint` nor `mtbf=TIME`")),
            }
        }
        Ok(warning)
    }

    /// The words of the file.
    pub fn text(&self) -> String {
        let mtbf = self
            .mtbf
            .map(|mtbf| format!("mtbf={}ms", mtbf.as_millis().max(1)));
        let words = mtbf
            .into_iter()
            .chain(self.checkpoint.then(|| "checkpoint".to_owned()));
        words.collect::<Vec<_>>().join(" ") + "\n"
    }
}

/// The file of a job that has this directory in memory.
pub fn file_in(directory: &Path) -> PathBuf {
    directory.join("warning")
}

/// Writes a warning where a job looks for it: at once, as half of one makes no sense.
///
/// # Errors
/// Those of the file system.
pub fn write(file: &Path, warning: &Warning) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, warning.text())?;
    fs::rename(&new, file)
}

/// Looks whether there is something new.
#[derive(Debug, Default)]
pub struct Watch {
    /// Device, inode and time of the last change of what was read.
    seen: Option<(u64, u64, i64, i64)>,
}

impl Watch {
    /// Nothing was read yet.
    pub const NEW: Watch = Watch { seen: None };

    /// What is new in the file, if it is there and says anything new.
    ///
    /// # Errors
    /// Why it cannot be read or understood; once for each time that it was written.
    pub fn look(&mut self, path: &Path) -> Result<Option<News>, String> {
        let Ok(found) = fs::metadata(path) else {
            return Ok(None);
        };
        let version = (found.dev(), found.ino(), found.mtime(), found.mtime_nsec());
        if self.seen.replace(version) == Some(version) {
            return Ok(None);
        }
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
            .map_err(|error| error.to_string())?;
        let warning = Warning::parse(&text)?;
        let age = found
            .modified()
            .ok()
            .and_then(|written| written.elapsed().ok());
        let age = age.unwrap_or_default();
        Ok(Some(News { warning, age }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        let warning = Warning {
            mtbf: Some(Duration::from_secs(600)),
            checkpoint: true,
        };
        assert_eq!(Warning::parse("checkpoint\n mtbf=10m"), Ok(warning));
        assert_eq!(Warning::parse(&warning.text()), Ok(warning));
        assert_eq!(Warning::parse(""), Ok(Warning::default()));
        for wrong in ["mtbf=often", "soon", "mtbf", "checkpoint=now"] {
            assert!(
                Warning::parse(wrong).is_err_and(|why| why.contains(wrong)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_warning_counts_once_each_time_that_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file_in(directory.path());
        let mut watch = Watch::NEW;
        assert_eq!(watch.look(&file), Ok(None));
        let now = Warning {
            checkpoint: true,
            ..Warning::default()
        };
        for _ in 0..2 {
            write(&file, &now).expect("it is written");
            let news = watch.look(&file).map(|news| news.map(|news| news.warning));
            assert_eq!(news, Ok(Some(now)));
            assert_eq!(watch.look(&file), Ok(None));
        }
        fs::write(&file, "nonsense, which is longer").expect("it is written");
        assert!(watch.look(&file).is_err());
        assert_eq!(watch.look(&file), Ok(None));
    }
}
