//! Attacks by another user of the node.
//!
//! The attacks run in namespaces, which have no names outside and end with the test.

use crate::{Requirement, paths, skip};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Script that creates two users' surroundings and runs another script there.
const SETTING: &str = include_str!("users.sh");
/// Seconds after which all processes of a script are killed.
const LIMIT: &str = "100";

/// Runs a shell script in the setting of `users.sh`.
///
/// The script may use `$layer`, the `understudy` command, and `$examples` and `$programs`,
/// directories of programs. Returns `None`, and prints the reason, if two users are not possible.
///
/// # Panics
/// Panics if no temporary directory can be made.
pub fn run(script: &str) -> Option<Output> {
    paths::wait_for_turn();
    let possible = perform("echo possible");
    if possible.stdout != b"possible\n" {
        let reason = String::from_utf8_lossy(&possible.stderr);
        skip(
            Requirement::Namespaces,
            &format!(
                "two users need root, setpriv, and namespaces of mounts and processes: {}",
                reason.trim()
            ),
        );
        return None;
    }
    Some(perform(script))
}

fn perform(script: &str) -> Output {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("the directory belongs to this user");
    let [setting, own] = ["users.sh", "script.sh"].map(|name| directory.path().join(name));
    std::fs::write(&setting, SETTING).expect("writable");
    std::fs::write(&own, script).expect("writable");
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", LIMIT, "unshare", "--mount", "--pid", "--fork"])
        .args(["--kill-child", "--mount-proc", "sh"])
        .arg(setting)
        .arg(directory.path())
        .arg(paths::workspace())
        .arg(own)
        .env("layer", paths::product("understudy"))
        .env("examples", paths::workspace().join("build/examples"))
        .env("programs", paths::workspace().join("build/programs"));
    command.output().expect("timeout(1) is there")
}

/// Fails unless a script has printed exactly these lines.
///
/// # Panics
/// Panics if the script has printed other lines.
#[track_caller]
pub fn assert_lines(output: &Output, lines: &[&str]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    let found: Vec<&str> = printed.lines().collect();
    assert_eq!(found, lines, "{printed}{}", text(&output.stderr));
}
