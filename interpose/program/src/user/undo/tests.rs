//! Tests of the log, and tools of the tests of undoing.

use super::apply;
use super::caller::follow_link;
use super::file_call::{FileCall, exchange};
use super::log_location::{LOCK, LogLocation};
use super::recorder::Recorder;
use super::undo_log::REWRITTEN;
use super::undo_log::{Effect, FileId, LogLine, Record, UndoLog};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use understudy_numbers::{Epoch, ProcessNumber};

mod random_calls;
mod strangers;

/// Directory that is removed when the value is dropped.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new(name: &str) -> TemporaryDirectory {
        let path =
            std::env::temp_dir().join(format!("understudy-undo-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for part in ["files", "memory"] {
            fs::create_dir_all(path.join(part)).unwrap();
        }
        TemporaryDirectory(path.canonicalize().unwrap())
    }

    fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    fn log(&self, rank: u32) -> PathBuf {
        self.0.join(format!("memory/{rank}.undo"))
    }

    fn recorder(&self, rank: u32) -> Recorder {
        Recorder::new(
            self.log(rank),
            &self.0.join("memory"),
            "job",
            &ProcessNumber(rank),
        )
    }

    fn undo(&self, ranks: u32, section: u64) {
        self.try_undo(ranks, section).unwrap();
    }

    fn try_undo(&self, ranks: u32, section: u64) -> Result<(), apply::UndoError> {
        let logs = (0..ranks).filter_map(|rank| UndoLog::open(&self.log(rank)).unwrap());
        apply::undo(&mut logs.collect::<Vec<_>>(), Epoch(section))
    }

    /// Lists all backups.
    fn backups(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = tree(&self.files()).into_keys().collect();
        all.extend(tree(&self.0.join("memory")).into_keys());
        all.into_iter().filter(|path| is_hidden(path)).collect()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .unwrap()
        .to_string_lossy()
        .starts_with(".understudy")
}

/// Lists all entries below a directory: content or link target, `None` for directories.
fn tree(top: &Path) -> Tree {
    let mut found = Tree::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(tree(&path));
        }
        let content = if kind.is_dir() {
            None
        } else if kind.is_symlink() {
            Some(
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            )
        } else {
            Some(fs::read(&path).unwrap())
        };
        found.insert(path, content);
    }
    found
}

fn created(section: u64, name: &str) -> Record {
    let effect = Effect::Created { path: name.into() };
    Record::new(Epoch(section), section, effect)
}

#[test]
fn a_log_is_read_as_it_was_written_and_a_torn_tail_is_left_out() {
    let room = TemporaryDirectory::new("torn");
    let path = room.log(0);
    let mut log = UndoLog::create(&path).unwrap();
    let records = [
        created(1, "a"),
        created(1, "b"),
        created(2, "a longer name"),
    ];
    let mut ends = vec![fs::metadata(&path).unwrap().len()];
    for record in &records {
        log.append(LogLine::Record(record.clone())).unwrap();
        ends.push(fs::metadata(&path).unwrap().len());
    }
    let bytes = fs::read(&path).unwrap();
    for length in ends[0]..=bytes.len() as u64 {
        fs::write(&path, &bytes[..length as usize]).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        let read = UndoLog::open(&path).unwrap().unwrap();
        assert!(read.records().eq(&records[..whole]), "{length} bytes");
    }
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, damaged).unwrap();
    assert!(
        UndoLog::open(&path)
            .unwrap()
            .unwrap()
            .records()
            .eq(&records[..2])
    );
}

#[test]
fn sections_are_forgotten_and_what_follows_stays() {
    let room = TemporaryDirectory::new("sections");
    let mut log = UndoLog::create(&room.log(0)).unwrap();
    for section in 1..=4 {
        log.append(LogLine::Record(created(section, "x"))).unwrap();
    }
    log.forget_before(Epoch(3)).unwrap();
    log.append(LogLine::Record(created(5, "y"))).unwrap();
    let read = UndoLog::open(&room.log(0)).unwrap().unwrap();
    assert!(!read.is_abandoned());
    assert!(
        read.records()
            .map(|record| record.section)
            .eq([3, 4, 5].map(Epoch))
    );
    log.forget_before(Epoch(9)).unwrap();
    assert_eq!(
        UndoLog::open(&room.log(0))
            .unwrap()
            .unwrap()
            .records()
            .count(),
        0
    );
    log.unlock();
    let left = UndoLog::open(&room.log(0)).unwrap().unwrap();
    assert!(left.is_abandoned());
    left.unlock();
    // The next process of that rank creates a new log.
    assert_eq!(UndoLog::create(&room.log(0)).unwrap().records().count(), 0);
}

#[test]
fn a_file_that_is_no_log_is_left_alone() {
    let room = TemporaryDirectory::new("foreign");
    fs::write(room.log(0), "something else").unwrap();
    assert!(UndoLog::open(&room.log(0)).unwrap().is_none());
    assert!(UndoLog::create(&room.log(0)).is_err());
    symlink(room.log(0), room.log(1)).unwrap();
    assert!(UndoLog::open(&room.log(1)).is_err());
}

