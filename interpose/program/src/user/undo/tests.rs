//! Tests of the log, and of undoing random sequences of calls.

use super::apply;
use super::caller::followed;
use super::file_call::{Call, exchange};
use super::log::RENEWED;
use super::log::{Effect, Id, Line, Log, Record};
use super::note::Recorder;
use super::place::{LOCK, Place};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use understudy_numbers::{Epoch, ProcessNumber};

mod strangers;

/// Directory that is removed when the value is dropped.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Room {
        let path =
            std::env::temp_dir().join(format!("understudy-undo-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for part in ["files", "memory"] {
            fs::create_dir_all(path.join(part)).unwrap();
        }
        Room(path.canonicalize().unwrap())
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

    fn try_undo(&self, ranks: u32, section: u64) -> Result<(), apply::Failed> {
        let logs = (0..ranks).filter_map(|rank| Log::open(&self.log(rank)).unwrap());
        apply::undo(&mut logs.collect::<Vec<_>>(), Epoch(section))
    }

    /// Lists all backups.
    fn backups(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = tree(&self.files()).into_keys().collect();
        all.extend(tree(&self.0.join("memory")).into_keys());
        all.into_iter().filter(|path| is_hidden(path)).collect()
    }
}

impl Drop for Room {
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
    let room = Room::new("torn");
    let path = room.log(0);
    let mut log = Log::create(&path).unwrap();
    let records = [
        created(1, "a"),
        created(1, "b"),
        created(2, "a longer name"),
    ];
    let mut ends = vec![fs::metadata(&path).unwrap().len()];
    for record in &records {
        log.append(Line::Record(record.clone())).unwrap();
        ends.push(fs::metadata(&path).unwrap().len());
    }
    let bytes = fs::read(&path).unwrap();
    for length in ends[0]..=bytes.len() as u64 {
        fs::write(&path, &bytes[..length as usize]).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        let read = Log::open(&path).unwrap().unwrap();
        assert!(read.records().eq(&records[..whole]), "{length} bytes");
    }
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, damaged).unwrap();
    assert!(
        Log::open(&path)
            .unwrap()
            .unwrap()
            .records()
            .eq(&records[..2])
    );
}

#[test]
fn sections_are_forgotten_and_what_follows_stays() {
    let room = Room::new("sections");
    let mut log = Log::create(&room.log(0)).unwrap();
    for section in 1..=4 {
        log.append(Line::Record(created(section, "x"))).unwrap();
    }
    log.forget_before(Epoch(3)).unwrap();
    log.append(Line::Record(created(5, "y"))).unwrap();
    let read = Log::open(&room.log(0)).unwrap().unwrap();
    assert!(!read.is_abandoned());
    assert!(
        read.records()
            .map(|record| record.section)
            .eq([3, 4, 5].map(Epoch))
    );
    log.forget_before(Epoch(9)).unwrap();
    assert_eq!(
        Log::open(&room.log(0)).unwrap().unwrap().records().count(),
        0
    );
    log.unlock();
    let left = Log::open(&room.log(0)).unwrap().unwrap();
    assert!(left.is_abandoned());
    left.unlock();
    // The next process of that rank creates a new log.
    assert_eq!(Log::create(&room.log(0)).unwrap().records().count(), 0);
}

#[test]
fn a_file_that_is_no_log_is_left_alone() {
    let room = Room::new("foreign");
    fs::write(room.log(0), "something else").unwrap();
    assert!(Log::open(&room.log(0)).unwrap().is_none());
    assert!(Log::create(&room.log(0)).is_err());
    symlink(room.log(0), room.log(1)).unwrap();
    assert!(Log::open(&room.log(1)).is_err());
}

#[test]
fn another_file_of_the_same_name_is_not_cut() {
    let room = Room::new("identity");
    let (path, other) = (room.files().join("a"), room.files().join("b"));
    fs::write(&path, "twelve bytes").unwrap();
    fs::write(&other, "b").unwrap();
    let mut log = Log::create(&room.log(0)).unwrap();
    let id = Id::of(&fs::metadata(&other).unwrap());
    let effect = Effect::Grown {
        path: path.clone(),
        id,
        size: 3,
    };
    log.append(Line::Record(Record::new(Epoch(1), 1, effect)))
        .unwrap();
    room.undo(1, 1);
    assert_eq!(fs::read(path).unwrap(), b"twelve bytes");
}

/// A process may fail while it creates its log, rewrites it, or undoes effects.
#[test]
fn what_the_dead_have_begun_is_removed() {
    let room = Room::new("halves");
    let directory = room.0.join("memory");
    let place = Place::Disk {
        directory: directory.clone(),
        lineage: "lineage".into(),
        start: 1,
    };
    let log = place.log_of(ProcessNumber(0));
    fs::write(&log, "under").unwrap();
    for extension in [RENEWED, LOCK] {
        fs::write(log.with_extension(extension), "").unwrap();
    }
    let held = fs::File::create(place.log_of(ProcessNumber(1)).with_extension(RENEWED)).unwrap();
    held.lock().unwrap();
    place.clean(false);
    let left: Vec<PathBuf> = tree(&directory).into_keys().collect();
    assert_eq!(
        left,
        [place.log_of(ProcessNumber(1)).with_extension(RENEWED)]
    );
    place.clean(true);
    assert!(tree(&directory).is_empty());
}

