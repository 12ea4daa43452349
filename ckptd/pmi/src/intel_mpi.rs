//! Variables by which Intel MPI selects the algorithms of its collectives.
//!
//! Intel MPI's launcher reports the processor (`I_MPI_INFO_…`) and the placement of the ranks
//! (`I_MPI_PIN_MAPPING`) to each rank. Without these variables the library uses tables for another
//! processor, and the last digits of a sum may differ from those under Intel MPI's launcher. The
//! launcher itself is therefore asked for the variables. Source: observed with 2021.18.1.

use crate::{Error, MpiLibrary, is_of_a_launcher};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which the launcher counts as hanging. It needs 0.05 s for 8 ranks, 0.4 s for 64.
const TIME_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Setting that makes sums independent of the processor and of the placement.
pub const REPRODUCIBILITY: &str = "I_MPI_CBWR";

type Variables = Vec<(OsString, OsString)>;

/// Intel MPI's launcher, which is asked once for each number of ranks.
pub struct IntelLauncher {
    path: PathBuf,
    answers: Mutex<BTreeMap<usize, Variables>>,
}

impl IntelLauncher {
    /// Returns the launcher beside an Intel MPI library.
    ///
    /// `None` for other libraries, for an installation without a launcher, and for a job whose
    /// launcher or user has already decided on the algorithms.
    pub fn of(mpi: &MpiLibrary) -> Option<IntelLauncher> {
        let has_launcher = std::env::vars_os().any(|(name, _)| is_of_a_launcher(&name));
        let is_reproducible = std::env::var_os(REPRODUCIBILITY)
            .is_some_and(|value| value != "0" && !value.is_empty());
        if has_launcher || is_reproducible {
            return None;
        }
        let path = launcher_beside(&mpi.library)?;
        let answers = Mutex::default();
        Some(IntelLauncher { path, answers })
    }

    /// Requests the variables of a node with this number of ranks.
    ///
    /// # Errors
    /// Fails if the launcher fails or hangs. Later generations could otherwise add up in another
    /// order than earlier ones.
    pub fn request(&self, ranks: usize) -> Result<(), Error> {
        let mut answers = self.answers.lock();
        if ranks > 0 && !answers.contains_key(&ranks) {
            let answer = query(&self.path, ranks).map_err(|why| Error::IntelLauncher {
                path: self.path.clone(),
                why,
            })?;
            answers.insert(ranks, answer);
        }
        Ok(())
    }

    /// Returns the variables that were requested for this number of ranks.
    pub fn variables(&self, ranks: usize) -> Variables {
        self.answers.lock().get(&ranks).cloned().unwrap_or_default()
    }
}

/// Returns the launcher of the installation that contains a library.
///
/// The library is in `lib`, or in `lib/release` with Intel's older packages. Only Intel MPI has a
/// program `hydra_bstrap_proxy`.
fn launcher_beside(library: &Path) -> Option<PathBuf> {
    let library = library.canonicalize().ok()?;
    let programs = library.ancestors().skip(2).take(2);
    programs
        .map(|directory| directory.join("bin"))
        .find(|directory| directory.join("hydra_bstrap_proxy").is_file())
        .map(|directory| directory.join("mpiexec.hydra"))
        .filter(|launcher| launcher.is_file())
}

/// Starts a job of `env` and `true`, and returns the variables that `env` prints.
fn query(launcher: &Path, ranks: usize) -> Result<Variables, String> {
    let mut command = Command::new(launcher);
    command.args(["-launcher", "fork", "-host", "localhost"]);
    command.args(["-n", "1", "env", "-0"]);
    if ranks > 1 {
        command.args([":", "-n", &(ranks - 1).to_string(), "true"]);
    }
    command
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.map(|mut output| output.read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    // If the launcher hangs, the reader is left alone, since processes of it may have the pipe.
    let status = wait(&mut child).map_err(|error| error.to_string())?;
    let bytes = reader.join().unwrap_or_else(|_| Ok(Vec::new()));
    let variables = parse(&bytes.map_err(|error| error.to_string())?);
    match variables.is_empty() {
        false => Ok(variables),
        true => Err(format!("{status}, without the variables I_MPI_INFO_…")),
    }
}

/// Waits for a child, which is killed with its process group after [`TIME_LIMIT`].
fn wait(child: &mut Child) -> io::Result<std::process::ExitStatus> {
    let until = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait()?;
            let seconds = TIME_LIMIT.as_secs();
            return Err(io::Error::other(format!("it did not end in {seconds} s")));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Selects variables in the output of `env -0` (env(1)).
fn parse(output: &[u8]) -> Variables {
    let is_wanted = |name: &[u8]| name.starts_with(b"I_MPI_INFO_") || name == b"I_MPI_PIN_MAPPING";
    output
        .split(|&byte| byte == 0)
        .filter_map(|entry| {
            let end = entry.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (&entry[..end], &entry[end + 1..]);
            let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            is_wanted(name).then(|| (text(name), text(value)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    /// Makes an installation whose launcher is a shell script.
    fn installation(script: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["bin", "lib/release"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        let library = directory.path().join("lib/release/libmpi.so.12");
        fs::write(&library, "").unwrap();
        fs::write(directory.path().join("bin/hydra_bstrap_proxy"), "").unwrap();
        let launcher = directory.path().join("bin/mpiexec.hydra");
        let made = Command::new("install")
            .args(["-m", "755", "/dev/stdin"])
            .arg(&launcher)
            .stdin(script_file(&directory, script))
            .status();
        assert!(made.unwrap().success());
        (directory, library)
    }

    fn script_file(directory: &tempfile::TempDir, script: &str) -> fs::File {
        let path = directory.path().join("script");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::File::open(path).unwrap()
    }

    #[test]
    fn only_an_installation_of_intel_mpi_has_the_launcher() {
        let (directory, library) = installation("");
        let launcher = launcher_beside(&library).unwrap();
        assert!(launcher.ends_with("bin/mpiexec.hydra"));
        fs::remove_file(directory.path().join("bin/hydra_bstrap_proxy")).unwrap();
        assert_eq!(launcher_beside(&library), None);
    }

    #[test]
    fn processor_and_placement_are_taken_and_nothing_else() {
        let (_directory, library) =
            installation(r#"printf 'I_MPI_INFO_NC=2\0PMI_RANK=0\0I_MPI_PIN_MAPPING=%s\0' "$*""#);
        let variables = query(&launcher_beside(&library).unwrap(), 3).unwrap();
        let names: Vec<_> = variables.iter().map(|(name, _)| name.as_bytes()).collect();
        assert_eq!(names, [&b"I_MPI_INFO_NC"[..], b"I_MPI_PIN_MAPPING"]);
        let arguments = variables[1].1.to_str().unwrap();
        assert!(
            arguments.ends_with("-n 1 env -0 : -n 2 true"),
            "{arguments}"
        );
    }

    #[test]
    fn a_launcher_that_fails_is_an_error() {
        let (_directory, library) = installation("exit 3");
        let why = query(&launcher_beside(&library).unwrap(), 1).unwrap_err();
        assert!(why.contains("exit status: 3"), "{why}");
    }
}
