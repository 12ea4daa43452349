//! Tests with other processes that move, remove and exchange files or backups of a job.

use super::*;
use std::os::unix::fs::DirBuilderExt;

const TRUNCATING_FLAGS: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

fn opening(path: &Path, flags: i32) -> FileCall {
    FileCall::Open {
        path: path.to_owned(),
        flags,
    }
}

fn removing(path: &Path) -> FileCall {
    FileCall::Remove {
        path: path.to_owned(),
        files: true,
        directories: true,
    }
}

/// Waits for the next tick of the clock of file systems.
fn wait_for_tick() {
    std::thread::sleep(std::time::Duration::from_millis(12));
}

/// Opens a file with truncation as a rank, and writes it.
fn write(rank: &mut Recorder, path: &Path, content: impl AsRef<[u8]>) {
    rank.record_call(&opening(path, TRUNCATING_FLAGS)).unwrap();
    fs::write(path, content).unwrap();
    rank.name_created().unwrap();
}

fn remove(rank: &mut Recorder, path: &Path) {
    rank.record_call(&removing(path)).unwrap();
    fs::remove_file(path).unwrap();
}

/// Asserts that the undo fails at this file, with a message that contains `why`.
#[track_caller]
fn assert_fails(room: &TemporaryDirectory, path: &Path, why: &str) {
    let failed = room.try_undo(1, 1).expect_err("not undone");
    assert_eq!(failed.path, path);
    let error = failed.error.to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_file_in_the_place_of_a_new_one_stays() {
    for is_moved in [true, false] {
        let room = TemporaryDirectory::new(&format!("replaced-{is_moved}"));
        let data = room.files().join("data");
        let mut rank = room.recorder(0);
        rank.begin(Epoch(1));
        write(&mut rank, &data, "the job's");
        match is_moved {
            true => fs::rename(&data, room.files().join("moved")).unwrap(),
            // The file that is created next may have the inode of the removed file.
            false => fs::remove_file(&data).unwrap(),
        }
        wait_for_tick();
        fs::write(&data, "others'").unwrap();
        assert_fails(&room, &data, "another file has its name");
        assert_eq!(fs::read(&data).unwrap(), b"others'");
        rank.end().unwrap();
    }
}

#[test]
fn a_name_that_the_job_has_given_up_is_of_no_interest() {
    let room = TemporaryDirectory::new("given-up");
    let [lock, failed] = ["lock", "failed"].map(|name| room.files().join(name));
    let mut rank = room.recorder(0);
    rank.begin(Epoch(1));
    wait_for_tick();
    write(&mut rank, &lock, "");
    remove(&mut rank, &lock);
    // This call fails.
    rank.record_call(&opening(&failed, TRUNCATING_FLAGS))
        .unwrap();
    rank.name_created().unwrap();
    for path in [&lock, &failed] {
        fs::write(path, "others'").unwrap();
    }
    room.undo(1, 1);
    for path in [&lock, &failed] {
        assert_eq!(fs::read(path).unwrap(), b"others'");
    }
    rank.end().unwrap();
}

/// An undo is interrupted, and the repeated undo still has earlier outcomes.
///
/// The first undo has undone records that follow the creation of a removed file.
#[test]
fn an_interrupted_undo_keeps_outcomes_of_earlier_records() {
    let room = TemporaryDirectory::new("interrupted");
    let [lock, second, third] = ["lock", "second", "third"].map(|name| room.files().join(name));
    let mut rank = room.recorder(0);
    rank.begin(Epoch(1));
    wait_for_tick();
    for path in [&lock, &second, &third] {
        write(&mut rank, path, "the job's");
    }
    remove(&mut rank, &lock);
    wait_for_tick();
    fs::write(&lock, "others'").unwrap();
    for (path, left) in [(&third, 2), (&second, 1)] {
        // The rank has failed in a write of its log.
        let mut file = OpenOptions::new().append(true).open(room.log(0)).unwrap();
        file.write_all(b"incomplete").unwrap();
        let mut log = UndoLog::open(&room.log(0)).unwrap().unwrap();
        fs::remove_file(path).unwrap();
        log.pop().unwrap();
        let log = UndoLog::open(&room.log(0)).unwrap().unwrap();
        assert_eq!(log.records().count(), left);
        assert!(log.outcome_of(&lock).unwrap().is_nothing());
    }
    room.undo(1, 1);
    assert_eq!(fs::read(&lock).unwrap(), b"others'");
    assert_eq!(tree(&room.files()).len(), 1);
    let log = UndoLog::open(&room.log(0)).unwrap().unwrap();
    assert_eq!(log.records().count(), 0);
    rank.end().unwrap();
}

#[test]
fn a_file_in_the_place_of_an_old_one_stays() {
    let room = TemporaryDirectory::new("old");
    let [removed, changed] = ["removed", "changed"].map(|name| room.files().join(name));
    for path in [&removed, &changed] {
        fs::write(path, "old").unwrap();
        let mut rank = room.recorder(0);
        rank.begin(Epoch(1));
        match path == &removed {
            true => remove(&mut rank, path),
            false => {
                write(&mut rank, path, "new");
                fs::remove_file(path).unwrap();
            }
        }
        wait_for_tick();
        fs::write(path.with_extension("other"), "others'").unwrap();
        fs::rename(path.with_extension("other"), path).unwrap();
        assert_fails(&room, path, "another file has its name");
        assert_eq!(fs::read(path).unwrap(), b"others'");
        rank.end().unwrap();
    }
}

/// Another user replaces a directory by a link to a private directory: the undo fails.
///
/// The private directory stays unchanged, and the undo succeeds with the recorded directory.
#[test]
fn nothing_is_undone_through_a_directory_that_was_exchanged() {
    type Act = fn(&mut Recorder, &Path);
    let acts: [(&str, Act); 4] = [
        ("new", |rank, path| write(rank, path, "new")),
        ("changed", |rank, path| write(rank, path, "changed")),
        ("removed", remove),
        ("renamed", |rank, path| {
            let to = path.with_extension("renamed");
            rank.record_call(&FileCall::Rename {
                from: path.to_owned(),
                to: to.clone(),
                flags: 0,
            })
            .unwrap();
            fs::rename(path, to).unwrap();
        }),
    ];
    for (name, act) in acts {
        let room = TemporaryDirectory::new(&format!("exchanged-{name}"));
        let [sub, away, private] = ["sub", "away", "private"].map(|it| room.files().join(it));
        fs::create_dir(&sub).unwrap();
        fs::DirBuilder::new().mode(0o700).create(&private).unwrap();
        let data = sub.join("data");
        if name != "new" {
            fs::write(&data, "old").unwrap();
        }
        let mut rank = room.recorder(0);
        rank.begin(Epoch(1));
        act(&mut rank, &data);
        fs::write(private.join("data"), "private").unwrap();
        fs::rename(&sub, &away).unwrap();
        symlink(&private, &sub).unwrap();
        let before = tree(&private);
        assert_fails(&room, &data, "another directory");
        assert_eq!(tree(&private), before, "{name}");
        // The undo succeeds if the recorded directory has another name, and a link with the former
        // name leads to this directory.
        fs::remove_file(&sub).unwrap();
        symlink(&away, &sub).unwrap();
        room.undo(1, 1);
        let found = fs::read(away.join("data")).ok();
        assert_eq!(found.as_deref(), (name != "new").then_some(&b"old"[..]));
        rank.end().unwrap();
    }
}

/// Destroys the content of a file; the recorder creates a hidden backup beside the file.
fn destroy(which: &str, rank: &mut Recorder, path: &Path) {
    match which {
        "removed" => remove(rank, path),
        "truncated" => write(rank, path, "new"),
        _ => {
            rank.record_call(&opening(path, libc::O_RDWR)).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(path);
            let file = file.unwrap();
            let length = 100 << 10;
            rank.overwrite_open(file.as_raw_fd(), (0, length), false)
                .unwrap();
            file.write_all_at(&vec![b'n'; length as usize], 0).unwrap();
        }
    }
}

#[test]
fn a_missing_backup_is_reported() {
    for which in ["removed", "truncated", "overwritten"] {
        for is_exchanged in [false, true] {
            let room = TemporaryDirectory::new(&format!("backup-{which}-{is_exchanged}"));
            let data = room.files().join("data");
            fs::write(&data, vec![b'o'; 100 << 10]).unwrap();
            let mut rank = room.recorder(0);
            rank.begin(Epoch(1));
            destroy(which, &mut rank, &data);
            let backups = room.backups();
            assert_eq!(backups.len(), 1, "{which}");
            fs::remove_file(&backups[0]).unwrap();
            if is_exchanged {
                wait_for_tick();
                fs::write(&backups[0], vec![b'x'; 100 << 10]).unwrap();
            }
            let then = fs::read(&data).ok();
            assert_fails(&room, &data, "has been moved, removed or exchanged");
            assert_eq!(fs::read(&data).ok(), then, "{which}");
            rank.end().unwrap();
        }
    }
}

/// A rank fails before its backup is complete: the file keeps its content.
#[test]
fn a_backup_that_was_never_complete_is_not_missed() {
    let room = TemporaryDirectory::new("incomplete");
    let data = room.files().join("data");
    fs::write(&data, vec![b'o'; 100 << 10]).unwrap();
    let mut log = UndoLog::create(&room.log(0)).unwrap();
    let (path, backup) = (data.clone(), room.files().join(".understudy-job-0-1"));
    let id = FileId::from_metadata(&fs::metadata(&data).unwrap());
    for effect in [
        Effect::Changed {
            path: path.clone(),
            id,
            size: 100 << 10,
            backup: backup.clone(),
        },
        Effect::Removed {
            path: path.clone(),
            id,
            backup: backup.clone(),
        },
    ] {
        log.append(LogLine::Record(Record::new(Epoch(1), 1, effect)))
            .unwrap();
    }
    room.undo(1, 1);
    assert_eq!(fs::read(&data).unwrap(), vec![b'o'; 100 << 10]);
}

/// Outcomes stay with their records when a log is rewritten.
#[test]
fn outcomes_outlive_sections_that_are_forgotten() {
    let room = TemporaryDirectory::new("outcomes");
    let data = room.files().join("data");
    let mut rank = room.recorder(0);
    rank.begin(Epoch(1));
    write(&mut rank, &room.files().join("first"), "");
    rank.begin(Epoch(2));
    write(&mut rank, &data, "the job's");
    rank.forget_before(Epoch(2)).unwrap();
    let log = UndoLog::open(&room.log(0)).unwrap().unwrap();
    let outcomes: Vec<_> = log
        .logged_records()
        .map(|it| it.outcome.map(|it| it.id))
        .collect();
    assert_eq!(
        outcomes,
        [Some(FileId::from_metadata(&fs::metadata(&data).unwrap()))]
    );
    rank.end().unwrap();
}
