//! Connections of another user, for tests of several crates, which include this file.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Connects to a port of this host as another user; only root can do so.
///
/// Returns a process that connects, and exits as soon as its connection is closed; `None` if this
/// user is not root.
pub fn connect_as_another_user(port: u16) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        println!("not root: the attack of another user is not tried");
        return None;
    }
    let script = "exec 3<>/dev/tcp/127.0.0.1/$0 && cat <&3 > /dev/null";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(port.to_string());
    command
        .uid(65534)
        .gid(65534)
        .current_dir("/")
        .stderr(Stdio::null());
    Some(command.spawn().expect("bash(1) is there"))
}

/// Returns true if a process exits within a second; otherwise kills the process.
pub fn exits_soon(mut process: Child) -> bool {
    for _ in 0..100 {
        if process.try_wait().is_ok_and(|status| status.is_some()) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let _ = process.kill();
    let _ = process.wait();
    false
}
