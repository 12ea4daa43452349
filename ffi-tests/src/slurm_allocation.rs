//! An allocation of Slurm, in which `understudy run` finds its hosts.

use crate::namespace_hosts::Hosts;
use crate::page_scripts;
use crate::slurm_installation::{Slurm, configure, programs};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Host of the first node; the host before it has the controller only.
pub const FIRST_NODE: usize = 1;

/// Script that submits a batch job and waits for its end.
const BATCH_JOB: &str = include_str!("batch_job.sh");

/// Script that executes a command on the first node.
///
/// GRANTED_TIME, unless it is empty, limits the time of each start in seconds.
const COMMAND_SCRIPT: &str = r#"#!/bin/sh
[ -z "$GRANTED_TIME" ] || scontrol update JobId="$SLURM_JOB_ID" EndTime="now+$GRANTED_TIME"
exec "$@"
"#;

/// Allocation of a job.
///
/// Hosts with slots are nodes, each with as many tasks as slots.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// True for a script on the first node, false for salloc beside the controller.
    is_batch: bool,
    /// Batch script, which states nodes and tasks itself, and its PATH.
    script: Option<(String, OsString)>,
    options: &'static [&'static str],
    /// Time of each start, in seconds; `None` without a limit.
    time_s: Option<u32>,
}

impl Allocation {
    /// Allocation of a batch job, with options of sbatch.
    pub fn batch(options: &'static [&'static str]) -> Allocation {
        Allocation {
            is_batch: true,
            script: None,
            options,
            time_s: None,
        }
    }

    /// Allocation of a command on the controller's host, with options of salloc.
    pub fn interactive(options: &'static [&'static str]) -> Allocation {
        Allocation {
            is_batch: false,
            script: None,
            options,
            time_s: None,
        }
    }

    /// Batch job of a whole script, whose commands are on this PATH.
    ///
    /// Nodes and tasks are those of the `#SBATCH` lines, and the program is what the script names.
    pub fn of_script(script: &str, path: OsString) -> Allocation {
        Allocation {
            script: Some((script.to_owned(), path)),
            ..Allocation::batch(&[])
        }
    }

    /// True if the job is a script that contains its command.
    pub(crate) fn has_command(&self) -> bool {
        self.script.is_some()
    }

    /// Limits the time of each start, in seconds.
    pub fn time_limit(mut self, time_s: u32) -> Allocation {
        self.time_s = Some(time_s);
        self
    }

    /// True if the job does not outlive this host.
    pub fn needs(&self, host: usize) -> bool {
        self.is_batch && host == FIRST_NODE
    }

    /// Prepares a command that runs in the allocation, in `root/work`.
    pub(crate) fn command(&self, slurm: &SlurmCommands, hosts: &Hosts, root: &Path) -> Command {
        let (slots, work) = (hosts.slots_per_node(), root.join("work"));
        let tasks = format!("--ntasks-per-node={slots}");
        let mut command = hosts.enter_at(&work);
        slurm.configure(&mut command);
        if let Some((_, path)) = &self.script {
            set_path(&mut command, path);
        }
        if self.is_batch {
            let text = self
                .script
                .as_ref()
                .map_or(COMMAND_SCRIPT, |(text, _)| text);
            for (name, text) in [("batch_job.sh", BATCH_JOB), ("script", text)] {
                std::fs::write(root.join(name), text).expect("the directory is writable");
            }
            let first: &[&str] = if self.has_command() { &[] } else { &[&tasks] };
            let options = [first, self.options].concat().join(" ");
            let time = self.time_s.map_or(String::new(), |time| time.to_string());
            command.arg("sh").arg(root.join("batch_job.sh")).arg(root);
            command.arg(options).env("GRANTED_TIME", time);
        } else {
            command.args(["salloc", "--quiet", &tasks]);
            command.args(self.options);
        }
        command
    }
}

/// Puts the commands of Slurm in front of a PATH.
fn set_path(command: &mut Command, path: &OsStr) {
    let path = std::iter::once(programs()).chain(std::env::split_paths(path));
    command.env("PATH", std::env::join_paths(path).expect("no colon"));
}

/// Result of a batch script.
#[derive(Debug)]
pub struct BatchResult {
    /// True if the script has exited with 0.
    pub is_success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Commands of a running Slurm.
#[derive(Clone, Debug)]
pub struct SlurmCommands {
    configuration: PathBuf,
}

impl SlurmCommands {
    fn configure(&self, command: &mut Command) {
        configure(command, &self.configuration);
        let path = std::env::var_os("PATH").unwrap_or_default();
        set_path(command, &path);
    }

    /// Prepares a command of Slurm on the controller's host.
    pub fn command(&self, hosts: &Hosts, words: &[&str]) -> Command {
        let mut command = hosts.on(0, words);
        self.configure(&mut command);
        command
    }
}

impl Slurm {
    /// Commands of this Slurm.
    pub fn commands(&self) -> SlurmCommands {
        let configuration = self.configuration();
        SlurmCommands { configuration }
    }

    /// Submits a script in a directory, and waits until it has ended.
    ///
    /// `variables` are those of the user's shell, which Slurm passes on.
    ///
    /// # Panics
    /// Panics if the script cannot be submitted.
    pub fn run_script(
        &self,
        hosts: &Hosts,
        directory: &Path,
        script: &str,
        variables: &[(&str, &str)],
    ) -> BatchResult {
        let file = directory.join("script");
        std::fs::write(&file, script).expect("the directory is writable");
        let (slurm, products) = (self.commands(), page_scripts::Commands::new());
        let output = |words: &[&str]| {
            let mut command = slurm.command(hosts, words);
            set_path(&mut command, &products.path());
            command.env("TMPDIR", hosts.directory().join("tmp"));
            command.envs(variables.iter().copied()).stdin(Stdio::null());
            let output = command.output().expect("the command can be executed");
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {errors}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let [place, file] = [directory, &file].map(|path| path.to_string_lossy());
        let chdir = format!("--chdir={place}");
        let [out, err] = ["output", "error"].map(|name| format!("--{name}={place}/{name}"));
        let job = output(&["sbatch", "--parsable", &chdir, &out, &err, &file]);
        let query = format!("--jobs={job}");
        let query = [
            "squeue",
            "--noheader",
            "--states=all",
            &query,
            "--format=%T",
        ];
        let state = loop {
            let state = output(&query);
            if !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"].contains(&state.as_str()) {
                break state;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let read = |name| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
        BatchResult {
            is_success: state == "COMPLETED",
            stdout: read("output"),
            stderr: read("error"),
        }
    }

    /// Returns the command by which Slurm learns that a host is lost.
    ///
    /// Slurm then ends the jobs that have the host, as after SlurmdTimeout.
    pub fn declare_down(&self, hosts: &Hosts, lost: usize) -> Command {
        let name = format!("NodeName={}", hosts.name(lost));
        let words = ["scontrol", "update", &name, "State=DOWN", "Reason=lost"];
        self.commands().command(hosts, &words)
    }
}
