//! Jobs in an allocation of a batch system.

use super::Job;
use crate::grid_engine;
use crate::kill::Trigger;
use crate::namespace_hosts::Hosts;
use crate::page_scripts;
use crate::paths;
use crate::processes;
use crate::slurm_allocation::Allocation;
use crate::slurm_installation::Slurm;
use std::path::Path;
use std::process::Command;

/// Messages after which Slurm may notice that a node is lost.
const RELEASED: [&str; 2] = ["[node-released]", "[node-not-released]"];

impl Job {
    /// Runs `understudy run` with options in an allocation of Slurm.
    ///
    /// A host that is lost is declared down after understudy has dealt with the allocation. Until
    /// then, workers wait in MPI_Finalize.
    pub fn in_allocation(
        mut self,
        allocation: Allocation,
        run_options: &'static [&'static str],
    ) -> Job {
        self.run_options = run_options;
        self.allocation = Some(allocation);
        self
    }

    /// Executes a command of Slurm on the controller's host.
    ///
    /// Workers wait in MPI_Finalize until standard error contains `reply`.
    pub fn order_slurm(
        mut self,
        at: Trigger,
        words: &'static [&'static str],
        reply: &'static str,
    ) -> Job {
        self.slurm_order = Some((at, words, reply));
        self
    }

    /// Starts Slurm for a job in an allocation, and prepares what Slurm is told.
    pub(super) fn start_slurm(&mut self, root: &Path, hosts: &Hosts) -> Option<Slurm> {
        let allocation = self.allocation.as_ref()?;
        let slurm = Slurm::on(hosts, &self.racks);
        let commands = slurm.commands();
        let succeeds = |command: &mut Command| command.status().is_ok_and(|it| it.success());
        let stderr = root.join("stderr");
        let messages = move || std::fs::read_to_string(&stderr).unwrap_or_default();
        if let Some(&last) = self.lost_hosts.last() {
            let lost = self.lost_hosts.iter();
            let mut declare: Vec<_> = lost.map(|host| slurm.declare_down(hosts, *host)).collect();
            let mut reach = hosts.on(last, &["true"]);
            let is_needed = allocation.needs(last);
            let messages = messages.clone();
            self.watch = Some(Box::new(move |_| {
                let is_handled = match is_needed {
                    true => !succeeds(&mut reach),
                    false => RELEASED.iter().any(|id| messages().contains(id)),
                };
                is_handled && declare.iter_mut().all(succeeds)
            }));
        }
        if let Some((at, words, reply)) = self.slurm_order {
            let mut order = commands.command(hosts, words);
            let (stdout, events) = (root.join("stdout"), root.join("events"));
            let mut is_ordered = false;
            self.watch = Some(Box::new(move |_| {
                is_ordered = is_ordered || at.is_reached(&stdout, &events) && succeeds(&mut order);
                is_ordered && messages().contains(reply)
            }));
        }
        self.slurm_commands = Some(commands);
        Some(slurm)
    }

    /// Provides the names that scripts of the book have: `./solver`, and the directory `events`.
    fn prepare_script(&self, work: &Path) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        page_scripts::substitute(&work.join("solver"), &self.program, &arguments);
        let linked = std::os::unix::fs::symlink("../events", work.join("events"));
        linked.expect("the directory is writable");
    }

    /// Returns the command of the allocation, with `understudy run` for the job.
    ///
    /// `None` if the job runs in no allocation.
    pub(super) fn in_batch(&self, root: &Path, mark: &str, hosts: &Hosts) -> Option<Command> {
        let allocation = self.allocation.as_ref().zip(self.slurm_commands.as_ref());
        let of_slurm =
            || allocation.map(|(allocation, slurm)| allocation.command(slurm, hosts, root));
        let of_grid_engine = self.grid_engine.then(|| grid_engine::command(hosts, root));
        let mut command = of_grid_engine.or_else(of_slurm)?;
        let [workers, spares] = [self.workers, self.spares].map(|number| number.to_string());
        if self
            .allocation
            .as_ref()
            .is_some_and(Allocation::has_command)
        {
            self.prepare_script(&root.join("work"));
        } else {
            command.arg(paths::product("understudy"));
            command.args(["run", "--progress", "none", "-n", &workers]);
            command.args(["--spares", &spares]).args(self.run_options);
            command.arg("--").arg(&self.program).args(&self.arguments);
        }
        command
            .env("OMPI_MCA_btl", "self,sm,tcp")
            .env("OMPI_MCA_mpi_yield_when_idle", "1")
            .env("UNDERSTUDY_EVENTS", root.join("events"));
        if self.disk {
            command.env("UNDERSTUDY_DISK", root.join(paths::DISK));
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env(processes::MARK, mark);
        Some(command)
    }
}