/// Moves a backup out of a removed directory.
///
/// Then forgets its section before the removal is undone.
#[test]
fn a_backup_that_was_moved_is_found_when_it_is_forgotten() {
    let room = Room::new("moved");
    let top = room.files();
    let file = top.join("d/f/a");
    fs::create_dir_all(top.join("d/f")).unwrap();
    fs::write(&file, "old").unwrap();
    let mut rank = room.recorder(0);
    let remove = |path: &Path| Call::Remove {
        path: path.to_owned(),
        files: true,
        directories: true,
    };
    rank.begin(Epoch(1));
    rank.note(&remove(&file)).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(room.backups().len(), 1);
    rank.begin(Epoch(2));
    // The backup is moved twice, and its directory is renamed in between.
    rank.note(&remove(&top.join("d/f"))).unwrap();
    fs::remove_dir(top.join("d/f")).unwrap();
    let (from, to) = (top.join("d"), top.join("e"));
    let rename = Call::Rename {
        from: from.clone(),
        to: to.clone(),
        flags: 0,
    };
    rank.note(&rename).unwrap();
    fs::rename(&from, &to).unwrap();
    rank.note(&remove(&to)).unwrap();
    fs::remove_dir(&to).unwrap();
    assert_eq!(room.backups().len(), 1);
    rank.forget_before(Epoch(2)).unwrap();
    room.undo(1, 2);
    rank.resume(Epoch(2)).unwrap();
    assert!(top.join("d/f").is_dir() && !file.exists());
    rank.end().unwrap();
    assert_eq!(room.backups(), Vec::<PathBuf>::new());
}

/// Exchanges two names, then removes the new file at the second one.
///
/// The removal is not recorded, because the file is new.
#[test]
fn an_exchange_is_undone_though_one_of_the_two_is_gone() {
    let room = Room::new("exchange");
    let (old, new) = (room.files().join("old"), room.files().join("new"));
    fs::create_dir(&old).unwrap();
    fs::write(old.join("file"), "old").unwrap();
    let mut log = Log::create(&room.log(0)).unwrap();
    let mut write = |time, effect| {
        log.append(Line::Record(Record::new(Epoch(1), time, effect)))
            .unwrap();
    };
    write(1, Effect::Created { path: new.clone() });
    fs::write(&new, "new").unwrap();
    let id = Id::of(&fs::metadata(&new).unwrap());
    let (from, to) = (new.clone(), old.clone());
    write(2, Effect::Exchanged { from, to, id });
    exchange(&new, &old).unwrap();
    fs::remove_file(&old).unwrap();
    room.undo(1, 1);
    assert_eq!(fs::read(old.join("file")).unwrap(), b"old");
    assert!(!new.exists());
}

/// splitmix64
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Returns a random call on one of a few names.
///
/// With few names, calls often use equal ones.
fn any_call(random: &mut Random, top: &Path) -> Call {
    const NAMES: &[&str] = &[
        "a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "d/f", "d/f/a", "e/f", "e/f/a",
    ];
    const FLAGS: &[i32] = &[
        libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
        libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
        libc::O_RDWR,
        libc::O_WRONLY,
        libc::O_RDWR | libc::O_APPEND,
        libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        libc::O_RDONLY,
    ];
    let path = top.join(random.pick(NAMES));
    match random.below(8) {
        0..3 => Call::Open {
            path: followed(path),
            flags: *random.pick(FLAGS),
        },
        3 | 4 => Call::Rename {
            from: path,
            to: top.join(random.pick(NAMES)),
            flags: *random.pick(&[0, 0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE]),
        },
        5 => Call::Remove {
            path,
            files: random.below(3) > 0,
            directories: random.below(2) > 0,
        },
        6 => Call::Create {
            path,
            directory: random.below(4) > 0,
        },
        _ => Call::Truncate {
            path: followed(path),
            length: random.below(300) as i64,
        },
    }
}

/// Writes to a random range of an open file.
///
/// The write is recorded before, like by the preload library. `grows` is false for a file that was
/// open at a cut: other code truncates it to its size at the cut.
fn write_within(
    file: &File,
    grows: bool,
    random: &mut Random,
    recorder: &mut Recorder,
) -> std::io::Result<()> {
    let mut bytes = vec![b'a' + random.below(26) as u8; random.below(200)];
    let offset = random.below(100) as u64;
    if !grows {
        bytes.truncate(file.metadata()?.len().saturating_sub(offset) as usize);
    }
    if random.below(5) == 0 {
        let length = file.metadata()?.len() * random.below(3) as u64 / 2;
        recorder.truncate_open(file.as_raw_fd(), length)?;
        return file.set_len(if grows {
            length
        } else {
            length.min(file.metadata()?.len())
        });
    }
    recorder.overwrite_open(file.as_raw_fd(), (offset, bytes.len() as u64), false)?;
    file.write_all_at(&bytes, offset)
}

