//! A job to run: its program, launcher, settings, and failures.

mod batch_job;
mod launcher_command;
mod running_job;
mod start;

use crate::JOB_LIMIT;
use crate::kill::{Kill, Trigger};
use crate::namespace_hosts::{Hosts, Network};
use crate::paths::{self, Launcher};
use crate::processes;
use crate::slurm_allocation::{Allocation, SlurmCommands};
use crate::slurm_installation::Srun;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of a file in the working directory that becomes the launcher's standard input.
pub const STANDARD_INPUT: &str = "standard-input";

/// Name of a file for which workers wait in MPI_Finalize.
///
/// The file is beside the working directory. It is created after all failures, so that even on a
/// fast machine no job ends before its failures.
const MAY_END: &str = "may-end";

/// Stages that only workers with a replica at a buddy pass.
const AT_BUDDIES: [&str; 5] = [
    "at=ship.",
    "at=ask.",
    "at=whole.",
    "at=rehearse.",
    "at=thin.",
];
/// Setting with the number of replicas of each worker.
const COPIES: &str = "UNDERSTUDY_COPIES";
/// Setting with the faults that ranks cause themselves.
const FAULTS: &str = "UNDERSTUDY_FAULT";

/// Disturbs hosts of a job; returns true if that was possible.
type HostFailure = Box<dyn Fn(&Hosts) -> bool>;

/// Processes of a job that are killed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillScope {
    /// All ranks, including spares.
    Ranks,
    /// All guardians, by SIGTERM: the job ends and loses none of its output.
    Job,
    /// All processes of the job, including the launcher.
    Everything,
}

type Watch = Box<dyn FnMut(&BTreeMap<u32, processes::Process>) -> bool>;
type Observer = Box<dyn FnMut(&BTreeMap<u32, processes::Process>)>;

/// A program to run under mpirun.
pub struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    workers: u32,
    spares: u32,
    layer: bool,
    variables: Vec<(String, String)>,
    inputs: Vec<(String, String)>,
    /// A library that is preloaded in front of understudy's.
    preload: Option<PathBuf>,
    /// Path of the preload library, if not the one that was built.
    own_layer: Option<PathBuf>,
    kills: Vec<Kill>,
    end: Option<(Trigger, KillScope)>,
    host_failure: Option<(Trigger, HostFailure)>,
    /// Hosts that are lost or cut off.
    lost_hosts: Vec<usize>,
    disk: bool,
    limit: Duration,
    mpirun: Option<PathBuf>,
    launcher: Launcher,
    srun: Option<Srun>,
    /// Value of srun's `--mpi`: the process manager of ranks on several hosts.
    slurm: Option<&'static str>,
    /// True if the job runs in a job of Grid Engine.
    grid_engine: bool,
    allocation: Option<Allocation>,
    /// Options of `understudy run` in the allocation.
    run_options: &'static [&'static str],
    slurm_commands: Option<SlurmCommands>,
    /// Command of Slurm, and the message that follows.
    slurm_order: Option<(Trigger, &'static [&'static str], &'static str)>,
    mpich: bool,
    slots: Vec<u32>,
    network: Network,
    racks: Vec<u32>,
    by: String,
    tcp: bool,
    watch: Option<Watch>,
    observer: Option<Observer>,
}

impl Job {
    /// Four workers and one spare under understudy, with a checkpoint every 200 ms.
    pub fn new(program: impl AsRef<Path>, arguments: &[&str]) -> Job {
        Job {
            program: program.as_ref().to_owned(),
            arguments: arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
            workers: 4,
            spares: 1,
            layer: true,
            variables: Vec::new(),
            inputs: Vec::new(),
            preload: None,
            own_layer: None,
            kills: Vec::new(),
            end: None,
            host_failure: None,
            lost_hosts: Vec::new(),
            disk: false,
            limit: JOB_LIMIT,
            mpirun: None,
            launcher: paths::launcher(),
            srun: None,
            slurm: None,
            grid_engine: false,
            allocation: None,
            run_options: &[],
            slurm_commands: None,
            slurm_order: None,
            mpich: false,
            slots: Vec::new(),
            network: Network::IPV4,
            racks: Vec::new(),
            by: "slot".to_owned(),
            tcp: false,
            watch: None,
            observer: None,
        }
        .interval("0.2s")
    }

