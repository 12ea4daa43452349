//! Properties that a file and the process that loads the file must share.

use crate::user;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use understudy_formats::epochs::epoch_format::JobIdentity;
use understudy_image::vmas;
use understudy_mpi::library;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Returns the identity of this process, whose address space has this layout.
pub fn own_identity(layout: Vec<(String, u64)>, workers: u32) -> JobIdentity {
    JobIdentity {
        build: build(),
        mpi: library::version().0.to_owned(),
        workers,
        program: user::program_name(),
        arguments: arguments(),
        layout,
    }
}

/// Returns the program's arguments, without the program's name.
fn arguments() -> Vec<Vec<u8>> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    line.split(|&byte| byte == 0)
        .skip(1)
        .map(<[u8]>::to_vec)
        .collect()
}

/// Returns the checksum of the understudy libraries that are mapped in this process.
fn build() -> u64 {
    let is_ours = |path: &Vec<u8>| {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        name.starts_with(b"libunderstudy") && name.ends_with(b".so")
    };
    let all = vmas::read_self().unwrap_or_default();
    let ours: BTreeSet<Vec<u8>> = all
        .into_iter()
        .map(|vma| vma.path)
        .filter(is_ours)
        .collect();
    let mut sum = Xxh3::new();
    for path in ours {
        let path = Path::new(std::ffi::OsStr::from_bytes(&path)).to_owned();
        sum.update(&std::fs::read(path).unwrap_or_default());
    }
    sum.digest()
}

/// Returns the checksum of the program's environment.
///
/// Excludes understudy's settings, and variables that the launcher and the shell change in every
/// start. A different environment only causes a warning.
pub fn environment() -> u64 {
    let text = std::fs::read("/proc/self/environ").unwrap_or_default();
    let is_the_program = |entry: &&[u8]| {
        let others = ["OMPI_", "UNDERSTUDY_", "OLDPWD=", "SHLVL=", "_="];
        !others
            .iter()
            .any(|prefix| entry.starts_with(prefix.as_bytes()))
    };
    let mut entries: Vec<&[u8]> = text
        .split(|&byte| byte == 0)
        .filter(is_the_program)
        .collect();
    entries.sort_unstable();
    xxh3_64(&entries.join(&0))
}
