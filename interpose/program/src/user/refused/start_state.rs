//! Credentials, namespaces and similar state, which a process must not change after its start.

use crate::kernel_state::attributes::NAMESPACES;
use crate::kernel_state::{self, STATUS};
use crate::user::UserError;
use std::path::PathBuf;
use understudy_formats::proc_file::ProcFile;

/// State at the start of the process that must not change.
#[derive(Debug)]
pub struct StartState {
    /// Fields of `/proc/self/status` that are refused if they have changed.
    status: Vec<(String, String)>,
    namespaces: Vec<Option<PathBuf>>,
}

impl StartState {
    /// State of a process that has not recorded its start yet.
    pub const NONE: StartState = StartState {
        status: Vec::new(),
        namespaces: Vec::new(),
    };

    /// Returns the current state of this process.
    pub fn read() -> StartState {
        StartState {
            status: status(),
            namespaces: namespaces(),
        }
    }

    /// Refuses status fields, namespaces and a root directory that differ from those at the start.
    pub fn check(&self) -> Result<(), UserError> {
        let now = status();
        if let Some((name, _)) = now.iter().find(|field| !self.status.contains(field)) {
            let why = kernel_state::refusal(STATUS, name).unwrap_or_default();
            let what = format!("another value of {name} (/proc/self/status) than at its start");
            return Err(refused_state(what, why));
        }
        let changed = self
            .namespaces
            .iter()
            .zip(namespaces())
            .zip(NAMESPACE_LINKS);
        match changed.into_iter().find(|((then, now), _)| *then != now) {
            Some((_, place)) => Err(refused_state(
                format!("another /proc/self/{place} than at its start"),
                NAMESPACES,
            )),
            None => Ok(()),
        }
    }
}

/// Namespaces and the root directory, by their links in `/proc/self`.
const NAMESPACE_LINKS: [&str; 8] = [
    "ns/cgroup",
    "ns/ipc",
    "ns/mnt",
    "ns/net",
    "ns/time",
    "ns/user",
    "ns/uts",
    "root",
];

fn status() -> Vec<(String, String)> {
    static FIELDS: ProcFile = ProcFile::new("/proc/self/status");
    let text = FIELDS.read().unwrap_or_default();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        kernel_state::refusal(STATUS, name)?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(field).collect()
}

fn namespaces() -> Vec<Option<PathBuf>> {
    let link = |place| std::fs::read_link(format!("/proc/self/{place}")).ok();
    NAMESPACE_LINKS.into_iter().map(link).collect()
}

/// Returns the refusal of state in the kernel.
pub fn refused_state(what: impl Into<String>, why: &'static str) -> UserError {
    UserError::KernelState {
        what: what.into(),
        why,
    }
}
