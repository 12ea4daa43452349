//! Commands of batch systems.

use crate::tied_child::die_with_parent;
use std::process::{Command, Stdio};

/// Prepares a command, which ends with this thread.
///
/// Commands of Slurm print times as seconds since 1970.
pub fn batch_command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // `scontrol update` would write scripts for the user's shell into the working directory.
    command.current_dir("/proc");
    command.env("SLURM_TIME_FORMAT", "%s");
    die_with_parent(&mut command);
    command
}

/// Returns the standard output of a command, without blanks at its ends.
///
/// # Errors
/// Fails with the reason if the command cannot be executed, or with its message if it fails.
pub fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = batch_command(program, arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr).replace('\n', "; ")),
    }
}