    /// Sets the number of workers.
    pub fn workers(mut self, workers: u32) -> Job {
        self.workers = workers;
        self
    }

    pub fn worker_count(&self) -> u32 {
        self.workers
    }

    /// Sets the number of spares.
    pub fn spares(mut self, spares: u32) -> Job {
        self.spares = spares;
        self
    }

    pub fn interval(self, interval: &str) -> Job {
        self.env("UNDERSTUDY_INTERVAL", interval)
    }

    /// Sets faults, which ranks cause themselves.
    ///
    /// Each worker gets a replica at a buddy if a fault needs one and UNDERSTUDY_COPIES is not yet
    /// set.
    pub fn fault(self, fault: &str) -> Job {
        let needs_buddy = AT_BUDDIES.iter().any(|stage| fault.contains(stage));
        let job = match needs_buddy && self.variable(COPIES).is_none() {
            true => self.env(COPIES, "1"),
            false => self,
        };
        job.env(FAULTS, fault)
    }

    /// Adds a fault to those that were set.
    fn add_fault(&mut self, fault: &str) {
        let all = match self.variable(FAULTS) {
            Some(before) if !before.is_empty() => format!("{before}; {fault}"),
            _ => fault.to_owned(),
        };
        self.set_env(FAULTS, &all);
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let variable = self.variables.iter().find(|(other, _)| other == name);
        variable.map(|(_, value)| value.as_str())
    }

    /// True if many processes of the job will be killed at once.
    fn will_fail_as_a_whole(&self) -> bool {
        self.end.is_some() || self.host_failure.is_some()
    }

    /// Sets an environment variable of the ranks.
    pub fn env(mut self, name: &str, value: &str) -> Job {
        self.set_env(name, value);
        self
    }

