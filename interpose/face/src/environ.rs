//! Environments: the launcher's, the program's, and the fixed one that gives all ranks equal
//! stacks.
//!
//! The stack of a new process begins with the strings of the environment. Ranks whose environments
//! differ in number or size of strings have different stack addresses. The process is therefore
//! executed a second time with a *fixed* environment. The variables of the launcher and of
//! understudy are saved in a memfd. The other variables are padded: their number and total size
//! become multiples of large steps, which nearly always removes small differences.
#![allow(unsafe_code)]

use crate::environment_block::{BlockBuilder, PAD_VARIABLE};
use crate::fortran;
use crate::libpath;
use crate::link::{self, Path, own_path};
use crate::messages::Line;
use crate::sys;
use core::ffi::c_char;
use core::fmt::Write;

/// Marks the second execution of a process.
///
/// The value is the memfd's number with four digits.
pub const BOOT_VARIABLE: &[u8] = b"UNDERSTUDY_BOOT=";
/// Marks a process that this library leaves alone: an unprotected program, or a guardian.
///
/// Without the mark, a preload from /etc/ld.so.preload would execute the program without end.
pub const UNPROTECTED_VARIABLE: &[u8] = b"UNDERSTUDY_ASIDE=1\0";
/// Variable that is set if a node manager of ckptd serves the process (`understudy_wire::line`).
pub const MANAGER: &[u8] = b"UNDERSTUDY_LINE=";
/// Inode of the guardian's pid namespace (`understudy_wire::line`).
pub const PID_NAMESPACE: &[u8] = b"UNDERSTUDY_PID_NAMESPACE=";
/// Prefix of the entries that preserve the launcher's values of variables.
///
/// A guardian that changes the entry `NAME=value` keeps the original entry with this prefix.
pub const LAUNCHER_PREFIX: &[u8] = b"UNDERSTUDY_LAUNCHER_";
/// Variables that every guardian sets, for any launcher.
const IDENTITY: [&[u8]; 8] = [
    MANAGER,
    PID_NAMESPACE,
    b"PMIX_NAMESPACE=",
    b"PMIX_RANK=",
    b"OMPI_COMM_WORLD_SIZE=",
    b"OMPI_COMM_WORLD_RANK=",
    b"OMPI_COMM_WORLD_LOCAL_SIZE=",
    b"OMPI_COMM_WORLD_LOCAL_RANK=",
];
/// Switch for programs that load MPI late; see [`crate::late_mpi`].
pub const LATE_VARIABLE: &[u8] = b"UNDERSTUDY_LATE=";
/// Libraries that the loader preloads.
pub const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Prefix of Open MPI's variables (`OMPI_…`) that are not hidden from the program.
pub const SHOWN_PREFIX: &[u8] = b"OMPI_COMM_WORLD_";
/// Variables with the number of processes of the job.
pub const SIZES: [&[u8]; 4] = [
    b"OMPI_COMM_WORLD_SIZE=",
    b"SLURM_NTASKS=",
    b"SLURM_NPROCS=",
    b"SLURM_STEP_NUM_TASKS=",
];
/// Variable in which a guardian keeps the program's LD_PRELOAD.
const PROGRAM_PRELOAD: &[u8] = b"UNDERSTUDY_PRELOAD=";

/// Iterates over a null-terminated array of strings.
///
/// # Safety
/// `list` must be a null-terminated array of strings.
pub unsafe fn strings(list: *const *const c_char) -> impl Iterator<Item = &'static [u8]> {
    let mut at = list;
    core::iter::from_fn(move || {
        // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
        unsafe {
            let string = at.read();
            if string.is_null() {
                return None;
            }
            at = at.add(1);
            Some(sys::bytes(string))
        }
    })
}

/// Returns the value of the variable `name`, which must end with `=`.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn value(list: *const *const c_char, name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe { strings(list) }.find_map(|entry| entry.strip_prefix(name))
}

