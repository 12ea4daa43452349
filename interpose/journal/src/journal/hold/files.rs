//! Files of a replay: in memory, with what was recorded of those that the program reads, and empty
//! where it makes them anew.
#![allow(unsafe_code)]

use super::filter_state::{Fate, Hold, Place, make};
use crate::journal::inputs::{Identity, Outcome, STAT};
use std::ffi::{CStr, CString, c_int, c_long};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

const CWD: i64 = libc::AT_FDCWD as i64;
/// Flags that are about the file's name.
const ABOUT_NAME: c_int =
    libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_DIRECT | libc::O_NOATIME;
/// Files of the kernel, whose contents are made when they are read (statfs(2)).
const PSEUDO: [i64; 2] = [0x9fa0, 0x6265_6572];
/// What a library or program begins with. Mappings of them are needed by any recovery, and made
/// from the file.
const ELF: &[u8] = b"\x7fELF";

/// Opens a file as the program wants it.
pub fn opened(hold: &mut Hold, directory: i64, path: i64, flags: i64) -> Fate {
    if path == 0 {
        return Fate::Answer(-i64::from(libc::EFAULT));
    }
    // SAFETY: the program's path.
    let path = unsafe { CStr::from_ptr(path as *const _) };
    let flags = flags as c_int;
    let directory = if path.to_bytes().starts_with(b"/") {
        CWD
    } else {
        directory
    };
    let name = key(libc::SYS_openat, &[directory], &[path.to_bytes()]);
    if let Some(&kept) = hold.by_path.get(&name) {
        return Fate::Answer(again(kept, flags));
    }
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return empty(hold, flags & !libc::O_TMPFILE, None);
    }
    if is_device(path.to_bytes()) || flags & libc::O_PATH != 0 {
        return Fate::Pass;
    }
    if flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
        return empty(hold, flags, Some(name));
    }
    let call = [name.as_slice(), &flags.to_le_bytes()].concat();
    match hold.asked.next(&call) {
        Some(outcome) => recorded(hold, outcome, directory, path, flags, name),
        None => look(hold, call, directory, path, flags, name),
    }
}

/// Whether it is of a kind that has no contents to be spoilt. Those in /dev/shm are files.
fn is_device(path: &[u8]) -> bool {
    let is_in = |directory: &[u8]| path.starts_with(directory);
    is_in(b"/proc/") || is_in(b"/dev/") && !is_in(b"/dev/shm/") && !is_in(b"/dev/mqueue/")
}

fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Gives the program what was recorded.
fn recorded(
    hold: &mut Hold,
    outcome: Outcome,
    directory: i64,
    path: &CStr,
    flags: c_int,
    name: Vec<u8>,
) -> Fate {
    match outcome {
        Outcome::Result(result, _) => Fate::Answer(result),
        Outcome::File(number, about) => {
            let Some(content) = hold.asked.content(number) else {
                return Fate::GiveUp;
            };
            given(hold, &content, about, flags, name)
        }
        Outcome::Directory => {
            // SAFETY: open(2); what is asked of it is answered from the record.
            match unsafe { open(directory, path, flags) } {
                descriptor @ 0.. => Fate::Answer(descriptor),
                _ => empty(hold, flags & !libc::O_DIRECTORY, None),
            }
        }
        Outcome::Long(number) => {
            // SAFETY: open(2).
            let descriptor = unsafe { open(directory, path, flags & !libc::O_ACCMODE) };
            let now = (descriptor >= 0)
                .then(|| borrow(descriptor).metadata().ok())
                .flatten();
            if !now.is_some_and(|now| hold.asked.is_same(number, &Identity::of(&now))) {
                return Fate::Changed(number);
            }
            taken(hold, descriptor, flags, name)
        }
    }
}

fn empty(hold: &mut Hold, flags: c_int, name: Option<Vec<u8>>) -> Fate {
    in_memory(hold, &[], flags, name)
        .map_or(Fate::GiveUp, |(descriptor, _)| Fate::Answer(descriptor))
}

/// A file with these contents, as the program opens it.
fn given(hold: &mut Hold, content: &[u8], about: Vec<u8>, flags: c_int, name: Vec<u8>) -> Fate {
    match in_memory(hold, content, flags, writes(flags).then_some(name)) {
        Some((descriptor, place)) => {
            hold.stats.insert(place, about);
            Fate::Answer(descriptor)
        }
        None => Fate::GiveUp,
    }
}

/// A file that is open, and whose contents the program gets from there; a copy of them if it
/// writes.
fn taken(hold: &mut Hold, descriptor: i64, flags: c_int, name: Vec<u8>) -> Fate {
    if !writes(flags) {
        return Fate::Answer(descriptor);
    }
    let content = contents(descriptor);
    close(descriptor);
    let made = content.and_then(|content| in_memory(hold, &content, flags, Some(name)));
    made.map_or(Fate::GiveUp, |(descriptor, _)| Fate::Answer(descriptor))
}

