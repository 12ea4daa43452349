//! The environment of a job.

use bincode::{Decode, Encode};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use understudy_pmi::is_of_a_launcher;

/// An operating-system string, as bytes.
pub type Text = Vec<u8>;

/// Prefixes of variables that describe the host on which the job is started.
const OF_HOST: [&str; 4] = ["HOSTNAME", "SSH_", "XDG_", "DBUS_"];

/// Environment of the job, for hosts that have another environment.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Environment(Vec<(Text, Text)>);

impl Environment {
    /// Returns this process's environment without variables of the launcher and the host.
    pub fn own() -> Environment {
        let is_of_host = |name: &OsStr| {
            OF_HOST
                .iter()
                .any(|start| name.as_bytes().starts_with(start.as_bytes()))
        };
        let of_job = std::env::vars_os().filter(|(name, _)| !is_of_launcher_or(name, is_of_host));
        Environment(
            of_job
                .map(|(name, value)| (name.into_vec(), value.into_vec()))
                .collect(),
        )
    }

    /// Returns the value of a variable.
    pub fn value(&self, name: &str) -> Option<OsString> {
        let mut all = self.0.iter();
        all.find(|(found, _)| found == name.as_bytes())
            .map(|(_, value)| OsString::from_vec(value.clone()))
    }

    /// Adds the variables to those that a command inherits from its host.
    pub fn give_to(&self, command: &mut Command) {
        command.envs(
            self.0
                .iter()
                .map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))),
        );
    }
}

fn is_of_launcher_or(name: &OsStr, other: impl Fn(&OsStr) -> bool) -> bool {
    is_of_a_launcher(name) || other(name)
}