/// Returns the value of the variable of this name.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn variable(list: *const *const c_char, name: &str) -> Option<&'static [u8]> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe { strings(list) }
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Returns the job's directory, the third part of the value of [`MANAGER`].
pub fn directory_of(manager: &[u8]) -> &[u8] {
    manager
        .splitn(3, |&byte| byte == b',')
        .nth(2)
        .unwrap_or_default()
}

/// Returns true if the switch `name`, which must end with `=`, is on.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn is_on(list: *const *const c_char, name: &[u8]) -> bool {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe { value(list, name) }.is_some_and(|value| [&b"1"[..], b"on", b"yes"].contains(&value))
}

/// Name and size of a process's job, from the launcher's variables.
pub struct Identity<'a> {
    pub job: &'a [u8],
    /// Number of processes with which the job was started.
    pub size: &'a [u8],
}

/// Returns name and size of this process's job.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn identity<'a>(list: *const *const c_char) -> Identity<'a> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let variable = |name: &[u8]| unsafe { value(list, name) };
    Identity {
        job: variable(b"PMIX_NAMESPACE=").unwrap_or(b"0"),
        size: variable(b"OMPI_COMM_WORLD_SIZE=").unwrap_or(b""),
    }
}

/// Returns true if a variable is hidden from the program side.
///
/// Hidden variables belong to PMI servers, to Open MPI and its launcher, or to understudy.
pub fn is_hidden(entry: &[u8]) -> bool {
    const HIDDEN: [&[u8]; 5] = [b"PMIX", b"PMI_", b"OMPI_", b"PRTE", b"UNDERSTUDY_"];
    HIDDEN.iter().any(|prefix| entry.starts_with(prefix)) && !entry.starts_with(SHOWN_PREFIX)
}

/// Returns the number of strings and their total size in bytes.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn measure(list: *const *const c_char) -> (usize, usize) {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe { strings(list) }.fold((0, 0), |(count, bytes), entry| {
        (count + 1, bytes + entry.len() + 1)
    })
}

/// Returns the environment for the second execution: `list` with `boot_fd`, padded.
///
/// With a number of `workers`, hidden variables are omitted, and the program sees that number as
/// the size of the job. Without a number, all variables are kept.
///
/// The first library of `in_front` is preloaded before all others, the second one directly before
/// this library. All libraries that are loaded now are preloaded after this one, by their paths, so
/// that ld.so does not need /etc/ld.so.cache. If ld.so mapped the cache, it would do so below the
/// libraries. Their addresses would then depend on the size of the cache, which changes when a
/// package is installed.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn second_execution(
    list: *const *const c_char,
    boot_fd: i32,
    workers: Option<usize>,
    in_front: [Option<Path>; 2],
) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let libraries = link::libraries().flat_map(|name| [&b":"[..], name]);
    let room: usize = libraries.clone().map(<[u8]>::len).sum();
    let mut builder = BlockBuilder::new(count, bytes + room)?;
    let mut number = Line::new();
    let _ = write!(number, "{boot_fd:04}");
    builder.add(&[BOOT_VARIABLE, number.as_bytes()]);
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    libpath::add(&mut builder, unsafe { strings(list) }.find_map(libpath::of));
    let front = [0, 1].map(|i| in_front[i].as_ref().map_or(&b""[..], Path::as_bytes));
    let colons = front.map(|path| if path.is_empty() { &b""[..] } else { b":" });
    let is_kept =
        |entry: &&[u8]| libpath::of(entry).is_none() && (workers.is_none() || !is_hidden(entry));
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    for entry in unsafe { strings(list) }.filter(is_kept) {
        let mut size = Line::new();
        match (SIZES.iter().find(|name| entry.starts_with(name)), workers) {
            (Some(name), Some(workers)) => {
                let _ = write!(size, "{workers}");
                builder.add(&[name, size.as_bytes()]);
            }
            _ => match entry.strip_prefix(PRELOAD) {
                Some(preload) => {
                    let (others, rest) = preload.split_at(own_offset(preload));
                    let preload = [
                        PRELOAD, front[0], colons[0], others, front[1], colons[1], rest,
                    ];
                    builder.add_all(preload.into_iter().chain(libraries.clone()));
                }
                None => builder.add(&[entry]),
            },
        }
    }
    builder.pad();
    Some(builder.finish())
}