/// Opens a file and records what comes of it.
fn look(
    hold: &mut Hold,
    call: Vec<u8>,
    directory: i64,
    path: &CStr,
    flags: c_int,
    name: Vec<u8>,
) -> Fate {
    if waits(directory, path) {
        return Fate::GiveUp;
    }
    // SAFETY: open(2), for reading.
    let descriptor = unsafe { open(directory, path, flags & !libc::O_ACCMODE) };
    let (outcome, content) = match descriptor {
        ..=-1 => (Outcome::Result(descriptor, Vec::new()), None),
        _ => match learn(hold, descriptor) {
            Some(learnt) => learnt,
            None => return taken(hold, descriptor, flags, name),
        },
    };
    if hold.asked.record(call, outcome.clone()).is_err() {
        return Fate::GiveUp;
    }
    match (outcome, content) {
        (Outcome::File(_, about), Some(content)) => {
            close(descriptor);
            given(hold, &content, about, flags, name)
        }
        (Outcome::Long(_), _) => taken(hold, descriptor, flags, name),
        _ => Fate::Answer(descriptor),
    }
}

/// Whether to open it would wait for another process, or take something away from one.
fn waits(directory: i64, path: &CStr) -> bool {
    // SAFETY: fstatat(2).
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        let arguments = [
            directory,
            path.as_ptr() as i64,
            &raw mut about as i64,
            0,
            0,
            0,
        ];
        let is_there = make(libc::SYS_newfstatat, &arguments) == 0;
        is_there && matches!(about.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK)
    }
}

/// What is to be recorded of a file that is open; nothing of devices, files of the kernel and
/// libraries.
fn learn(hold: &mut Hold, descriptor: i64) -> Option<(Outcome, Option<Vec<u8>>)> {
    // SAFETY: fstat(2), fstatfs(2).
    let (about, system) = unsafe {
        let (mut about, mut system): (libc::stat, libc::statfs) =
            (std::mem::zeroed(), std::mem::zeroed());
        make(
            libc::SYS_fstat,
            &[descriptor, &raw mut about as i64, 0, 0, 0, 0],
        );
        make(
            libc::SYS_fstatfs,
            &[descriptor, &raw mut system as i64, 0, 0, 0, 0],
        );
        (about, system)
    };
    match about.st_mode & libc::S_IFMT {
        libc::S_IFDIR => return Some((Outcome::Directory, None)),
        libc::S_IFREG if !PSEUDO.contains(&system.f_type) => {}
        _ => return None,
    }
    let mut magic = [0; ELF.len()];
    if borrow(descriptor).read_exact_at(&mut magic, 0).is_ok() && magic == ELF {
        return None;
    }
    if hold.asked.may_keep(about.st_size as u64) {
        let content = contents(descriptor)?;
        if let Some(number) = hold.asked.keep(&content) {
            // SAFETY: plain data of that size.
            let about =
                unsafe { std::slice::from_raw_parts((&raw const about).cast::<u8>(), STAT) };
            return Some((Outcome::File(number, about.to_vec()), Some(content)));
        }
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    let identity = Identity::of(&borrow(descriptor).metadata().ok()?);
    Some((Outcome::Long(hold.asked.note_long(path, identity)), None))
}

/// A descriptor that stays the program's.
fn borrow(descriptor: i64) -> ManuallyDrop<File> {
    // SAFETY: it is open, and is not closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor as c_int) })
}

fn contents(descriptor: i64) -> Option<Vec<u8>> {
    let file = borrow(descriptor);
    let mut content = vec![0; file.metadata().ok()?.len() as usize];
    file.read_exact_at(&mut content, 0).ok()?;
    Some(content)
}

unsafe fn open(directory: i64, path: &CStr, flags: c_int) -> i64 {
    // SAFETY: handed on to the caller.
    unsafe {
        make(
            libc::SYS_openat,
            &[directory, path.as_ptr() as i64, i64::from(flags), 0, 0, 0],
        )
    }
}

fn close(descriptor: i64) {
    // SAFETY: close(2) on a descriptor of this module.
    unsafe { make(libc::SYS_close, &[descriptor, 0, 0, 0, 0, 0]) };
}

/// A new file in memory with these contents, under the lowest free descriptor, as the program's
/// would be; it is found again by its name, if it has one.
fn in_memory(
    hold: &mut Hold,
    content: &[u8],
    flags: c_int,
    name: Option<Vec<u8>>,
) -> Option<(i64, Place)> {
    // SAFETY: plain system calls on new descriptors.
    unsafe {
        let made = make(
            libc::SYS_memfd_create,
            &[c"held back".as_ptr() as i64, 0, 0, 0, 0, 0],
        );
        if made < 0 {
            return None;
        }
        let base = i64::from(understudy_abi::RUNTIME_FD_BASE);
        let kept = make(
            libc::SYS_fcntl,
            &[made, i64::from(libc::F_DUPFD_CLOEXEC), base, 0, 0, 0],
        );
        close(made);
        let place = place_of(kept)?;
        borrow(kept).write_all(content).ok()?;
        let descriptor = again(kept as c_int, flags);
        hold.own.insert(place);
        match name {
            Some(name) => {
                hold.by_path.insert(name, kept as c_int);
            }
            None => close(kept),
        }
        (descriptor >= 0).then_some((descriptor, place))
    }
}

/// Opens a file in memory once more.
fn again(kept: c_int, flags: c_int) -> i64 {
    let Ok(path) = CString::new(format!("/proc/self/fd/{kept}")) else {
        return -1;
    };
    // SAFETY: open(2).
    unsafe { open(CWD, &path, flags & !ABOUT_NAME) }
}

fn place_of(descriptor: i64) -> Option<Place> {
    // SAFETY: fstat(2).
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        let is_open = make(
            libc::SYS_fstat,
            &[descriptor, &raw mut about as i64, 0, 0, 0, 0],
        ) == 0;
        is_open.then_some((about.st_dev, about.st_ino))
    }
}