    fn set_env(&mut self, name: &str, value: &str) {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Preloads understudy from another directory than that of the build.
    pub fn layer_at(mut self, library: PathBuf) -> Job {
        self.own_layer = Some(library);
        self
    }

    /// Preloads a library in front of understudy, or alone in native runs.
    pub fn preload(mut self, library: &Path) -> Job {
        self.preload = Some(library.to_owned());
        self
    }

    /// Puts a file into the working directory.
    pub fn input(mut self, name: &str, text: &str) -> Job {
        self.inputs.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Kills a rank; several kills are executed one after the other.
    pub fn kill(mut self, kill: Kill) -> Job {
        self.kills.push(kill);
        self
    }

    /// Kills many processes of the job at once.
    pub fn killed_as_a_whole(mut self, at: Trigger, scope: KillScope) -> Job {
        self.end = Some((at, scope));
        self
    }

    /// Kills all processes of a host, which must not be the first.
    pub fn lose_host(self, at: Trigger, host: usize) -> Job {
        self.lose_hosts(at, &[host])
    }

    /// Kills all processes of several hosts, one host immediately after the other.
    pub fn lose_hosts(mut self, at: Trigger, lost: &[usize]) -> Job {
        self.lost_hosts = lost.to_owned();
        let lost = self.lost_hosts.clone();
        self.disturb_hosts(at, move |hosts| lost.iter().all(|host| hosts.lose(*host)))
    }

    /// Disconnects the network of a host, which must not be the first.
    pub fn cut_off_host(mut self, at: Trigger, host: usize) -> Job {
        self.lost_hosts = vec![host];
        self.disturb_hosts(at, move |hosts| hosts.cut_off(host))
    }

    /// Calls `disturb` at this moment; it must return true.
    pub fn disturb_hosts(mut self, at: Trigger, disturb: impl Fn(&Hosts) -> bool + 'static) -> Job {
        self.host_failure = Some((at, Box::new(disturb)));
        self
    }

    /// Sets UNDERSTUDY_DISK to a directory of this job.
    pub fn disk(mut self) -> Job {
        self.disk = true;
        self
    }

    /// Removes understudy and the spares.
    pub fn native(mut self) -> Job {
        self.layer = false;
        self.disk = false;
        self.spares = 0;
        (self.srun, self.slurm, self.allocation) = (None, None, None);
        self.grid_engine = false;
        self.variables
            .retain(|(name, _)| !name.starts_with("UNDERSTUDY_"));
        self
    }

    /// Starts the program by a script, whose arguments are the program and its arguments.
    pub fn started_by(mut self, script: &Path) -> Job {
        let program = std::mem::replace(&mut self.program, script.to_owned());
        self.arguments
            .insert(0, program.to_string_lossy().into_owned());
        self
    }

    /// Selects the launcher for this job only.
    pub fn launched_by(mut self, launcher: Launcher) -> Job {
        self.launcher = launcher;
        self
    }

    /// Declares a program of MPICH.
    ///
    /// Protected, it runs under `ckptd launch`; native, under MPICH's mpiexec.
    pub fn of_mpich(mut self) -> Job {
        self.mpich = true;
        self.launched_by(Launcher::Ckptd)
    }

    /// Selects another mpirun than that of the PATH.
    ///
    /// The number of ranks is the only option that this mpirun receives.
    pub fn mpirun(mut self, path: &Path) -> Job {
        self.mpirun = Some(path.to_owned());
        self
    }

    /// Runs the job under srun of a Slurm installation on the job's hosts.
    pub fn launched_by_slurm(mut self, mpi: &'static str) -> Job {
        self.slurm = Some(mpi);
        self
    }

    /// Runs `understudy run` in a job of Grid Engine on the job's hosts but the first.
    pub fn in_grid_engine(mut self) -> Job {
        self.grid_engine = true;
        self
    }

    /// Runs the job under Slurm's srun instead of mpirun.
    pub fn launched_by_srun(mut self, srun: Srun) -> Job {
        self.srun = Some(srun);
        self
    }

    /// Runs the job on several hosts, with this number of slots on each.
    ///
    /// Ranks fill the first host, then the second, and so on.
    pub fn hosts(mut self, slots: &[u32]) -> Job {
        self.slots = slots.to_owned();
        self
    }

    /// Joins the hosts by another network.
    pub fn network(mut self, network: Network) -> Job {
        self.network = network;
        self
    }

    /// Sets the rack of each host: in UNDERSTUDY_DOMAIN, or as a switch of Slurm's network.
    pub fn racks(mut self, racks: &[u32]) -> Job {
        self.racks = racks.to_owned();
        self
    }

    /// Sets another order of the ranks on the hosts (`--map-by`).
    pub fn map_by(mut self, by: &str) -> Job {
        self.by = by.to_owned();
        self
    }

    /// Allows TCP in addition to shared memory.
    pub fn tcp(mut self) -> Job {
        self.tcp = true;
        self
    }

    /// Restricts UCX (MPICH) to TCP.
    ///
    /// UCX takes the hosts of a test for one machine, but they do not share memory. By default UCX
    /// also ignores bridges.
    pub fn ucx_by_tcp(self) -> Job {
        self.env("UCX_TLS", "tcp,self")
            .env("UCX_TCP_BRIDGE_ENABLE", "y")
    }

    /// Sets the time after which the job is killed, for a job that takes long.
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Calls `watch` with the ranks repeatedly, once all have started, until it returns true.
    ///
    /// Until then, workers wait in MPI_Finalize.
    pub fn watch(
        mut self,
        watch: impl FnMut(&BTreeMap<u32, processes::Process>) -> bool + 'static,
    ) -> Job {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Calls `observe` with the ranks repeatedly, once all have started.
    pub fn observe(
        mut self,
        observe: impl FnMut(&BTreeMap<u32, processes::Process>) + 'static,
    ) -> Job {
        self.observer = Some(Box::new(observe));
        self
    }

    /// Key by which equal native runs are recognised.
    pub fn key(&self) -> String {
        format!(
            "{:?} {:?} {} {:?} {:?} {:?} {:?} {:?} {} {}",
            self.program,
            self.arguments,
            self.workers,
            self.inputs,
            self.preload,
            self.variables,
            self.mpirun,
            self.slots,
            self.by,
            self.tcp
        )
    }
}
