//! A Slurm of one node, with a configuration of its own, that runs as this user and asks for no credentials.

use crate::place;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the daemons may take to know each other.
const READY: Duration = Duration::from_secs(20);

/// Both daemons. They end with this value, or with the thread that has started them.
pub struct Slurm {
    directory: tempfile::TempDir,
    daemons: Vec<Child>,
}

/// How jobs are started there.
#[derive(Clone, Debug)]
pub struct Srun {
    configuration: PathBuf,
    /// Which process manager ranks get (`--mpi`).
    mpi: &'static str,
}

/// Where `make slurm` has unpacked the packages.
fn tree() -> PathBuf {
    place::workspace().join(".env/slurm")
}

fn libraries() -> PathBuf {
    tree().join("usr/lib/x86_64-linux-gnu/slurm-wlm")
}

fn command(program: &str, configuration: &Path) -> Command {
    let mut command = Command::new(tree().join("usr").join(program));
    configure(&mut command, configuration);
    command
}

fn configure(command: &mut Command, configuration: &Path) {
    command
        .env("SLURM_CONF", configuration)
        .env("LD_LIBRARY_PATH", libraries());
}

fn configuration(place: &Path) -> String {
    let ports = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are ports"));
    let [controller, node] = ports.map(|port| port.local_addr().expect("it is bound").port());
    let (plugins, place) = (libraries(), place.display());
    let user = rustix::process::geteuid().as_raw();
    format!(
        "ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/linear
NodeName=localhost CPUs=1
PartitionName=all Nodes=ALL Default=YES
",
        plugins = plugins.display()
    )
}

impl Slurm {
    /// Starts one; `None` if its programs are not there, which is said.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start() -> Option<Slurm> {
        if !tree().join("usr/bin/srun").is_file() {
            place::skip("there is no Slurm in .env/slurm; `make slurm` brings it");
            return None;
        }
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let text = configuration(directory.path());
        std::fs::create_dir(directory.path().join("state")).expect("the directory is writable");
        let file = directory.path().join("slurm.conf");
        std::fs::write(&file, text).expect("the directory is writable");
        let step = tree().join("usr/sbin/slurmstepd-wlm");
        let daemon = |name: &str, options: &[&str]| {
            let mut daemon = Command::new("setpriv");
            configure(&mut daemon, &file);
            daemon.args(["--pdeathsig", "KILL", "--"]);
            daemon.arg(tree().join("usr/sbin").join(name)).arg("-D").args(options);
            daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            daemon.spawn().expect("util-linux is there")
        };
        let daemons = vec![
            daemon("slurmctld-wlm", &[]),
            daemon("slurmd-wlm", &["-N", "localhost", "-d", &step.to_string_lossy()]),
        ];
        let slurm = Slurm { directory, daemons };
        slurm.await_node();
        Some(slurm)
    }

    fn await_node(&self) {
        let began = Instant::now();
        loop {
            let mut sinfo = command("bin/sinfo", &self.configuration());
            let state = sinfo.args(["--noheader", "--format=%t"]).output();
            let state = state.map(|output| output.stdout).unwrap_or_default();
            if state == b"idle\n" {
                return;
            }
            let log = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
            assert!(
                began.elapsed() < READY,
                "the node is {:?}\n{}{}",
                String::from_utf8_lossy(&state),
                log("slurmctld.log"),
                log("slurmd.log")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("slurm.conf")
    }

    /// Jobs with this process manager.
    pub fn srun(&self, mpi: &'static str) -> Srun {
        Srun {
            configuration: self.configuration(),
            mpi,
        }
    }
}

impl Srun {
    /// So many ranks on one node, whatever its processors are.
    pub fn command(&self, ranks: u32) -> Command {
        let mut command = command("bin/srun", &self.configuration);
        command.args(["--overcommit", "--mpi", self.mpi, "--ntasks", &ranks.to_string()]);
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