/// The program has made a file in memory itself.
pub fn adopt(hold: &mut Hold, descriptor: i64) {
    hold.own.extend(place_of(descriptor));
}

/// Whether a descriptor is of a file in memory that nobody else has.
pub fn is_own(hold: &Hold, descriptor: i64) -> bool {
    place_of(descriptor).is_some_and(|place| hold.own.contains(&place))
}

/// What stat(2) says of the file whose contents this descriptor has.
pub fn stat_of(hold: &Hold, descriptor: i64) -> Option<&[u8]> {
    if hold.stats.is_empty() {
        return None;
    }
    hold.stats.get(&place_of(descriptor)?).map(Vec::as_slice)
}

/// A file that was open before the phase began gets its recorded contents, or is opened once more,
/// so that nobody else's position changes with it.
pub fn inherit(
    hold: &mut Hold,
    descriptor: c_int,
    flags: c_int,
    offset: i64,
) -> Result<(), String> {
    let call = [b"open".as_slice(), &descriptor.to_le_bytes()].concat();
    let (outcome, content) = match hold.asked.next(&call) {
        Some(outcome @ Outcome::File(number, _)) => (Some(outcome), hold.asked.content(number)),
        Some(outcome) => (Some(outcome), None),
        None if flags & libc::O_ACCMODE == libc::O_WRONLY => (None, None),
        None => match learn(hold, descriptor.into()) {
            Some((outcome, content)) => {
                let recorded = hold.asked.record(call, outcome.clone());
                recorded.map_err(|_| "there is no room to record what is read")?;
                (Some(outcome), content)
            }
            None => (None, None),
        },
    };
    if let Some(Outcome::Long(number)) = outcome {
        let now = borrow(descriptor.into())
            .metadata()
            .map_err(|error| error.to_string())?;
        if !hold.asked.is_same(number, &Identity::of(&now)) {
            return Err(changed(&hold.asked.path(number)));
        }
    }
    let flags = flags & !(ABOUT_NAME | libc::O_TRUNC);
    let made = match (outcome, content) {
        (Some(Outcome::File(_, about)), Some(content)) => in_memory(hold, &content, flags, None)
            .map(|(made, place)| {
                hold.stats.insert(place, about);
                made
            }),
        _ => Some(again(descriptor, flags)).filter(|made| *made >= 0),
    };
    let made =
        made.ok_or_else(|| format!("descriptor {descriptor} cannot be opened again"))? as c_int;
    // SAFETY: plain system calls on descriptors of this child.
    unsafe {
        let close_on_exec = libc::fcntl(descriptor, libc::F_GETFD) & libc::FD_CLOEXEC != 0;
        libc::dup3(
            made,
            descriptor,
            if close_on_exec { libc::O_CLOEXEC } else { 0 },
        );
        libc::close(made);
        libc::lseek(descriptor, offset, libc::SEEK_SET);
    }
    Ok(())
}

/// What is said of a long file that is not what it was.
pub fn changed(path: &str) -> String {
    format!("{path} has changed since it was read")
}

/// What a call is known by: its number and the arguments that mean something.
pub fn key(number: c_long, values: &[i64], texts: &[&[u8]]) -> Vec<u8> {
    let mut key = (number as u16).to_le_bytes().to_vec();
    values
        .iter()
        .for_each(|value| key.extend((*value as i32).to_le_bytes()));
    for text in texts {
        key.extend_from_slice(text);
        key.push(0);
    }
    key
}
