//! A job: what is run, and the run.

mod command;
mod run;
mod start;

use crate::hosts::Hosts;
use crate::kill::{Kill, Trigger};
use crate::place::{self, Launcher};
use crate::processes;
use crate::slurm::Srun;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After this long a job is taken to hang. Machines stand still at times: 46 s of one processor,
/// said the kernel of one.
const LIMIT: Duration = Duration::from_secs(150);

/// A file of this name in the working directory is the launcher's standard input.
pub const STANDARD_INPUT: &str = "standard-input";

/// Takes a host from a job; true if that was possible.
type Loss = fn(&Hosts, usize) -> bool;

/// Which processes of a job are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All ranks, spares too.
    Ranks,
    /// The same, by SIGTERM to the guardians: the job ends, and none of its output is lost.
    Job,
    /// The launcher as well.
    Everything,
}

type Watch = Box<dyn FnMut(&BTreeMap<u32, processes::Process>) -> bool>;

/// A program to run under mpirun.
pub struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    workers: u32,
    spares: u32,
    layer: bool,
    variables: Vec<(String, String)>,
    inputs: Vec<(String, String)>,
    /// A library that is preloaded in front of the layer.
    preload: Option<PathBuf>,
    /// The layer's library, if it is not the one that was built.
    own_layer: Option<PathBuf>,
    kills: Vec<Kill>,
    end: Option<(Trigger, Scope)>,
    lost: Option<(Trigger, usize, Loss)>,
    disk: bool,
    limit: Duration,
    mpirun: Option<PathBuf>,
    launcher: Launcher,
    srun: Option<Srun>,
    /// The process manager that ranks get from srun on several hosts.
    slurm: Option<&'static str>,
    mpich: bool,
    slots: Vec<u32>,
    racks: Vec<u32>,
    by: String,
    tcp: bool,
    watch: Option<Watch>,
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
            lost: None,
            disk: false,
            limit: LIMIT,
            mpirun: None,
            launcher: place::launcher(),
            srun: None,
            slurm: None,
            mpich: false,
            slots: Vec::new(),
            racks: Vec::new(),
            by: "slot".to_owned(),
            tcp: false,
            watch: None,
        }
        .interval("0.2s")
    }

    /// How many ranks the program sees.
    pub fn workers(mut self, workers: u32) -> Job {
        self.workers = workers;
        self
    }

    pub fn worker_count(&self) -> u32 {
        self.workers
    }

    /// How many ranks it does not see.
    pub fn spares(mut self, spares: u32) -> Job {
        self.spares = spares;
        self
    }

    pub fn interval(self, interval: &str) -> Job {
        self.env("UNDERSTUDY_INTERVAL", interval)
    }

    pub fn fault(self, fault: &str) -> Job {
        self.env("UNDERSTUDY_FAULT", fault)
    }

    /// Sets a variable for the ranks.
    pub fn env(mut self, name: &str, value: &str) -> Job {
        self.set_env(name, value);
        self
    }

    fn set_env(&mut self, name: &str, value: &str) {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// LD_PRELOAD: the layer from another directory than that of the build.
    pub fn layer_at(mut self, library: PathBuf) -> Job {
        self.own_layer = Some(library);
        self
    }

    /// LD_PRELOAD: a library in front of the layer, or alone if that is not there.
    pub fn preload(mut self, library: &Path) -> Job {
        self.preload = Some(library.to_owned());
        self
    }

    /// Puts a file into the working directory.
    pub fn input(mut self, name: &str, text: &str) -> Job {
        self.inputs.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Kills a rank; kills are done one after the other.
    pub fn kill(mut self, kill: Kill) -> Job {
        self.kills.push(kill);
        self
    }

    /// Kills many processes of it at once.
    pub fn killed_as_a_whole(mut self, at: Trigger, scope: Scope) -> Job {
        self.end = Some((at, scope));
        self
    }

    /// Ends a host, which is not the first, with all that runs there.
    pub fn lose_host(mut self, at: Trigger, host: usize) -> Job {
        self.lost = Some((at, host, Hosts::lose));
        self
    }

    /// Takes the network from a host, which is not the first.
    pub fn cut_off_host(mut self, at: Trigger, host: usize) -> Job {
        self.lost = Some((at, host, Hosts::cut_off));
        self
    }

    /// UNDERSTUDY_DISK: a directory of the job's own.
    pub fn disk(mut self) -> Job {
        self.disk = true;
        self
    }

    /// Without understudy and spares.
    pub fn native(mut self) -> Job {
        self.layer = false;
        self.disk = false;
        self.spares = 0;
        (self.srun, self.slurm) = (None, None);
        self.variables
            .retain(|(name, _)| !name.starts_with("UNDERSTUDY_"));
        self
    }

    /// Started by a script, which gets the program and its arguments.
    pub fn started_by(mut self, script: &Path) -> Job {
        let program = std::mem::replace(&mut self.program, script.to_owned());
        self.arguments
            .insert(0, program.to_string_lossy().into_owned());
        self
    }

    /// Started so, whatever the others are.
    pub fn launched_by(mut self, launcher: Launcher) -> Job {
        self.launcher = launcher;
        self
    }

    /// A program of MPICH's: under `ckptd launch`, or without the layer under MPICH's mpiexec.
    pub fn of_mpich(mut self) -> Job {
        self.mpich = true;
        self.launched_by(Launcher::Ckptd)
    }

    /// With another mpirun than that of the PATH, without flags but for the number of ranks.
    pub fn mpirun(mut self, path: &Path) -> Job {
        self.mpirun = Some(path.to_owned());
        self
    }

    /// Under the srun of a Slurm of its own, on its hosts.
    pub fn launched_by_slurm(mut self, mpi: &'static str) -> Job {
        self.slurm = Some(mpi);
        self
    }

    /// Under Slurm's srun instead of mpirun.
    pub fn launched_by_srun(mut self, srun: Srun) -> Job {
        self.srun = Some(srun);
        self
    }

    /// On several hosts, with so many slots each; ranks fill the first, then the second, and so on.
    pub fn hosts(mut self, slots: &[u32]) -> Job {
        self.slots = slots.to_owned();
        self
    }

    /// UNDERSTUDY_DOMAIN: in which rack each host is.
    pub fn racks(mut self, racks: &[u32]) -> Job {
        self.racks = racks.to_owned();
        self
    }

    /// With another order of the ranks on the hosts (`--map-by`).
    pub fn map_by(mut self, by: &str) -> Job {
        self.by = by.to_owned();
        self
    }

    /// With TCP beside shared memory.
    pub fn tcp(mut self) -> Job {
        self.tcp = true;
        self
    }

    /// With TCP only, of MPICH: hosts of a test are one machine for UCX, whose shared memory they
    /// are not, and it does not think of bridges.
    pub fn ucx_by_tcp(self) -> Job {
        self.env("UCX_TLS", "tcp,self")
            .env("UCX_TCP_BRIDGE_ENABLE", "y")
    }

    /// After this long the job is killed, if it takes longer than others.
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Is called with the ranks again and again once all are there, until it returns true.
    pub fn watch(
        mut self,
        watch: impl FnMut(&BTreeMap<u32, processes::Process>) -> bool + 'static,
    ) -> Job {
        self.watch = Some(Box::new(watch));
        self
    }

    /// A name by which equal native runs are recognised.
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