/// Makes the call like the program; it may fail as in a program. Written files may stay open.
fn perform(
    call: &Call,
    random: &mut Random,
    recorder: &mut Recorder,
    open: &mut Vec<File>,
) -> std::io::Result<()> {
    match call {
        Call::Open { path, flags } => {
            let access = flags & libc::O_ACCMODE;
            let mut options = OpenOptions::new();
            options
                .read(access != libc::O_WRONLY)
                .write(access != libc::O_RDONLY);
            options
                .create(flags & libc::O_CREAT != 0)
                .custom_flags(flags & !libc::O_ACCMODE);
            let opened = options.open(path);
            recorder.made()?;
            let mut file = opened?;
            if access == libc::O_RDONLY {
                return file.read_to_end(&mut Vec::new()).map(drop);
            }
            if flags & libc::O_APPEND == 0 {
                write_within(&file, true, random, recorder)?;
                open.push(file);
                return Ok(());
            }
            file.write_all(&vec![b'a' + random.below(26) as u8; random.below(200)])
        }
        Call::Rename { from, to, flags } if *flags == libc::RENAME_EXCHANGE => exchange(from, to),
        Call::Rename { to, flags, .. } if *flags != 0 && fs::symlink_metadata(to).is_ok() => Ok(()),
        Call::Rename { from, to, .. } => fs::rename(from, to),
        Call::Remove {
            path,
            files,
            directories,
        } => match fs::symlink_metadata(path)?.is_dir() {
            true if *directories => fs::remove_dir(path),
            false if *files => fs::remove_file(path),
            _ => Ok(()),
        },
        Call::Create {
            path,
            directory: true,
        } => fs::create_dir(path),
        Call::Create { path, .. } if random.below(2) == 0 => symlink("somewhere", path),
        Call::Create { path, .. } => fs::hard_link(path.with_file_name("a"), path),
        Call::Truncate { path, length } => OpenOptions::new()
            .write(true)
            .open(path)?
            .set_len(*length as u64),
    }
}

/// Lists the entries that are in only one of two trees, without backups.
fn difference(now: &Tree, then: &Tree) -> Vec<String> {
    let only = |what: &str, one: &Tree, other: &Tree| {
        let text = |content: &Option<Vec<u8>>| {
            content
                .as_ref()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let entries = one
            .iter()
            .filter(|(path, content)| !is_hidden(path) && other.get(*path) != Some(content));
        entries
            .map(|(path, content)| format!("{what}: {} {:?}", path.display(), text(content)))
            .collect::<Vec<_>>()
    };
    [only("now", now, then), only("then", then, now)].concat()
}

/// Lets one or two ranks change files.
///
/// Then undoes all effects since one of the cuts.
fn round(seed: u64) {
    let count = 1 + (seed % 2) as u32;
    let random = &mut Random(seed);
    let room = Room::new(&format!("random-{seed}"));
    let mut ranks: Vec<Recorder> = (0..count).map(|rank| room.recorder(rank)).collect();
    let (mut cuts, mut open) = (Vec::new(), [Vec::new(), Vec::new()]);
    for section in 0..4 {
        cuts.push(tree(&room.files()));
        ranks.iter_mut().for_each(|rank| rank.begin(Epoch(section)));
        if seed % 16 < 2 {
            // Makes files younger than the cut.
            std::thread::sleep(std::time::Duration::from_millis(12));
        }
        for _ in 0..random.below(60) {
            let rank = random.below(count as usize);
            let (recorder, open) = (&mut ranks[rank], &mut open[rank]);
            if random.below(4) == 0 && !open.is_empty() {
                let which = random.below(open.len());
                let done = write_within(&open[which], false, random, recorder);
                println!("{section}: rank {rank} writes {:?}: {done:?}", open[which]);
                continue;
            }
            let call = any_call(random, &room.files());
            recorder.note(&call).unwrap();
            let done = perform(&call, random, recorder, open);
            recorder.made().unwrap();
            println!("{section}: rank {rank} {call:?}: {done:?}");
        }
    }
    let back = 2 + random.below(2);
    ranks
        .iter_mut()
        .for_each(|rank| rank.forget_before(Epoch(2)).unwrap());
    room.undo(count, back as u64);
    let now = tree(&room.files());
    let differs = difference(&now, &cuts[back]);
    assert!(
        differs.is_empty(),
        "UNDO_SEED={seed}, back to cut {back}: {differs:?}"
    );
    for rank in &mut ranks {
        rank.resume(Epoch(back as u64)).unwrap();
        rank.end().unwrap();
    }
    // A rank cannot find its backups after another rank has moved their directory.
    if count == 1 {
        assert_eq!(
            room.backups(),
            Vec::<PathBuf>::new(),
            "seed {seed}: left behind"
        );
    }
}

#[test]
fn any_calls_of_two_ranks_are_undone() {
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = std::env::var("UNDO_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let first = seed.unwrap_or(clock);
    println!("UNDO_SEED={first}");
    let rounds = if seed.is_some() { 1 } else { 150 };
    (0..rounds).for_each(|index| round(first.wrapping_add(index)));
}
