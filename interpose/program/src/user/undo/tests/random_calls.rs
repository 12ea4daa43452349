//! Undoing of random sequences of calls.

use super::*;

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
/// Since there are few names, calls often use equal names.
fn any_call(random: &mut Random, top: &Path) -> FileCall {
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
        0..3 => FileCall::Open {
            path: follow_link(path),
            flags: *random.pick(FLAGS),
        },
        3 | 4 => FileCall::Rename {
            from: path,
            to: top.join(random.pick(NAMES)),
            flags: *random.pick(&[0, 0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE]),
        },
        5 => FileCall::Remove {
            path,
            files: random.below(3) > 0,
            directories: random.below(2) > 0,
        },
        6 => FileCall::Create {
            path,
            directory: random.below(4) > 0,
        },
        _ => FileCall::Truncate {
            path: follow_link(path),
            length: random.below(300) as i64,
        },
    }
}

/// Writes to a random range of an open file.
///
/// The write is recorded before it is made, as by the preload library. `grows` is false for a file
/// that was open at a cut: not the undo but `user::files` truncates such a file to its size at the
/// cut.
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

/// Makes the call as the program would, even if the call fails. Written files may stay open.
fn perform(
    call: &FileCall,
    random: &mut Random,
    recorder: &mut Recorder,
    open: &mut Vec<File>,
) -> std::io::Result<()> {
    match call {
        FileCall::Open { path, flags } => {
            let access = flags & libc::O_ACCMODE;
            let mut options = OpenOptions::new();
            options
                .read(access != libc::O_WRONLY)
                .write(access != libc::O_RDONLY);
            options
                .create(flags & libc::O_CREAT != 0)
                .custom_flags(flags & !libc::O_ACCMODE);
            let opened = options.open(path);
            recorder.name_created()?;
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
        FileCall::Rename { from, to, flags } if *flags == libc::RENAME_EXCHANGE => {
            exchange(from, to)
        }
        FileCall::Rename { to, flags, .. } if *flags != 0 && fs::symlink_metadata(to).is_ok() => {
            Ok(())
        }
        FileCall::Rename { from, to, .. } => fs::rename(from, to),
        FileCall::Remove {
            path,
            files,
            directories,
        } => match fs::symlink_metadata(path)?.is_dir() {
            true if *directories => fs::remove_dir(path),
            false if *files => fs::remove_file(path),
            _ => Ok(()),
        },
        FileCall::Create {
            path,
            directory: true,
        } => fs::create_dir(path),
        FileCall::Create { path, .. } if random.below(2) == 0 => symlink("somewhere", path),
        FileCall::Create { path, .. } => fs::hard_link(path.with_file_name("a"), path),
        FileCall::Truncate { path, length } => OpenOptions::new()
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

/// Lets one or two ranks change files, then undoes all effects since a cut.
///
/// Asserts that the files are those of the cut, and that a single rank leaves no backup.
fn check_round(seed: u64) {
    let count = 1 + (seed % 2) as u32;
    let random = &mut Random(seed);
    let room = TemporaryDirectory::new(&format!("random-{seed}"));
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
            recorder.record_call(&call).unwrap();
            let done = perform(&call, random, recorder, open);
            recorder.name_created().unwrap();
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
    (0..rounds).for_each(|index| check_round(first.wrapping_add(index)));
}
