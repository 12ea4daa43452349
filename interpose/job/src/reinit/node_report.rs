//! Report of the libraries that `MPI_Init` opens.
//!
//! The first process of the job on a node locks a file in the job's directory and writes the
//! report; all others wait for the lock and read the report. Processes whose environments differ
//! have files of their own, since the report may depend on the environment.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use understudy_base::process_info;
use understudy_mpi::library;
use xxhash_rust::xxh3::Xxh3;

/// Beginnings of the names of variables that differ between ranks.
///
/// Launchers set these variables; the report does not depend on them.
const RANK_VARIABLES: [&str; 5] = [
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_",
    "PMI",
    "SLURM_",
    "UNDERSTUDY_",
];
/// Last byte of a complete report, which no path of a library contains.
const END: u8 = 0;
/// Time limit for another process's report; a process that waits longer makes its own.
const LIMIT: Duration = Duration::from_secs(30);
/// Interval at which a locked file is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Returns another process's report, or makes one by `make`.
///
/// A process without a common directory makes its own report.
///
/// # Errors
/// Fails with the error of `make`; the next process then makes a report.
pub fn get(make: impl Fn() -> io::Result<String>) -> io::Result<String> {
    match process_info::directory() {
        None => make(),
        Some(directory) => {
            let name = format!("libraries-{:016x}", environment_hash());
            get_from(&directory.join(name), make)
        }
    }
}

fn get_from(path: &Path, make: impl Fn() -> io::Result<String>) -> io::Result<String> {
    let Ok(mut file) = locked(path) else {
        return make();
    };
    let mut report = Vec::new();
    if file.read_to_end(&mut report).is_ok() && report.pop() == Some(END) {
        return String::from_utf8(report).map_err(|_| io::ErrorKind::InvalidData.into());
    }
    let made = make()?;
    // A report that cannot be written is made once more by the next process.
    let bytes = [made.as_bytes(), &[END]].concat();
    let _ = file.set_len(0).and_then(|()| file.write_all(&bytes));
    Ok(made)
}

/// Opens and locks a file, within [`LIMIT`].
fn locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).append(true).create(true).open(path)?;
    let end = Instant::now() + LIMIT;
    while let Err(error) = file.try_lock() {
        match error {
            TryLockError::WouldBlock if Instant::now() < end => sleep(RETRY_INTERVAL),
            TryLockError::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            TryLockError::Error(error) => return Err(error),
        }
    }
    Ok(file)
}

/// Returns the hash of the library's path and of variables that launchers do not set.
fn environment_hash() -> u64 {
    let is_of_rank = |name: &OsStr| {
        let name = name.as_bytes();
        RANK_VARIABLES
            .iter()
            .any(|start| name.starts_with(start.as_bytes()))
    };
    let mut hash = Xxh3::new();
    hash.update(library::file().as_bytes());
    for (name, value) in env::vars_os().filter(|(name, _)| !is_of_rank(name)) {
        for part in [name, value] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later processes get the report of the first process that could make one.
    #[test]
    fn one_report_serves_all_processes() {
        let directory = env::temp_dir().join(format!("node-report-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (made, failed) = (directory.join("made"), directory.join("failed"));
        let libraries = || Ok("libc.so.6\nlibm.so.6".to_owned());
        let unneeded = || -> io::Result<String> { panic!("the report exists") };
        assert_eq!(get_from(&made, libraries).unwrap(), libraries().unwrap());
        assert_eq!(get_from(&made, unneeded).unwrap(), libraries().unwrap());
        assert!(get_from(&failed, || Err(io::ErrorKind::TimedOut.into())).is_err());
        assert_eq!(get_from(&failed, libraries).unwrap(), libraries().unwrap());
        // A process was killed while it wrote.
        for part in ["libc.s", "libc.so.6\n"] {
            std::fs::write(&made, part).unwrap();
            assert_eq!(get_from(&made, libraries).unwrap(), libraries().unwrap());
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
