//! Warnings of expected failures by sources outside of a job.
//!
//! Sources are a hook of the batch system, a monitor, or the user (`understudy warn`). A warning is
//! a file with words: `mtbf=10m` (mean time between failures from now on), `checkpoint` (a
//! checkpoint is requested now). It takes effect once each time it is written. A job reads the file
//! named by `UNDERSTUDY_WARNINGS`, or else one in its directory in memory, on each of its nodes. A
//! warning read by one process applies to all.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length of a warning in bytes.
const LONGEST: u64 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warning {
    /// Mean time between failures from now on.
    pub mtbf: Option<Duration>,
    /// True if a checkpoint is requested now.
    pub checkpoint: bool,
}

/// Content of a file and its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    pub warning: Warning,
    /// Time since the file was written, by the clock of the file's host.
    pub age: Duration,
}

impl Warning {
    /// Parses the words of a file.
    ///
    /// # Errors
    /// The invalid word.
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

    /// Formats the words of the file.
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

/// Returns the warning file of the job with this directory in memory.
pub fn file_in(directory: &Path) -> PathBuf {
    directory.join("warning")
}

/// Writes a warning for a job, atomically, because a partial one is invalid.
///
/// # Errors
/// Errors of the file system.
pub fn write(file: &Path, warning: &Warning) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, warning.text())?;
    fs::rename(&new, file)
}

/// Detector of new warnings.
#[derive(Debug, Default)]
pub struct Watch {
    /// Device, inode and modification time of the last file that was read.
    seen: Option<(u64, u64, i64, i64)>,
}

impl Watch {
    /// State before the first read.
    pub const NEW: Watch = Watch { seen: None };

    /// Returns the warning in the file if it is new.
    ///
    /// # Errors
    /// The reason why the file cannot be read or parsed; returned once for each time it was
    /// written.
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
