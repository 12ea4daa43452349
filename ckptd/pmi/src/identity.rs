//! Variables and the descriptor that make a process a rank.
#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Environment and descriptor that a process needs to be a certain rank.
#[derive(Debug)]
pub struct Identity {
    /// Variables that the environment must contain with these values.
    pub variables: Vec<(OsString, OsString)>,
    /// Variables that are set only if the user has not set them.
    pub defaults: Vec<(OsString, OsString)>,
    /// Descriptor that must be open in the process under the same number (`PMI_FD`).
    pub descriptor: Option<OwnedFd>,
}

/// Prefixes of launchers' variables that ranks must not inherit.
///
/// Other variables of MCA are settings and are inherited.
const LAUNCHER_PREFIXES: [&str; 10] = [
    "PMIX_",
    "PMI_",
    "PMI2_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "PRTE_",
    "HYDRA_",
    // Open MPI 4's mpirun sets these variables; they are not set by users.
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
    "OMPI_MCA_pmix",
];

/// True if a rank must not inherit this variable.
pub fn is_of_a_launcher(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_setting = name.starts_with(b"PMIX_MCA_") || name.starts_with(b"PRTE_MCA_");
    !is_setting
        && LAUNCHER_PREFIXES
            .iter()
            .any(|start| name.starts_with(start.as_bytes()))
}

/// Gives the process of a command the variables and the descriptor of a rank.
pub fn adopt(command: &mut Command, identity: Identity) {
    let explicit: BTreeMap<OsString, Option<OsString>> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)))
        .collect();
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
        command.env_remove(name);
    }
    for (name, value) in identity.defaults {
        let is_set = match explicit.get(&name) {
            Some(value) => value.is_some(),
            None => std::env::var_os(&name).is_some() && !is_of_a_launcher(&name),
        };
        if !is_set {
            command.env(name, value);
        }
    }
    command.envs(identity.variables);
    if let Some(descriptor) = identity.descriptor {
        // SAFETY: the closure makes only one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(move || Ok(fcntl_setfd(&descriptor, FdFlags::empty())?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(command: &Command, name: &str) -> Option<OsString> {
        let found = command.get_envs().find(|(other, _)| *other == name);
        found.and_then(|(_, value)| value.map(OsStr::to_owned))
    }

    #[test]
    fn defaults_give_way_to_what_is_set() {
        let mut command = Command::new("true");
        command.env("A", "user's");
        let identity = Identity {
            variables: vec![("V".into(), "1".into())],
            defaults: vec![("A".into(), "ours".into()), ("B".into(), "ours".into())],
            descriptor: None,
        };
        adopt(&mut command, identity);
        assert_eq!(variable(&command, "A"), Some("user's".into()));
        assert_eq!(variable(&command, "B"), Some("ours".into()));
        assert_eq!(variable(&command, "V"), Some("1".into()));
    }

    #[test]
    fn variables_of_other_launchers_are_recognised() {
        for (name, expected) in [
            ("PMIX_RANK", true),
            ("PMI_FD", true),
            ("OMPI_COMM_WORLD_RANK", true),
            ("PMIX_MCA_gds", false),
            ("OMPI_MCA_btl", false),
            ("PATH", false),
        ] {
            assert_eq!(is_of_a_launcher(OsStr::new(name)), expected, "{name}");
        }
    }
}