/// Returns true if the launcher can serve an unprotected program.
///
/// The process either has no guardian, or a guardian has preserved variables of a launcher.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn has_launcher(list: *const *const c_char) -> bool {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe {
        value(list, MANAGER).is_none()
            || strings(list).any(|entry| entry.starts_with(LAUNCHER_PREFIX))
    }
}

/// Returns true if a guardian has changed or set this variable.
///
/// # Safety
/// The requirements of [`strings`] apply.
unsafe fn is_of_guardian(list: *const *const c_char, entry: &[u8]) -> bool {
    let name = entry
        .split_inclusive(|&byte| byte == b'=')
        .next()
        .unwrap_or(entry);
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let mut originals =
        unsafe { strings(list) }.filter_map(|entry| entry.strip_prefix(LAUNCHER_PREFIX));
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let has_guardian = unsafe { value(list, MANAGER) }.is_some();
    has_guardian && IDENTITY.contains(&name) || originals.any(|original| original.starts_with(name))
}

/// Returns the launcher's strings, from a list that a guardian has changed.
///
/// # Safety
/// The requirements of [`strings`] apply.
unsafe fn launcher_entries(list: *const *const c_char) -> impl Iterator<Item = &'static [u8]> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let entries = unsafe { strings(list).filter(move |entry| !is_of_guardian(list, entry)) };
    entries.map(|entry| entry.strip_prefix(LAUNCHER_PREFIX).unwrap_or(entry))
}

/// Returns true for a separator of libraries in LD_PRELOAD (ld.so(8)).
fn is_separator(&byte: &u8) -> bool {
    byte == b':' || byte == b' '
}

fn is_ours(item: &[u8], own_path: &[u8]) -> bool {
    item == own_path || item.ends_with(b"/libunderstudy.so") || item == b"libunderstudy.so"
}

/// Returns the number of times that a value of LD_PRELOAD names this library.
pub fn count_own_names(preload: &[u8]) -> usize {
    let items = preload.split(is_separator);
    items.filter(|item| is_ours(item, own_path())).count()
}

/// Returns the offset of this library's name, or 0 if it is missing.
fn own_offset(preload: &[u8]) -> usize {
    let mut offset = 0;
    for item in preload.split(is_separator) {
        if is_ours(item, own_path()) {
            return offset;
        }
        offset += item.len() + 1;
    }
    0
}

/// Adds LD_PRELOAD without this library, or with `replacement` in its place.
fn add_preload(
    builder: &mut BlockBuilder,
    preload: &[u8],
    own_path: &[u8],
    replacement: Option<&[u8]>,
) {
    let items = preload.split(is_separator);
    let mut kept = Path::new();
    // The library for Fortran is omitted, because it fits the program with which this process has
    // started, and perhaps not the one that is executed next.
    let is_kept = |item: &&[u8]| !item.is_empty() && !item.ends_with(fortran::LIBRARY);
    for item in items.filter(is_kept) {
        if let Some(item) = if is_ours(item, own_path) {
            replacement
        } else {
            Some(item)
        } {
            let separator: &[u8] = if kept.as_bytes().is_empty() {
                b""
            } else {
                b":"
            };
            kept.push(separator).push(item);
        }
    }
    if !kept.as_bytes().is_empty() {
        builder.add(&[PRELOAD, kept.as_bytes()]);
    }
}

/// Returns the environment of a program that needs another preload library.
///
/// The result is `list` with `library` in place of this library in LD_PRELOAD.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn with_preload_library(
    list: *const *const c_char,
    own_path: &[u8],
    library: &[u8],
) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let mut builder = BlockBuilder::new(count, bytes + library.len())?;
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    for entry in unsafe { strings(list) } {
        match entry.strip_prefix(PRELOAD) {
            Some(preload) => add_preload(&mut builder, preload, own_path, Some(library)),
            None => builder.add(&[entry]),
        }
    }
    Some(builder.finish())
}

