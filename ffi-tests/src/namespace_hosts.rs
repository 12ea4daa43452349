//! Several hosts on one machine, made of namespaces.
//!
//! Each host has its own network, host name, processes, /dev/shm and temporary directory. A bridge
//! joins them. The namespaces have no names outside and end with this process, however it ends.

use crate::{JOB_LIMIT, Requirement, paths, skip};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Network of hosts: beginnings of addresses, to which the number of the host is appended.
#[derive(Clone, Copy)]
pub struct Network {
    addresses: &'static str,
    /// Addresses for which the names of the hosts stand.
    names: &'static str,
}

impl Network {
    pub const IPV4: Network = Network {
        addresses: "10.77.0.",
        names: "10.77.0.",
    };
    /// Hosts have IPv6 addresses only, except for loopback.
    pub const IPV6: Network = Network {
        addresses: "fd77::",
        names: "fd77::",
    };
    /// The names stand for addresses of a network that no host can reach.
    pub const WRONG_NAMES: Network = Network {
        addresses: "10.77.0.",
        names: "10.99.0.",
    };
}

/// Script that runs in the namespaces and keeps them alive.
const SCRIPT: &str = include_str!("hosts.sh");
/// Options of unshare(1): new namespaces of the first host.
///
/// The script creates those of the other hosts.
const UNSHARE: &[&str] = &[
    "--net",
    "--uts",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Hosts that exist as long as this value.
pub struct Hosts {
    directory: tempfile::TempDir,
    first: Child,
    prefix: String,
    slots: Vec<u32>,
}

impl Hosts {
    /// Creates one host for each number of slots.
    ///
    /// # Errors
    /// Fails with the system's message if namespaces are not permitted or a tool is missing.
    pub fn new(slots: &[u32]) -> Result<Hosts, String> {
        Hosts::on_network(slots, Network::IPV4)
    }

    /// Creates hosts that are joined by this network.
    ///
    /// # Errors
    /// As for [`Hosts::new`].
    pub fn on_network(slots: &[u32], network: Network) -> Result<Hosts, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let script = directory.path().join("hosts.sh");
        std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
        let prefix = format!(
            "u{}x{}n",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg("sh").arg(script).arg("first");
        command
            .arg(directory.path())
            .args([&prefix, &slots.len().to_string()])
            .args([network.addresses, network.names])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut first = command
            .spawn()
            .map_err(|error| format!("unshare(1) cannot be started: {error}"))?;
        let mut line = String::new();
        let output = first
            .stdout
            .take()
            .map(|output| BufReader::new(output).read_line(&mut line));
        if !matches!(output, Some(Ok(_))) || line != "ready\n" {
            let mut reason = String::new();
            let _ = first.kill();
            let _ = first
                .stderr
                .take()
                .map(|mut errors| errors.read_to_string(&mut reason));
            let _ = first.wait();
            return Err(reason.trim().to_owned());
        }
        Ok(Hosts {
            directory,
            first,
            prefix,
            slots: slots.to_owned(),
        })
    }

    /// True if hosts can be created; otherwise the reason is printed once.
    pub fn are_possible() -> bool {
        static POSSIBLE: OnceLock<bool> = OnceLock::new();
        *POSSIBLE.get_or_init(|| match Hosts::new(&[1, 1]) {
            Ok(_) => true,
            Err(reason) => {
                skip(
                    Requirement::Namespaces,
                    &format!(
                        "several hosts need namespaces of network, names, mounts and processes \
                     (root): {reason}"
                    ),
                );
                false
            }
        })
    }

    /// Name of a host.
    pub fn name(&self, host: usize) -> String {
        format!("{}{}", self.prefix, host + 1)
    }

    /// Substring of the names of all jobs that are started on one of the hosts.
    pub fn job_mark(&self) -> String {
        format!("-{}", self.prefix)
    }

    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Largest number of slots of a host.
    pub fn slots_per_node(&self) -> u32 {
        self.slots.iter().copied().max().unwrap_or(0)
    }

    /// Prepares a command that runs in the namespaces of the first host.
    fn enter(&self) -> Command {
        let namespaces = format!("/proc/{}/ns", self.first.id());
        let mut command = Command::new("nsenter");
        command.args([
            format!("--net={namespaces}/net"),
            format!("--uts={namespaces}/uts"),
            format!("--mount={namespaces}/mnt"),
            format!("--pid={namespaces}/pid_for_children"),
        ]);
        command
    }

    /// Path of a command that starts a command on a host, as ssh does.
    pub fn agent(&self) -> PathBuf {
        self.directory.path().join("agent")
    }

    fn names(&self) -> String {
        let name = |(host, slots): (usize, &u32)| format!("{}:{slots}", self.name(host));
        let names: Vec<String> = self.slots.iter().enumerate().map(name).collect();
        names.join(",")
    }

    /// Prepares a command on a host; the command is killed when this thread ends.
    pub fn on(&self, host: usize, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let enter = self.enter();
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(enter.get_program())
            .args(enter.get_args());
        if host > 0 {
            command.arg(self.agent()).arg(self.name(host));
        }
        command.args(words);
        command
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Directory for files of this test, visible on all hosts.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Prepares a command on the first host, in `directory`.
    ///
    /// TMPDIR names the temporary directory, which each host has mounted for itself.
    pub fn enter_at(&self, directory: &Path) -> Command {
        let mut command = self.enter();
        let mut option = std::ffi::OsString::from("--wdns=");
        option.push(directory);
        command
            .arg(option)
            .env("TMPDIR", self.directory.path().join("tmp"));
        command
    }

    /// Prepares `understudy run OPTIONS` for a job on all hosts, which ends after [`JOB_LIMIT`].
    pub fn run(&self, directory: &Path, options: &[&str]) -> Command {
        let mut command = self.enter_at(directory);
        command
            .args(["timeout", &JOB_LIMIT.as_secs().to_string()])
            .arg(paths::product("understudy"))
            .args(["run", "--host", &self.names(), "--agent"])
            .arg(self.agent())
            .args(options)
            .env("OMPI_MCA_btl", "self,sm,tcp")
            .env("OMPI_MCA_mpi_yield_when_idle", "1");
        command
    }

    /// Prepares `mpirun` on the first host, with options that start ranks on all hosts.
    pub fn launcher(&self, mpirun: PathBuf, directory: &Path, by: &str) -> Command {
        let mut command = self.enter_at(directory);
        command
            .arg(mpirun)
            .args(["--prtemca", "plm_ssh_agent"])
            .arg(self.agent())
            .args(["--host", &self.names(), "--map-by", by]);
        command
    }

    /// Prepares MPICH's `mpiexec` on the first host, with options that start ranks on all hosts.
    pub fn mpiexec(&self, mpiexec: PathBuf, directory: &Path) -> Command {
        let mut command = self.enter_at(directory);
        command.arg(mpiexec);
        // With `-launcher ssh`, mpiexec passes an option that the agent does not support.
        command
            .args(["-launcher", "rsh", "-launcher-exec"])
            .arg(self.agent());
        command.args(["-hosts", &self.names()]);
        command
    }

    /// Prepares `ckptd launch` on the first host, with options that start ranks on all hosts.
    pub fn launch(&self, directory: &Path, by: &str) -> Command {
        let mut command = self.enter_at(directory);
        command
            .arg(paths::ckptd())
            .arg("launch")
            .arg("--agent")
            .arg(self.agent());
        command.args(["--host", &self.names(), "--map-by", by]);
        command
    }

    /// Kills all processes of a host at once; the host must not be the first.
    ///
    /// Returns true if the host's namespaces could be ended.
    pub fn lose(&self, host: usize) -> bool {
        let Ok(pid) = std::fs::read_to_string(self.directory.path().join(self.name(host))) else {
            return false;
        };
        // The PID is valid in the first host's PID namespace.
        let killed = self.enter().args(["kill", "-KILL", pid.trim()]).status();
        killed.is_ok_and(|status| status.success())
    }

    /// Disconnects the network of a host, which must not be the first.
    ///
    /// Returns true if the host was disconnected.
    pub fn cut_off(&self, host: usize) -> bool {
        let device = format!("to{}", host + 1);
        let cut = self
            .enter()
            .args(["ip", "link", "set", &device, "down"])
            .status();
        cut.is_ok_and(|status| status.success())
    }

    /// Stops the node manager of a host by SIGSTOP, for this time; returns at once.
    ///
    /// Returns true if the manager was found.
    pub fn stall_manager(&self, host: usize, time: Duration) -> bool {
        let time = time.as_secs_f64();
        let stall = format!("kill -STOP $p && echo stopped && sleep {time} && kill -CONT $p");
        self.with_manager(host, &stall)
    }

    /// Kills the node manager of a host; returns true if the manager was found.
    pub fn kill_manager(&self, host: usize) -> bool {
        self.with_manager(host, "kill -KILL $p && echo killed")
    }

    /// Executes shell commands for the manager `$p` of a host.
    ///
    /// Returns true once the commands have printed something.
    fn with_manager(&self, host: usize, commands: &str) -> bool {
        // The first host shows the processes of the other hosts as well.
        let script = format!(
            "own=$(readlink /proc/self/ns/uts); for p in $(pgrep -f '[c]kptd manage'); do if [ \
             $(readlink /proc/$p/ns/uts) = $own ]; then {commands}; fi; done",
        );
        self.start_script(host, &script)
    }

    /// Cuts off a host and stops all of its processes.
    ///
    /// The processes continue after `frozen`, and the network after `cut_off`. The host must not
    /// be the first. Returns at once, with true if the host was found.
    pub fn freeze(&self, host: usize, frozen: Duration, cut_off: Duration) -> bool {
        let Ok(pid) = std::fs::read_to_string(self.directory.path().join(self.name(host))) else {
            return false;
        };
        // The script runs on the first host, which shows all processes. nsenter(1) stops itself
        // when its child is stopped; if it was stopped twice, it would have to continue twice.
        let freeze = format!(
            "host=$(readlink /proc/{}/ns/uts); all=$(for p in $(ls /proc | grep '^[0-9]'); do if [ \
             \"$(readlink /proc/$p/ns/uts)\" = $host ]; then echo $p; fi; done); kill -STOP $(for \
             p in $all; do grep -qx nsenter /proc/$p/comm || echo $p; done); echo stopped; sleep \
             {}; kill -CONT $all 2> /dev/null",
            pid.trim(),
            frozen.as_secs_f64()
        );
        let heal = format!(
            "echo begun; sleep {}; ip link set to{} up",
            cut_off.as_secs_f64(),
            host + 1
        );
        self.cut_off(host) && self.start_script(0, &freeze) && self.start_script(0, &heal)
    }

    /// Starts a shell script on a host, and waits for its first line.
    ///
    /// Returns true if the script has printed a line.
    fn start_script(&self, host: usize, script: &str) -> bool {
        let words = ["sh", "-c", script];
        // The agent of the other hosts starts a shell itself.
        let mut command = self.on(host, if host == 0 { &words } else { &words[2..] });
        command.stdout(Stdio::piped());
        let (sender, first_line) = std::sync::mpsc::channel();
        // The script is killed when the thread that has started it ends.
        std::thread::spawn(move || {
            let Ok(mut child) = command.spawn() else {
                return;
            };
            let mut line = String::new();
            let output = child.stdout.take().map(BufReader::new);
            let length = output.map(|mut output| output.read_line(&mut line));
            let _ = sender.send(matches!(length, Some(Ok(1..))));
            let _ = child.wait();
        });
        first_line.recv().unwrap_or(false)
    }

    /// Files in /dev/shm of all hosts.
    pub fn shared_memory(&self) -> Vec<String> {
        let list = |host: usize| {
            let found = self.on(host, &["find", "/dev/shm", "-type", "f"]).output();
            let found = found.map(|found| found.stdout).unwrap_or_default();
            String::from_utf8_lossy(&found)
                .lines()
                .map(|path| format!("{}:{path}", self.name(host)))
                .collect::<Vec<_>>()
        };
        (0..self.slots.len()).flat_map(list).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.first.stdin.take());
        let _ = self.first.wait();
    }
}
