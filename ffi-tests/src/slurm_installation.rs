//! A Slurm installation on this machine, or on several hosts.
//!
//! The installation has its own configuration, runs as this user, and needs no credentials.

use crate::namespace_hosts::Hosts;
use crate::{Requirement, paths, skip};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that the daemons may take until all nodes are ready.
const READY: Duration = Duration::from_secs(20);

/// Running daemons of Slurm.
///
/// The daemons exit when this value is dropped, or with the thread that started them.
pub struct Slurm {
    directory: tempfile::TempDir,
    daemons: Vec<Child>,
    /// The command that prints the states of the nodes.
    states: Command,
}

/// Options of srun for a job.
#[derive(Clone, Debug)]
pub struct Srun {
    configuration: PathBuf,
    /// Process manager of the ranks (`--mpi`).
    mpi: &'static str,
}

/// Directory into which `make slurm` has unpacked the packages.
fn tree() -> PathBuf {
    paths::workspace().join(".env/slurm")
}

fn libraries() -> PathBuf {
    tree().join("usr/lib/x86_64-linux-gnu/slurm-wlm")
}

fn program(name: &str) -> String {
    tree().join("usr").join(name).to_string_lossy().into_owned()
}

pub(crate) fn programs() -> PathBuf {
    tree().join("usr/bin")
}

pub(crate) fn configure(command: &mut Command, configuration: &Path) {
    command
        .env("SLURM_CONF", configuration)
        .env("LD_LIBRARY_PATH", libraries());
}

/// Returns the text of topology.conf: leaf switches with their nodes, and the switch above them.
fn topology(switches: &BTreeMap<u32, Vec<String>>) -> String {
    let leaf = |(switch, nodes): (&u32, &Vec<String>)| {
        format!("SwitchName=rack{switch} Nodes={}\n", nodes.join(","))
    };
    let leaves: String = switches.iter().map(leaf).collect();
    let names: Vec<String> = switches
        .keys()
        .map(|switch| format!("rack{switch}"))
        .collect();
    format!("{leaves}SwitchName=top Switches={}\n", names.join(","))
}

/// Returns the text of slurm.conf.
fn configuration(place: &Path, controller_host: &str, nodes: &[String]) -> String {
    let ports = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are ports"));
    let [controller, node] = ports.map(|port| port.local_addr().expect("the port is bound").port());
    let all = nodes.join(",");
    let (plugins, place) = (libraries(), place.display());
    let user = rustix::process::geteuid().as_raw();
    format!(
        "ClusterName=test
SlurmctldHost={controller_host}
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/linear
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={all} CPUs=8
PartitionName=all Nodes=ALL Default=YES GraceTime=60
PartitionName=urgent Nodes=ALL PriorityTier=10
",
        plugins = plugins.display()
    )
}

