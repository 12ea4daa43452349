//! The command line of a job: that of mpirun, mpiexec, srun or `ckptd launch`.

use super::Job;
use crate::namespace_hosts::Hosts;
use crate::paths::{self, Launcher};
use crate::processes;
use crate::slurm_installation::Srun;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use understudy_pmi::{MpiLibrary, PLACEMENT_INDEPENDENT as PLACELESS_OF_MPICH};

/// Open MPI's transports between ranks of one host.
const TRANSPORTS: &str = "self,sm";
/// Options of the mpirun of Open MPI 5.
const MPIRUN_FLAGS: &[&str] = &[
    "--oversubscribe",
    "--mca",
    "btl",
    TRANSPORTS,
    "--mca",
    "mpi_yield_when_idle",
    "1",
];

/// Options that disable libfabric in runs without understudy.
///
/// Libfabric's probing takes two thirds of the time of a short run. In protected runs, understudy
/// sets these options itself.
const WITHOUT_LIBFABRIC: [&str; 3] = ["--mca", "pml", "ob1"];

/// Options of mpirun for ranks on several hosts; understudy sets these options by default.
///
/// With these options, results do not depend on which ranks share a host.
const PLACELESS: [&str; 3] = ["--mca", "coll", "^han,hcoll,portals4,cuda,ucc"];

