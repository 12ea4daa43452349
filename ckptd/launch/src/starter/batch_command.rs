//! Commands of batch systems.

use crate::tied_child::die_with_parent;
use std::process::{Command, Stdio};

/// Returns the standard output of a command, without blanks at its ends.
///
/// # Errors
/// Fails with the reason if the command cannot be executed, or with its message if it fails.
pub fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // With this variable, `scontrol update` writes scripts into the working directory.
    command.env_remove("SLURM_JOB_ID");
    die_with_parent(&mut command);
    let output = command.output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr).replace('\n', "; ")),
    }
}
