//! The program of the jobs: its compilation, and its run without understudy.

use super::running_job::{JOB_TIMEOUT, OUTPUT, RunningJob};
use crate::doctor;
use crate::mpi;
use crate::outcome::{Failure, IMPOSSIBLE, USAGE};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use understudy_launch::find_program;
use understudy_launch::starter::BatchSystem;
use understudy_settings::PREFIX;

/// Source of the program, which is compiled by the MPI library of the site.
const SOURCE: &str = include_str!("../../../../../packaging/acceptance.c");
/// Argument of the program: enough iterations for ten checkpoints.
pub const ITERATIONS: &str = "24";
/// Launchers of MPI libraries, in the order of preference.
const LAUNCHERS: [&str; 2] = ["mpirun", "mpiexec"];

/// Bytes that a run has printed and written, by name of the file.
pub type Reference = BTreeMap<String, Vec<u8>>;

/// The compiled program.
pub struct AcceptanceProgram {
    pub file: PathBuf,
    /// Directory of all runs.
    pub directory: PathBuf,
    mpicc: PathBuf,
}

impl AcceptanceProgram {
    /// Compiles the program in a directory.
    ///
    /// # Errors
    /// Fails if there is no such compiler, or with the first message of the compiler.
    pub fn compile(mpicc: &str, directory: &Path) -> Result<Self, Failure> {
        let (compiler, options) = words("--mpicc", mpicc)?;
        let found = find_program(&compiler).ok_or_else(|| {
            let text = format!(
                "there is no {} on the PATH. Load the module of an MPI library, or name its \
                 compiler with --mpicc.",
                compiler.display()
            );
            Failure::with_status(IMPOSSIBLE, text)
        })?;
        let (source, file) = (directory.join("acceptance.c"), directory.join("acceptance"));
        std::fs::write(&source, SOURCE)?;
        let mut command = Command::new(&found);
        command.args(options).args(["-std=c11", "-O2", "-o"]);
        command.args([&file, &source]).stdin(Stdio::null());
        let output = command.output()?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            let first = messages.lines().find(|line| !line.trim().is_empty());
            let text = format!(
                "{} cannot compile the program of the jobs: {}. Name another compiler with \
                 --mpicc.",
                found.display(),
                first.unwrap_or("it prints no reason")
            );
            return Err(Failure::with_status(IMPOSSIBLE, text));
        }
        Ok(Self {
            file,
            directory: directory.to_owned(),
            mpicc: found,
        })
    }

    /// Describes the MPI library of the program.
    pub fn mpi(&self) -> String {
        let found = doctor::mpi_of(self.file.as_os_str());
        found.unwrap_or_else(|| "an unknown MPI library".into())
    }

    /// Runs the program without understudy; returns what it has printed and written.
    ///
    /// The error is the reason why there is no result.
    pub fn run_plain(&self, mpirun: Option<&str>, workers: u32) -> Result<Reference, String> {
        let directory = self.directory.join("plain");
        std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
        let mut command = self.plain_command(mpirun)?;
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                command.env_remove(name);
            }
        }
        command.args(["-n", &workers.to_string()]);
        command.arg(&self.file).arg(ITERATIONS);
        let command_line = format!("{command:?}");
        let failed = |error: std::io::Error| format!("{command_line}: {error}");
        let mut job = RunningJob::start(command, &directory).map_err(failed)?;
        match job.wait().map_err(failed)? {
            Some(status) if status.success() => {}
            status => {
                let limit = JOB_TIMEOUT.as_secs();
                let end = status.map_or_else(
                    || format!("did not end within {limit} s"),
                    |status| format!("ended with {status}"),
                );
                return Err(format!(
                    "without understudy, the program {end} ({}); a launcher can be named with \
                     --mpirun",
                    job.last_message()
                ));
            }
        }
        results(&directory, workers).map_err(|error| format!("the run without understudy: {error}"))
    }

    /// Returns the launcher of the run without understudy, and its options.
    fn plain_command(&self, mpirun: Option<&str>) -> Result<Command, String> {
        if let Some(named) = mpirun {
            let (launcher, options) =
                words("--mpirun", named).map_err(|why| why.message().to_owned())?;
            let mut command = Command::new(launcher);
            command.args(options);
            return Ok(command);
        }
        let beside = LAUNCHERS.map(|name| self.mpicc.with_file_name(name));
        let on_path = LAUNCHERS
            .iter()
            .filter_map(|name| find_program(name.as_ref()));
        let launcher = beside
            .into_iter()
            .filter(|file| file.is_file())
            .chain(on_path)
            .next();
        let launcher = launcher.ok_or(
            "there is no mpirun and no mpiexec beside mpicc or on the PATH; name a launcher with \
             --mpirun, such as `srun --mpi=pmix`",
        )?;
        let mut command = Command::new(&launcher);
        // The run has this host alone, whatever the batch system has granted.
        BatchSystem::hide_from(&mut command);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"SLURM_") {
                command.env_remove(name);
            }
        }
        if mpi::Installation::query(&launcher).is_ok_and(|found| found.version.is_some()) {
            command.arg("--oversubscribe");
        }
        Ok(command)
    }
}

/// Splits the value of an option into a program and its options.
fn words(option: &str, value: &str) -> Result<(OsString, Vec<String>), Failure> {
    let usage = |why: String| Failure::with_status(USAGE, format!("{option}: {why}"));
    let words = shell_words::split(value).map_err(|error| usage(error.to_string()))?;
    match words.split_first() {
        Some((first, options)) => Ok((first.into(), options.to_vec())),
        None => Err(usage("no command is named".into())),
    }
}

/// Reads the standard output of a run, and the files of its workers.
///
/// # Errors
/// Fails with the name of the first file that cannot be read.
pub fn results(directory: &Path, workers: u32) -> Result<Reference, String> {
    let names = (0..workers).map(|worker| format!("worker-{worker}"));
    let read = |name: String| match std::fs::read(directory.join(&name)) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => Err(format!("{name}: {error}")),
    };
    names.chain([OUTPUT.to_owned()]).map(read).collect()
}

/// Describes the first difference of results; `None` for equal bytes.
pub fn difference(expected: &Reference, found: &Reference) -> Option<String> {
    let differs = |(name, bytes): (&String, &Vec<u8>)| {
        let other = found.get(name).map_or(&[][..], Vec::as_slice);
        let equal_lines = bytes
            .split(|byte| *byte == b'\n')
            .zip(other.split(|byte| *byte == b'\n'))
            .take_while(|(left, right)| left == right)
            .count();
        (bytes != other).then(|| {
            let line = equal_lines + 1;
            format!("{name} differs from the run without understudy, from line {line} on")
        })
    };
    expected.iter().find_map(differs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_line_is_named() {
        let of = |text: &str| Reference::from([("worker-0".into(), text.into())]);
        assert_eq!(difference(&of("1\n2\n"), &of("1\n2\n")), None);
        let why = difference(&of("1\n2\n3\n"), &of("1\n4\n3\n")).expect("a difference");
        assert!(why.contains("worker-0") && why.contains("line 2"), "{why}");
        assert!(difference(&of("1\n"), &of("1\n2\n")).is_some());
        assert!(difference(&of("1\n"), &Reference::new()).is_some());
    }
}