/// Returns the environment of a program that runs unprotected.
///
/// The result is `list` as the launcher passed it, without this library in LD_PRELOAD.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn without_preload(
    list: *const *const c_char,
    own_path: &[u8],
) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let mut builder = BlockBuilder::new(count, bytes)?;
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    for entry in unsafe { launcher_entries(list) } {
        match entry.strip_prefix(PRELOAD) {
            Some(preload) => add_preload(&mut builder, preload, own_path, None),
            None => builder.add(&[entry]),
        }
    }
    builder.add(&[&UNPROTECTED_VARIABLE[..UNPROTECTED_VARIABLE.len() - 1]]);
    Some(builder.finish())
}

/// Returns the launcher's environment, if a guardian has changed it.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn of_launcher(list: *const *const c_char) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe {
        if value(list, MANAGER).is_none() || !has_launcher(list) {
            return None;
        }
        let (count, bytes) = measure(list);
        let mut builder = BlockBuilder::new(count, bytes)?;
        launcher_entries(list).for_each(|entry| builder.add(&[entry]));
        Some(builder.finish())
    }
}

/// Returns the environment of a guardian: `list`, marked, with LD_PRELOAD under another name.
///
/// The other libraries in LD_PRELOAD, such as a profiler, are for the program only.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn for_guardian(list: *const *const c_char) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let mut builder = BlockBuilder::new(
        count + 1,
        bytes + UNPROTECTED_VARIABLE.len() + PROGRAM_PRELOAD.len(),
    )?;
    builder.add(&[&UNPROTECTED_VARIABLE[..UNPROTECTED_VARIABLE.len() - 1]]);
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    for entry in unsafe { strings(list) } {
        match entry.strip_prefix(PRELOAD) {
            Some(preload) => builder.add(&[PROGRAM_PRELOAD, preload]),
            None => builder.add(&[entry]),
        }
    }
    Some(builder.finish())
}

/// Returns an array of strings: `first`, then those of `list`.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn prepend(first: &[&[u8]], list: *const *const c_char) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let more: usize = first.iter().map(|text| text.len() + 1).sum();
    let mut builder = BlockBuilder::new(count + first.len(), bytes + more)?;
    first.iter().for_each(|text| builder.add(&[text]));
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    unsafe { strings(list) }.for_each(|text| builder.add(&[text]));
    Some(builder.finish())
}

/// Returns the environment of a program that is not prepared for loading MPI late.
///
/// The result is `list` with UNDERSTUDY_LATE switched off.
///
/// # Safety
/// The requirements of [`strings`] apply.
pub unsafe fn without_late_preparation(list: *const *const c_char) -> Option<*const *const c_char> {
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    let (count, bytes) = unsafe { measure(list) };
    let mut builder = BlockBuilder::new(count, bytes)?;
    // SAFETY: the caller guarantees that `list` is a null-terminated array of strings.
    for entry in unsafe { strings(list) }.filter(|entry| !entry.starts_with(LATE_VARIABLE)) {
        builder.add(&[entry]);
    }
    builder.add(&[LATE_VARIABLE, b"0"]);
    Some(builder.finish())
}

/// Removes understudy's marks and the padding from the process's environment, in place.
///
/// LD_LIBRARY_PATH gets its original value again.
///
/// # Safety
/// `list` must be the environment on the process's stack, not yet used by libc.
pub unsafe fn unpad(list: *mut *const c_char) {
    let is_padding = |entry: &[u8]| {
        entry.starts_with(BOOT_VARIABLE)
            || entry.starts_with(PAD_VARIABLE)
            || entry == b"_="
            || libpath::is_padded(entry)
    };
    // SAFETY: the caller guarantees that `list` is the environment on the stack, which libc does
    // not use yet; entries are only moved towards the front.
    unsafe {
        let (mut from, mut to) = (list, list);
        while !(*from).is_null() {
            if !is_padding(sys::bytes(*from)) {
                to.write(libpath::original_entry(*from).unwrap_or(*from));
                to = to.add(1);
            }
            from = from.add(1);
        }
        to.write(core::ptr::null());
    }
}
