//! The start of a job, alone or beside other jobs.

use super::running_job::RunningJob;
use super::{FAULTS, Job, MAY_END, STANDARD_INPUT};
use crate::job_directory::JobDirectory;
use crate::kill::count_kills_in_checkpoints;
use crate::namespace_hosts::Hosts;
use crate::outcome::Outcome;
use crate::paths::{self, Launcher};
use crate::processes;
use crate::slurm_installation::Slurm;
use crate::temporary_directories::directory;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

impl Job {
    /// Runs the job in its own directory, and waits until nothing is left.
    ///
    /// # Panics
    /// Panics if the job cannot be started.
    pub fn run(mut self) -> Outcome {
        self.attempt()
    }

    /// Runs the job without consuming it, so that it can be run a second time.
    pub(crate) fn attempt(&mut self) -> Outcome {
        paths::wait_for_turn();
        self.run_in(directory())
    }

    /// Runs this job and another one concurrently.
    ///
    /// # Panics
    /// Panics if one of the two jobs cannot be started.
    pub fn run_beside(mut self, other: impl FnOnce() -> Job + Send) -> [Outcome; 2] {
        paths::wait_for_turn();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| other().run_in(directory()));
            [
                self.run_in(directory()),
                other.join().expect("the other job was started"),
            ]
        })
    }

    /// Runs a job for each row, all concurrently.
    ///
    /// Suited to jobs that wait most of the time.
    ///
    /// # Panics
    /// Panics if one of the jobs cannot be started.
    pub fn run_each<Row: Sync>(rows: &[Row], make: impl Fn(&Row) -> Job + Sync) -> Vec<Outcome> {
        paths::wait_for_turn();
        std::thread::scope(|scope| {
            let run = |row| {
                let make = &make;
                scope.spawn(move || make(row).run_in(directory()))
            };
            let running: Vec<_> = rows.iter().map(run).collect();
            let ended = running
                .into_iter()
                .map(|job| job.join().expect("each job was started"));
            ended.collect()
        })
    }

    /// Runs the job in the directory of an earlier job.
    ///
    /// The directory then belongs to the new outcome, and no longer to `before`.
    ///
    /// # Panics
    /// Panics if the job cannot be started.
    pub fn run_after(mut self, before: &mut Outcome) -> Outcome {
        paths::wait_for_turn();
        match before.root.take() {
            Some(JobDirectory::Own(root)) => self.run_in(root),
            _ => panic!("the directory is shared, or another job has taken it"),
        }
    }

    fn run_in(&mut self, root: tempfile::TempDir) -> Outcome {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for name in ["work", "events"] {
            std::fs::create_dir_all(root.path().join(name)).expect("the directory is writable");
        }
        for (name, text) in &self.inputs {
            std::fs::write(root.path().join("work").join(name), text)
                .expect("the directory is writable");
        }
        let mark = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let hosts = (!self.slots.is_empty())
            .then(|| Hosts::on_network(&self.slots, self.network).expect("there can be hosts"));
        if let Some(hosts) = hosts.as_ref().filter(|_| self.has_domain_file()) {
            let file = root.path().join("racks");
            let line = |(host, rack): (usize, &u32)| format!("{} rack{rack}\n", hosts.name(host));
            let lines: String = self.racks.iter().enumerate().map(line).collect();
            std::fs::write(&file, lines).expect("the directory is writable");
            self.set_env("UNDERSTUDY_DOMAIN", &file.to_string_lossy());
        }
        let slurm = hosts
            .as_ref()
            .zip(self.slurm)
            .map(|(hosts, mpi)| (Slurm::on(hosts, &[]), mpi));
        if let Some((slurm, mpi)) = &slurm {
            self.srun = Some(slurm.srun(mpi));
        }
        let granting = hosts
            .as_ref()
            .and_then(|hosts| self.start_slurm(root.path(), hosts));
        let faults = self.variable(FAULTS).map_or(0, count_kills_in_checkpoints);
        let has_failures = !self.kills.is_empty() || self.will_fail_as_a_whole() || faults > 0;
        if self.layer && (has_failures || self.watch.is_some()) {
            let file = root.path().join(MAY_END);
            let _ = std::fs::remove_file(&file);
            self.add_fault(&format!("delay-end until={}", file.display()));
        }
        let mut command = self.command(root.path(), &mark, hosts.as_ref());
        let stream =
            |name| File::create(root.path().join(name)).expect("the directory is writable");
        let input = File::open(root.path().join("work").join(STANDARD_INPUT));
        command
            .stdin(input.map_or_else(
                |_| Stdio::null(),
                |input| {
                    if self.launcher == Launcher::Ckptd {
                        piped(input)
                    } else {
                        input.into()
                    }
                },
            ))
            .stdout(stream("stdout"))
            .stderr(stream("stderr"));
        let line = format!("{command:?}");
        let strangers = processes::all().collect();
        let (started, began) = (Instant::now(), SystemTime::now());
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut run = RunningJob {
            child,
            mark,
            strangers,
            hosts,
            size: self.workers + self.spares,
            is_guarded: self.layer,
            ranks: BTreeMap::new(),
            relay_mark: String::new(),
            shared_memory: BTreeSet::new(),
            mapped_at: None,
            killed: Vec::new(),
            awaited_faults: faults,
            faults_counted: None,
            began,
        };
        let status = run.attend(root.path(), self, started);
        let wall = started.elapsed();
        let left_behind = run.left_behind();
        drop((slurm, granting));
        let root = JobDirectory::Own(root);
        Outcome::new(root, line, status, wall, run.killed, left_behind)
    }
}

impl Job {
    /// True if a file describes the racks, not the configuration of a batch system.
    fn has_domain_file(&self) -> bool {
        !self.racks.is_empty() && self.allocation.is_none()
    }
}

/// Returns a pipe with the content of a file, like mpirun's standard input.
fn piped(mut input: File) -> Stdio {
    let (read, mut write) = std::io::pipe().expect("there are descriptors");
    // A reader that exits before the end of the content closes the pipe. Writing then fails, and
    // the thread ends.
    std::thread::spawn(move || std::io::copy(&mut input, &mut write));
    read.into()
}
