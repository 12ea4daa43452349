//! A job of Grid Engine, in which `understudy run` finds its hosts.

use crate::namespace_hosts::Hosts;
use crate::{Requirement, paths, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Script that starts Grid Engine, submits a job and waits for its end.
const SCRIPT: &str = include_str!("grid_engine_job.sh");

/// Directory into which `make gridengine` has unpacked the packages.
fn tree() -> PathBuf {
    paths::workspace().join(".env/gridengine")
}

/// True if Grid Engine is installed; otherwise prints that Grid Engine is missing.
pub fn is_there() -> bool {
    let is_there = tree().join("usr/share/gridengine").is_dir();
    if !is_there {
        skip(
            Requirement::GridEngine,
            "there is no Grid Engine in .env/gridengine; `make gridengine` brings it",
        );
    }
    is_there
}

/// Prepares a command that runs in a job of Grid Engine, in `root/work`.
///
/// The master runs on the first host. The job has all slots of the other hosts, each of which has
/// the same number.
pub(crate) fn command(hosts: &Hosts, root: &Path) -> Command {
    let script = root.join("grid_engine_job.sh");
    std::fs::write(&script, SCRIPT).expect("the directory is writable");
    let nodes: Vec<String> = (1..hosts.count()).map(|host| hosts.name(host)).collect();
    let slots = hosts.slots_per_node().to_string();
    let mut command = hosts.enter_at(&root.join("work"));
    command.arg("sh").arg(script).arg(tree()).arg(root);
    command.arg(hosts.agent()).args([slots, nodes.join(" ")]);
    command
}