impl Slurm {
    /// Starts Slurm on this machine.
    ///
    /// Returns `None`, and prints the reason, if Slurm is not installed.
    ///
    /// # Panics
    /// Panics if the nodes do not become ready.
    pub fn start() -> Option<Slurm> {
        let on = |_, words: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).args(words);
            command
        };
        Slurm::is_there().then(|| {
            let directory = tempfile::tempdir().expect("there is room for temporary files");
            Slurm::start_daemons(directory, &["localhost".into()], &[1], "", on)
        })
    }

    /// Starts Slurm on these hosts.
    ///
    /// The controller runs on the first one. Hosts without slots are not nodes. `switches` has the
    /// leaf switch of each host; without it, the network has no description.
    ///
    /// # Panics
    /// Panics if the nodes do not become ready.
    pub fn on(hosts: &Hosts, switches: &[u32]) -> Slurm {
        let names: Vec<String> = (0..hosts.count()).map(|host| hosts.name(host)).collect();
        let directory = tempfile::tempdir_in(hosts.directory());
        let directory = directory.expect("there is room for temporary files");
        let mut plugin = String::new();
        if !switches.is_empty() {
            let mut nodes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            let all = names.iter().zip(switches).zip(hosts.slots());
            for ((name, switch), _) in all.filter(|(_, slots)| **slots > 0) {
                nodes.entry(*switch).or_default().push(name.clone());
            }
            let file = directory.path().join("topology.conf");
            std::fs::write(file, topology(&nodes)).expect("the directory is writable");
            plugin = "TopologyPlugin=topology/tree\n".to_owned();
        }
        Slurm::start_daemons(directory, &names, hosts.slots(), &plugin, |host, words| {
            hosts.on(host, words)
        })
    }

    /// True if Slurm is installed; otherwise prints that Slurm is missing.
    pub fn is_there() -> bool {
        let is_there = tree().join("usr/bin/srun").is_file();
        if !is_there {
            skip(
                Requirement::Slurm,
                "there is no Slurm in .env/slurm; `make slurm` brings it",
            );
        }
        is_there
    }

    fn start_daemons(
        directory: tempfile::TempDir,
        names: &[String],
        slots: &[u32],
        topology: &str,
        on: impl Fn(usize, &[&str]) -> Command,
    ) -> Slurm {
        let nodes = names.iter().zip(slots).filter(|(_, slots)| **slots > 0);
        let nodes: Vec<String> = nodes.map(|(name, _)| name.clone()).collect();
        let text = configuration(directory.path(), &names[0], &nodes) + topology;
        std::fs::create_dir(directory.path().join("state")).expect("the directory is writable");
        let file = directory.path().join("slurm.conf");
        std::fs::write(&file, text).expect("the directory is writable");
        let start = |host, words: &[&str]| {
            let mut daemon = on(host, words);
            configure(&mut daemon, &file);
            daemon
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            daemon.spawn().expect("util-linux is there")
        };
        let step = program("sbin/slurmstepd-wlm");
        let node = |(host, name): (usize, &String)| {
            start(
                host,
                &[&program("sbin/slurmd-wlm"), "-D", "-N", name, "-d", &step],
            )
        };
        let mut daemons = vec![start(0, &[&program("sbin/slurmctld-wlm"), "-D"])];
        let is_node = |(_, name): &(usize, &String)| nodes.contains(name);
        daemons.extend(names.iter().enumerate().filter(is_node).map(node));
        let mut states = on(0, &[&program("bin/sinfo"), "--noheader", "--format=%t"]);
        configure(&mut states, &file);
        let mut slurm = Slurm {
            directory,
            daemons,
            states,
        };
        slurm.await_nodes();
        slurm
    }

    fn await_nodes(&mut self) {
        let began = Instant::now();
        loop {
            let states = self
                .states
                .output()
                .map(|output| output.stdout)
                .unwrap_or_default();
            if states == b"idle\n" {
                return;
            }
            let log = std::fs::read_to_string(self.directory.path().join("slurmctld.log"))
                .unwrap_or_default();
            assert!(
                began.elapsed() < READY,
                "the nodes are {:?}\n{log}",
                String::from_utf8_lossy(&states)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.path().join("slurm.conf")
    }

    /// Loads a plug-in (spank(7)), by a line of plugstack.conf.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn load_plugin(&self, line: &str) {
        let file = self.configuration().with_file_name("plugstack.conf");
        std::fs::write(file, line).expect("the directory is writable");
    }

    /// Returns the directory of Slurm's headers.
    pub fn headers() -> PathBuf {
        tree().join("usr/include")
    }

    /// Returns the options for jobs with this process manager.
    pub fn srun(&self, mpi: &'static str) -> Srun {
        Srun {
            configuration: self.configuration(),
            mpi,
        }
    }
}

impl Srun {
    /// Returns the srun command for `ranks` ranks on all of these hosts, in a directory.
    ///
    /// Without hosts, the ranks run on this machine. The number of processors does not limit the
    /// number of ranks.
    pub fn command(&self, ranks: u32, hosts: Option<(&Hosts, &Path)>) -> Command {
        let mut command = match hosts {
            Some((hosts, directory)) => hosts.enter_at(directory),
            None => Command::new("env"),
        };
        configure(&mut command, &self.configuration);
        let nodes = hosts.map_or(1, |(hosts, _)| hosts.count()).to_string();
        command
            .arg(program("bin/srun"))
            .args(["--overcommit", "--nodes", &nodes]);
        command.args(["--mpi", self.mpi, "--ntasks", &ranks.to_string()]);
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