#[test]
fn another_file_of_the_same_name_is_not_cut() {
    let room = TemporaryDirectory::new("identity");
    let (path, other) = (room.files().join("a"), room.files().join("b"));
    fs::write(&path, "twelve bytes").unwrap();
    fs::write(&other, "b").unwrap();
    let mut log = UndoLog::create(&room.log(0)).unwrap();
    let id = FileId::from_metadata(&fs::metadata(&other).unwrap());
    let effect = Effect::Grown {
        path: path.clone(),
        id,
        size: 3,
    };
    log.append(LogLine::Record(Record::new(Epoch(1), 1, effect)))
        .unwrap();
    room.undo(1, 1);
    assert_eq!(fs::read(path).unwrap(), b"twelve bytes");
}

/// Incomplete logs, rewritten logs and locks of failed processes are removed.
///
/// A file that a living process has locked stays until no rollback is possible.
#[test]
fn incomplete_files_of_failed_processes_are_removed() {
    let room = TemporaryDirectory::new("halves");
    let directory = room.0.join("memory");
    let place = LogLocation::Disk {
        directory: directory.clone(),
        lineage: "lineage".into(),
        start: 1,
    };
    let log = place.log_of(ProcessNumber(0));
    fs::write(&log, "under").unwrap();
    for extension in [REWRITTEN, LOCK] {
        fs::write(log.with_extension(extension), "").unwrap();
    }
    let held = fs::File::create(place.log_of(ProcessNumber(1)).with_extension(REWRITTEN)).unwrap();
    held.lock().unwrap();
    place.clean(false);
    let left: Vec<PathBuf> = tree(&directory).into_keys().collect();
    assert_eq!(
        left,
        [place.log_of(ProcessNumber(1)).with_extension(REWRITTEN)]
    );
    place.clean(true);
    assert!(tree(&directory).is_empty());
}

/// A backup is moved out of a removed directory, and then its section is discarded.
///
/// The undo of the later section makes the directory again, and no backup is left.
#[test]
fn a_backup_that_was_moved_is_found_when_it_is_forgotten() {
    let room = TemporaryDirectory::new("moved");
    let top = room.files();
    let file = top.join("d/f/a");
    fs::create_dir_all(top.join("d/f")).unwrap();
    fs::write(&file, "old").unwrap();
    let mut rank = room.recorder(0);
    let remove = |path: &Path| FileCall::Remove {
        path: path.to_owned(),
        files: true,
        directories: true,
    };
    rank.begin(Epoch(1));
    rank.record_call(&remove(&file)).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(room.backups().len(), 1);
    rank.begin(Epoch(2));
    // The backup is moved twice, and its directory is renamed in between.
    rank.record_call(&remove(&top.join("d/f"))).unwrap();
    fs::remove_dir(top.join("d/f")).unwrap();
    let (from, to) = (top.join("d"), top.join("e"));
    let rename = FileCall::Rename {
        from: from.clone(),
        to: to.clone(),
        flags: 0,
    };
    rank.record_call(&rename).unwrap();
    fs::rename(&from, &to).unwrap();
    rank.record_call(&remove(&to)).unwrap();
    fs::remove_dir(&to).unwrap();
    assert_eq!(room.backups().len(), 1);
    rank.forget_before(Epoch(2)).unwrap();
    room.undo(1, 2);
    rank.resume(Epoch(2)).unwrap();
    assert!(top.join("d/f").is_dir() && !file.exists());
    rank.end().unwrap();
    assert_eq!(room.backups(), Vec::<PathBuf>::new());
}

/// A new file and an old directory exchange their names; the file is removed.
///
/// The removal is not recorded, because the file is new. The undo gives the directory its old name.
#[test]
fn an_exchange_is_undone_after_one_name_was_removed() {
    let room = TemporaryDirectory::new("exchange");
    let (old, new) = (room.files().join("old"), room.files().join("new"));
    fs::create_dir(&old).unwrap();
    fs::write(old.join("file"), "old").unwrap();
    let mut log = UndoLog::create(&room.log(0)).unwrap();
    let mut write = |time, effect| {
        log.append(LogLine::Record(Record::new(Epoch(1), time, effect)))
            .unwrap();
    };
    write(1, Effect::Created { path: new.clone() });
    fs::write(&new, "new").unwrap();
    let id = FileId::from_metadata(&fs::metadata(&new).unwrap());
    let (from, to) = (new.clone(), old.clone());
    write(2, Effect::Exchanged { from, to, id });
    exchange(&new, &old).unwrap();
    fs::remove_file(&old).unwrap();
    room.undo(1, 1);
    assert_eq!(fs::read(old.join("file")).unwrap(), b"old");
    assert!(!new.exists());
}
