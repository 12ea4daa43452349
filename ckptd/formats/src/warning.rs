//! Warnings of expected failures by sources outside of a job.
//!
//! Sources are a hook of the batch system, a monitor of the machine, or the user (`understudy
//! warn`). A warning is a text file that contains one or both of these words:
//!
//! - `mtbf=10m`: from now on, the mean time between failures is ten minutes;
//! - `checkpoint`: a checkpoint is requested now.
//!
//! Each time the file is written, the job applies its content once. On each of its nodes the job
//! reads the file that `UNDERSTUDY_WARNINGS` names, by default the file in the job's directory in
//! memory ([`file_in`]). A warning that one process has read applies to the whole job.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length of a warning in bytes.
const MAX_WARNING_BYTES: u64 = 4096;

/// Content of a warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureWarning {
    /// Mean time between failures from now on.
    pub mtbf: Option<Duration>,
    /// True if a checkpoint is requested now.
    pub checkpoint: bool,
}

/// Warning that was not read before, and its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarningNews {
    pub warning: FailureWarning,
    /// Time since the file was written; zero if its modification time is in the future.
    pub age: Duration,
}

impl FailureWarning {
    /// Parses the words of a file.
    ///
    /// # Errors
    /// Fails with a message about the first invalid word.
    pub fn parse(text: &str) -> Result<FailureWarning, String> {
        let mut warning = FailureWarning::default();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                None if word == "checkpoint" => warning.checkpoint = true,
                Some(("mtbf", time)) => {
                    let time = crate::duration::parse_duration(time);
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

/// Writes a warning for a job, atomically, because a partial warning is invalid.
///
/// # Errors
/// Fails if the file system refuses to write or rename the file.
pub fn write(file: &Path, warning: &FailureWarning) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, warning.text())?;
    fs::rename(&new, file)
}

/// Identity and modification time of a file.
///
/// The version changes when a program writes to the file or replaces the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl FileVersion {
    fn new(metadata: &fs::Metadata) -> FileVersion {
        FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

/// Detector of new warnings.
#[derive(Debug, Default)]
pub struct WarningWatch {
    last_read: Option<FileVersion>,
}

impl WarningWatch {
    /// State before the first read.
    pub const NEW: WarningWatch = WarningWatch { last_read: None };

    /// Returns the warning in the file if it is new.
    ///
    /// # Errors
    /// Fails with the reason if the file cannot be read or parsed, once for each version of the
    /// file.
    pub fn poll(&mut self, path: &Path) -> Result<Option<WarningNews>, String> {
        let Ok(metadata) = fs::metadata(path) else {
            return Ok(None);
        };
        let version = FileVersion::new(&metadata);
        if self.last_read.replace(version) == Some(version) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_WARNING_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| error.to_string())?;
        // The first bytes alone could end in the middle of a word.
        if bytes.len() as u64 > MAX_WARNING_BYTES {
            return Err(format!("it is longer than {MAX_WARNING_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let warning = FailureWarning::parse(&text)?;
        let age = metadata
            .modified()
            .ok()
            .and_then(|written| written.elapsed().ok());
        let age = age.unwrap_or_default();
        Ok(Some(WarningNews { warning, age }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        let warning = FailureWarning {
            mtbf: Some(Duration::from_secs(600)),
            checkpoint: true,
        };
        assert_eq!(FailureWarning::parse("checkpoint\n mtbf=10m"), Ok(warning));
        assert_eq!(FailureWarning::parse(&warning.text()), Ok(warning));
        assert_eq!(FailureWarning::parse(""), Ok(FailureWarning::default()));
        for wrong in ["mtbf=often", "soon", "mtbf", "checkpoint=now"] {
            assert!(
                FailureWarning::parse(wrong).is_err_and(|why| why.contains(wrong)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_warning_counts_once_each_time_that_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file_in(directory.path());
        let mut watch = WarningWatch::NEW;
        assert_eq!(watch.poll(&file), Ok(None));
        let now = FailureWarning {
            checkpoint: true,
            ..FailureWarning::default()
        };
        for _ in 0..2 {
            write(&file, &now).expect("it is written");
            let news = watch.poll(&file).map(|news| news.map(|news| news.warning));
            assert_eq!(news, Ok(Some(now)));
            assert_eq!(watch.poll(&file), Ok(None));
        }
        fs::write(&file, "nonsense, which is longer").expect("it is written");
        assert!(watch.poll(&file).is_err());
        assert_eq!(watch.poll(&file), Ok(None));
    }
    /// The limit would make `mtbf=10m`, ten minutes, of `mtbf=10ms`.
    #[test]
    fn a_warning_that_is_too_long_is_refused_as_a_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = file_in(directory.path());
        let spaces = " ".repeat(MAX_WARNING_BYTES as usize - "mtbf=10m".len());
        for (word, is_read) in [("mtbf=10m", true), ("mtbf=10ms", false)] {
            fs::write(&file, format!("{spaces}{word}")).expect("it is written");
            let news = WarningWatch::default().poll(&file);
            assert_eq!(news.is_ok(), is_read, "{news:?}");
        }
    }
}
