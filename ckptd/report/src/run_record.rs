//! The record that `understudy run` writes beside the event files.
//!
//! The record contains the command and the end of the job.

use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;
use understudy_formats::private_directories::{create_anew, open_regular};

/// Name of the file.
const FILE: &str = "run.json";

/// A run; times are in nanoseconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// Arguments of the command, `understudy run …`.
    pub command: Vec<String>,
    /// Host on which the launcher ran.
    pub host: String,
    pub started_ns: u64,
    /// `None` while the job runs, and if `understudy run` was killed.
    pub ended_ns: Option<u64>,
    /// Exit status of `understudy run`.
    pub status: Option<u8>,
    /// Signal by which the user or the batch system has ended the job.
    pub signal: Option<i32>,
}

impl RunRecord {
    /// Writes the record, in place of an earlier record.
    ///
    /// The file has mode 0600, because a command line may contain confidential data.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        create_anew(&dir.join(FILE))?.write_all(&serde_json::to_vec_pretty(self)?)
    }

    /// Returns the record of the job whose events in `dir` begin at `began_ns`.
    ///
    /// Returns `None` for a job that `understudy run` has not started, or an unreadable record.
    pub fn of_job(dir: &Path, began_ns: u64) -> Option<Self> {
        let record: Self = serde_json::from_reader(open_regular(&dir.join(FILE)).ok()?).ok()?;
        let covers_begin =
            (record.started_ns..=record.ended_ns.unwrap_or(u64::MAX)).contains(&began_ns);
        covers_begin.then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn record() -> RunRecord {
        RunRecord {
            command: vec!["understudy".into(), "run".into()],
            host: "node".into(),
            started_ns: 100,
            ended_ns: Some(200),
            status: Some(0),
            signal: None,
        }
    }

    /// A record that replaces a file of mode 0644 has mode 0600.
    ///
    /// The usual umask would let other users read a new file, too.
    #[test]
    fn a_record_is_for_its_user_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(FILE);
        std::fs::write(&file, "everybody's").expect("written");
        for _ in 0..2 {
            record().write(dir.path()).expect("written");
            assert_eq!(
                std::fs::metadata(&file).expect("there").mode() & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn a_record_belongs_to_one_job() {
        let dir = tempfile::tempdir().expect("a directory");
        let record = record();
        record.write(dir.path()).expect("written");
        assert!(RunRecord::of_job(dir.path(), 150).is_some_and(|it| it.command == record.command));
        assert!(
            RunRecord::of_job(dir.path(), 201).is_none(),
            "a later job in the same directory"
        );
        std::fs::write(dir.path().join(FILE), "{").expect("written");
        assert!(
            RunRecord::of_job(dir.path(), 150).is_none(),
            "a torn record"
        );
    }
}
