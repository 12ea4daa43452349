//! Open MPI as installed on this machine.

use serde::Serialize;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest supported version.
pub const OLDEST: [u32; 3] = [4, 1, 0];

/// Returns the file of a launcher, given by a path or found on the PATH.
pub fn launcher(name: &OsStr) -> Option<PathBuf> {
    match name.as_encoded_bytes().contains(&b'/') {
        true => Some(PathBuf::from(name)),
        false => understudy_launch::find_program(name),
    }
}

/// Information that a launcher prints about itself.
#[derive(Debug, Serialize)]
pub struct Installation {
    pub launcher: PathBuf,
    /// First line of the launcher's version information.
    pub description: String,
    /// Version, if the launcher is Open MPI's.
    pub version: Option<String>,
}

impl Installation {
    pub fn query(launcher: &Path) -> io::Result<Self> {
        let output = output_of(launcher, "--version")?;
        let description = output.lines().next().unwrap_or_default().trim().to_owned();
        let version = description
            .split_once("(Open MPI) ")
            .map(|(_, version)| version.to_owned());
        Ok(Self {
            launcher: launcher.to_owned(),
            description,
            version,
        })
    }

    /// Returns reason and remedy if no protected job can be started with this launcher.
    pub fn problem(&self) -> Option<String> {
        let oldest = OLDEST.map(|part| part.to_string()).join(".");
        let Some(version) = &self.version else {
            return Some(format!(
                "its --version prints `{}`, and only Open MPI {oldest} or later is supported. Put \
                 the launcher of such a version first on the PATH, or name it with --mpirun.",
                self.description
            ));
        };
        if numbers(version) < OLDEST {
            return Some(format!(
                "Open MPI {version} is too old. Use {oldest} or later."
            ));
        }
        None
    }
}

fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

fn output_of(program: &Path, option: &str) -> io::Result<String> {
    let output = Command::new(program)
        .arg(option)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(version: Option<&str>) -> Installation {
        Installation {
            launcher: "/bin/mpirun".into(),
            description: "HYDRA build details:".into(),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for good in ["4.1.4", "5.0.10", "5.0.11rc1", "5.1", "6.0.0a1"] {
            assert_eq!(installation(Some(good)).problem(), None, "{good}");
        }
        for old in ["3.1.6", "4.0.7", "4.0"] {
            assert!(
                installation(Some(old))
                    .problem()
                    .is_some_and(|why| why.contains("too old")),
                "{old}"
            );
        }
    }

    #[test]
    fn another_mpi_is_named() {
        assert!(
            installation(None)
                .problem()
                .is_some_and(|why| why.contains("HYDRA"))
        );
    }
}
