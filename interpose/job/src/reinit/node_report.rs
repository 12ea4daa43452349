//! Report that one process makes for all processes of a job on a node.
//!
//! The first process locks a file in the job's directory and writes the report; the others wait for
//! the lock and read it. Processes whose environments differ have files of their own, since the
//! report may depend on the environment.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use understudy_base::process_info;
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
/// Last byte of a complete report.
const END: u8 = b'\n';

/// Returns the report: another process's, or else the result of `make`.
///
/// A failure is reported to the other processes, too. A process without a common directory makes
/// its own report.
///
/// # Errors
/// Fails with the error of `make`, in whatever process it occurred.
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
        return match report.is_empty() {
            true => Err(io::Error::other("another process of this node has failed")),
            false => String::from_utf8(report).map_err(|_| io::ErrorKind::InvalidData.into()),
        };
    }
    let made = make();
    let mut bytes = made.as_deref().unwrap_or_default().as_bytes().to_vec();
    bytes.push(END);
    // A report that cannot be written is made once more by the next process.
    let _ = file.set_len(0).and_then(|()| file.write_all(&bytes));
    made
}

fn locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).append(true).create(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Returns the hash of all variables that do not differ between ranks by nature.
fn environment_hash() -> u64 {
    let is_of_rank = |name: &OsStr| {
        let name = name.as_bytes();
        RANK_VARIABLES
            .iter()
            .any(|start| name.starts_with(start.as_bytes()))
    };
    let mut hash = Xxh3::new();
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

    /// Later processes get the report of the first process, or learn of its failure.
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
        assert!(get_from(&failed, unneeded).is_err());
        // A process was killed while it wrote.
        std::fs::write(&made, "libc.s").unwrap();
        assert_eq!(get_from(&made, libraries).unwrap(), libraries().unwrap());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