impl Job {
    /// Returns the command line that starts this job.
    pub(super) fn command(&self, root: &Path, mark: &str, hosts: Option<&Hosts>) -> Command {
        if let Some(srun) = &self.srun {
            return self.under_srun(srun, root, mark, hosts);
        }
        if let Some(command) = hosts.and_then(|hosts| self.in_batch(root, mark, hosts)) {
            return command;
        }
        if self.layer && self.launcher == Launcher::Ckptd && self.mpirun.is_none() {
            return self.launched(root, mark, hosts);
        }
        if self.mpich {
            return self.mpiexec(root, mark, hosts);
        }
        let mpirun = self.mpirun.clone().unwrap_or_else(paths::mpirun);
        let mut command = match hosts {
            Some(hosts) => hosts.launcher(mpirun, &root.join("work"), &self.by),
            None => Command::new(mpirun),
        };
        let transports = if self.tcp || hosts.is_some() {
            "self,sm,tcp"
        } else {
            TRANSPORTS
        };
        let with_transports = |flag: &&'static str| {
            if *flag == TRANSPORTS {
                transports
            } else {
                flag
            }
        };
        match self.mpirun {
            None => command.args(MPIRUN_FLAGS.iter().map(with_transports)),
            Some(_) => command.arg("--oversubscribe"),
        };
        if !self.layer && self.mpirun.is_none() {
            command.args(WITHOUT_LIBFABRIC);
        }
        if hosts.is_some() {
            command.args(PLACELESS);
        }
        command.args(["-n", &(self.workers + self.spares).to_string()]);
        let mut set = |name: &str, value: &OsString| {
            let mut assignment = OsString::from(format!("{name}="));
            assignment.push(value);
            command.arg("-x").arg(assignment);
        };
        set(processes::MARK, &mark.into());
        let layer = self.layer.then(|| self.layer_path());
        let preloaded: Vec<PathBuf> = self.preload.iter().cloned().chain(layer).collect();
        if !preloaded.is_empty() {
            let list: Vec<&OsStr> = preloaded
                .iter()
                .map(|library| library.as_os_str())
                .collect();
            set("LD_PRELOAD", &list.join(OsStr::new(":")));
        }
        if self.layer {
            set("UNDERSTUDY_EVENTS", &root.join("events").into());
        }
        if self.layer && !self.sets_spares() {
            set("UNDERSTUDY_SPARES", &self.spares.to_string().into());
        }
        if self.disk {
            set("UNDERSTUDY_DISK", &root.join(paths::DISK).into());
        }
        for (name, value) in &self.variables {
            set(name, &value.into());
        }
        command.arg(&self.program).args(&self.arguments);
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
            .env(processes::MARK, mark)
            .current_dir(root.join("work"));
        if hosts.is_none() {
            // An exiting mpirun removes the session directory that is shared by all mpiruns of this
            // user, even while another one starts.
            command.env("TMPDIR", root);
        }
        command
    }

    /// True if a variable of the job has the number of spares.
    fn sets_spares(&self) -> bool {
        let mut names = self.variables.iter().map(|(name, _)| name);
        names.any(|name| name == "UNDERSTUDY_SPARES")
    }

    fn layer_path(&self) -> PathBuf {
        self.own_layer
            .clone()
            .unwrap_or_else(paths::preload_library)
    }

    /// Returns the command of Slurm's launcher, which passes its environment on to the ranks.
    fn under_srun(&self, srun: &Srun, root: &Path, mark: &str, hosts: Option<&Hosts>) -> Command {
        let work = root.join("work");
        let mut command = srun.command(
            self.workers + self.spares,
            hosts.map(|hosts| (hosts, &*work)),
        );
        command.arg(&self.program).args(&self.arguments);
        command
            .env("LD_PRELOAD", self.layer_path())
            .env("UNDERSTUDY_SPARES", self.spares.to_string())
            .env("UNDERSTUDY_EVENTS", root.join("events"))
            .env(
                "OMPI_MCA_btl",
                if hosts.is_some() {
                    "self,sm,tcp"
                } else {
                    TRANSPORTS
                },
            )
            .env("OMPI_MCA_mpi_yield_when_idle", "1");
        self.set_environment(&mut command, root, mark);
        command
    }

    /// Sets the working directory and the environment variables of a launcher.
    fn set_environment(&self, command: &mut Command, root: &Path, mark: &str) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
            .env(processes::MARK, mark)
            .current_dir(root.join("work"))
            .env("TMPDIR", root);
    }

    /// Returns the command of MPICH's launcher.
    fn mpiexec(&self, root: &Path, mark: &str, hosts: Option<&Hosts>) -> Command {
        let mpiexec = self.mpirun.clone();
        let mpiexec = mpiexec.unwrap_or_else(|| paths::mpich().join("mpiexec"));
        let mut command = match hosts {
            Some(hosts) => hosts.mpiexec(mpiexec, &root.join("work")),
            None => Command::new(mpiexec),
        };
        command.args(["-n", &(self.workers + self.spares).to_string()]);
        if self.layer {
            let layer = ["LD_PRELOAD".into(), self.layer_path().into_os_string()];
            command.arg("-env").args(layer);
            command
                .env("UNDERSTUDY_SPARES", self.spares.to_string())
                .env("UNDERSTUDY_EVENTS", root.join("events"));
        }
        if hosts.is_some() {
            command.envs(PLACELESS_OF_MPICH.iter().copied());
        }
        command.arg(&self.program).args(&self.arguments);
        self.set_environment(&mut command, root, mark);
        command
    }

    /// Returns the command of `ckptd launch`.
    fn launched(&self, root: &Path, mark: &str, hosts: Option<&Hosts>) -> Command {
        let mut command = match hosts {
            Some(hosts) => hosts.launch(&root.join("work"), &self.by),
            None => Command::new(paths::ckptd()),
        };
        if hosts.is_none() {
            command
                .arg("launch")
                .current_dir(root.join("work"))
                .env("TMPDIR", root);
        }
        command.args(["-n", &self.workers.to_string()]);
        if !self.sets_spares() {
            command.args(["--spares", &self.spares.to_string()]);
        }
        // The MPI library is named for a shell or an interpreter, from which `ckptd launch` cannot
        // derive it, and for a program of the distribution, which is linked with another library
        // than the programs of the tests.
        let library = MpiLibrary::of(&paths::example("heat2d"))
            .expect("heat2d is linked with MPI")
            .library;
        if !MpiLibrary::of(&self.program).is_ok_and(|mpi| mpi.library == library) {
            command.arg("--mpi").arg(library);
        }
        command
            .arg("--preload")
            .arg(self.layer_path())
            .arg("--")
            .arg(&self.program)
            .args(&self.arguments);
        let has_tcp = self.tcp || hosts.is_some();
        command
            .env(
                "OMPI_MCA_btl",
                if has_tcp { "self,sm,tcp" } else { TRANSPORTS },
            )
            .env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env("UNDERSTUDY_EVENTS", root.join("events"));
        command.envs(self.preload.iter().map(|library| ("LD_PRELOAD", library)));
        if self.disk {
            command.env("UNDERSTUDY_DISK", root.join(paths::DISK));
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env(processes::MARK, mark);
        command
    }
}
