//! What `understudy run` writes beside the event files: the command as it was given, and how the
//! job ended.

use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;
use understudy_formats::private::{create_anew, open_regular};

/// Name of the file.
const FILE: &str = "run.json";

/// A run. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// The words of the command, `understudy run …`.
    pub command: Vec<String>,
    /// The host that the launcher ran on.
    pub host: String,
    pub started_ns: u64,
    /// Missing while the job runs, and if `understudy run` was killed.
    pub ended_ns: Option<u64>,
    /// The exit status of `understudy run`.
    pub status: Option<u8>,
    /// The signal by which the user, or the batch system, has ended the job.
    pub signal: Option<i32>,
}

impl RunRecord {
    /// Writes the record, in place of an earlier one. A command line may hold what only its user is
    /// to read: mode 0600.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        create_anew(&dir.join(FILE))?.write_all(&serde_json::to_vec_pretty(self)?)
    }

    /// The record of the job whose event files lie there and begin at `began_ns`; a job that was
    /// started by other means has none.
    pub fn of_job(dir: &Path, began_ns: u64) -> Option<Self> {
        let record: Self = serde_json::from_reader(open_regular(&dir.join(FILE)).ok()?).ok()?;
        let is_its = (record.started_ns..=record.ended_ns.unwrap_or(u64::MAX)).contains(&began_ns);
        is_its.then_some(record)
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

    /// The umask of most users lets others read; so did the file of an earlier version.
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
