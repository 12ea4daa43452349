//! The environment of a job.

use bincode::{Decode, Encode};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use understudy_pmi::is_of_a_launcher;

/// An operating-system string, as bytes.
pub type Text = Vec<u8>;

/// Prefixes of variables that describe the host on which the job is started.
const HOST_PREFIXES: [&str; 4] = ["HOSTNAME", "SSH_", "XDG_", "DBUS_"];

/// Variables of the environment of a job.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub struct Environment(Vec<(Text, Text)>);

impl Environment {
    /// Returns this process's environment without variables of launchers and of this host.
    pub fn own() -> Environment {
        let is_of_host = |name: &OsStr| {
            HOST_PREFIXES
                .iter()
                .any(|start| name.as_bytes().starts_with(start.as_bytes()))
        };
        Environment::of(
            std::env::vars_os().filter(|(name, _)| !is_of_a_launcher(name) && !is_of_host(name)),
        )
    }

    /// Returns an environment of these variables.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        let variables = variables.into_iter();
        Environment(
            variables
                .map(|(name, value)| (name.into_vec(), value.into_vec()))
                .collect(),
        )
    }

    /// Adds variables, which replace those of equal names.
    pub fn with(mut self, variables: &Environment) -> Environment {
        // Of equal names the last is in force (`Environment::value`, `Command::envs`).
        self.0.extend_from_slice(&variables.0);
        self
    }

    /// Returns the names and values.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let variables = self.0.iter();
        variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
    }

    /// Returns the value of a variable.
    pub fn value(&self, name: &str) -> Option<OsString> {
        let mut all = self.0.iter().rev();
        all.find(|(found, _)| found == name.as_bytes())
            .map(|(_, value)| OsString::from_vec(value.clone()))
    }

    /// Adds the variables to those that a command inherits from this process.
    pub fn give_to(&self, command: &mut Command) {
        command.envs(self.variables());
    }
}
