//! `understudy run`: starts a protected program with one command.

mod attend;
mod daemon;
mod failures;
mod job_hosts;
mod launcher;
mod output_file;
pub mod program;
mod progress;
mod settings;
mod signals;
mod slots;
mod start;
mod time_limit;
mod verdict;

use crate::allocation::{self, DOMAIN, Switches};
use crate::outcome::{Failure, Outcome, print};
use crate::product_files;
use attend::Events;
use ckptd::host_options::HostOptions;
use clap::ValueEnum;
use daemon::{Daemon, DaemonRequest};
use failures::{cannot, usage};
use job_hosts::JobHosts;
use output_file::OutputFile;
use progress::Progress;
use settings::Settings;
use signal_hook::consts::SIGTERM;
use slots::SlotRequest;
use start::{MpirunCommand, Start};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use time_limit::RequeuedJob;
use understudy_catalogue::exit_status::EXIT_STATUSES;
use understudy_catalogue::{ExitStatus, exit_status};
use understudy_formats::private_directories::{RUNTIME_DIR, name_runtime_directory};
use understudy_formats::worker_output::{WORKER_OUTPUT, WorkerOutput};
use understudy_launch::Environment;
use understudy_launch::print_message;
use understudy_launch::starter::{Host, Plan, RankOrder};
use understudy_settings::Config;

pub use understudy_node::EVENTS_PREFIX;

/// Run an MPI program so that it survives the failure of ranks.
///
/// Starts the processes with everything that protection needs. The program sees WORKERS ranks; the
/// spares sleep until one of them is needed. Settings may also be given as environment variables of
/// equal meaning; an option takes precedence.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Arguments {
    /// Number of ranks that the program sees.
    #[arg(short = 'n', long, value_name = "WORKERS", value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    #[command(flatten)]
    settings: Settings,
    /// Start more ranks than there are slots, on any host.
    ///
    /// Without a list of hosts and outside of a batch system, this is the default if the machine
    /// has fewer cores than ranks are requested: spares need none.
    #[arg(long)]
    oversubscribe: bool,
    #[command(flatten)]
    hosts: HostOptions,
    /// Starter of the processes: mpirun; ckptd itself; or the one that fits.
    ///
    /// Uses ckptd by default, except with --mpirun and with --allow-unprotected. In a batch system,
    /// ckptd uses the granted hosts unless others are named.
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    launcher: Launcher,
    /// Launcher, with options for it: "/opt/mpi/bin/mpirun --bind-to core".
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Run the program without protection if it cannot be protected.
    ///
    /// Spares may become ranks of the program then. Without this option, the job stops with status
    /// 78.
    #[arg(long)]
    allow_unprotected: bool,
    /// Preload library, if it is not beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Start no daemon for the job.
    ///
    /// The daemon of this user, `ckptd serve`, serves the job by default if it runs here. Otherwise
    /// another daemon serves the job, and ends with the job.
    #[arg(long)]
    no_daemon: bool,
    /// File for the standard output of the program, cut where a restart continues.
    ///
    /// FILE has each byte of each worker once, after recoveries and after `--restart`. All hosts
    /// must share its directory, in which `FILE.workers` keeps the output of each worker.
    #[arg(long, value_name = "FILE", conflicts_with = "allow_unprotected")]
    output: Option<PathBuf>,
    /// Requeue the batch job after status 85 (Slurm: `scontrol requeue`).
    #[arg(long)]
    requeue: bool,
    /// Display of progress: on one line of the terminal, in plain lines, or none.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: Progress,
    /// Print the command, for a shell, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Returns the end of the help text: the exit statuses and an example.
fn after_help() -> String {
    let statuses: String = EXIT_STATUSES
        .iter()
        .map(|ExitStatus { status, title }| format!("\n  {status:<7}  {title}"))
        .collect();
    format!(
        "Exit status:\n  that of the program, if it ended by itself; otherwise{statuses}\n\n\
         Example: understudy run -n 4 --spares 1 --interval 30s -- ./solver input.txt"
    )
}

/// Starter of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Launcher {
    /// ckptd, except with --mpirun and with --allow-unprotected.
    Auto,
    /// Open MPI's launcher.
    Mpirun,
    /// Understudy's own launcher, which needs no functions of the MPI library.
    Ckptd,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut settings = self.settings.with_environment();
        if let Some(directory) = settings.get(RUNTIME_DIR) {
            // Understudy's own launcher reads the name in this process.
            name_runtime_directory(directory.clone());
        }
        let library = product_files::library(self.library.as_deref()).map_err(cannot)?;
        let config = settings.check(self.workers, &library, self.allow_unprotected)?;
        let end = config.time_limit.map(time_limit::end_of).transpose()?;
        settings.set_time_limit(end.flatten());
        let requeued = self.requeue.then(RequeuedJob::of_environment).transpose()?;
        let ranks = self.workers + config.spares;
        let uses_ckptd = self.uses_ckptd_launcher();
        let (name, arguments) = self
            .program
            .split_first()
            .ok_or_else(|| usage("no program"))?;
        self.check_words(arguments)?;
        program::check(name)?;
        let hosts = match uses_ckptd {
            true => JobHosts::for_ckptd(&self.hosts, &self.slot_request(ranks))?,
            false => JobHosts::for_mpirun(&self.hosts),
        };
        let spans_hosts = hosts.are_several();
        let preloaded = preloaded(&library, spans_hosts)?;
        let switches = match settings.get(DOMAIN) {
            None => Switches::of(&hosts.for_ckptd, (self.workers, config.spares)),
            Some(_) => None,
        };
        let is_several = !hosts.for_ckptd.is_empty();
        let hazards = allocation::hazards(is_several, switches.as_ref(), &config);
        let start = match uses_ckptd {
            true => Start::Ckptd(self.plan(&preloaded, hosts.for_ckptd, config.spares)?),
            false => Start::Mpirun(self.mpirun_command(&config, ranks)?),
        };
        if !spans_hosts {
            settings.check_disk(&config)?;
        }
        let events = attend::event_directory(&settings, spans_hosts, self.dry_run)?;
        let daemon = self.daemon(&settings, &library, &events, hosts.names);
        let mut variables = settings.variables(&preloaded, events.path(), !self.allow_unprotected);
        if let Some(switches) = switches {
            let file = switches.write(events.path(), self.dry_run)?;
            variables.extend(file.map(|file| (DOMAIN.to_owned(), file)));
        }
        variables.extend(
            daemon
                .variables
                .iter()
                .map(|(name, value)| ((*name).into(), value.clone())),
        );
        // The variable of a job in which this job is started is not for this job.
        variables.remove(WORKER_OUTPUT);
        if std::env::var_os(WORKER_OUTPUT).is_some() || self.output.is_some() {
            let output = self.output.as_deref().map(absolute).transpose()?;
            let output = output.map(|file| WorkerOutput::beside(&file).directory().into());
            variables.insert(WORKER_OUTPUT.to_owned(), output.unwrap_or_default());
        }
        let secret = settings.secret().filter(|_| !self.dry_run);
        let start = start.with_variables(variables, secret);
        if self.dry_run {
            print(start.shell_line() + "\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        hazards.into_iter().for_each(print_message);
        let output = self.output.as_deref();
        let output = output.map(|file| OutputFile::create(&absolute(file)?, self.workers));
        let job = attend::Job {
            start,
            events,
            workers: self.workers,
            disk: config.disk,
            output: output.transpose()?,
        };
        let status = attend::run(job, self.progress)?;
        if let Some(job) = requeued.filter(|_| i32::from(status) == exit_status::CHECKPOINTED) {
            job.requeue()?;
        }
        Ok(ExitCode::from(status))
    }

    /// Returns true if ckptd starts the processes.
    fn uses_ckptd_launcher(&self) -> bool {
        match self.launcher {
            // Without protection, a program needs a launcher that serves its MPI library.
            Launcher::Auto => !self.allow_unprotected && self.mpirun.is_none(),
            launcher => launcher == Launcher::Ckptd,
        }
    }

    /// Returns the command for Open MPI's launcher.
    fn mpirun_command(&self, config: &Config, ranks: u32) -> Result<MpirunCommand, Failure> {
        if config
            .checkpoint_on
            .as_ref()
            .is_some_and(|it| it.contains(SIGTERM))
        {
            return Err(usage(
                "--checkpoint-on TERM: mpirun kills its job a moment after SIGTERM. Start the job \
                 with --launcher ckptd, or name another signal.",
            ));
        }
        let mut line = launcher::words(self.mpirun.as_deref().unwrap_or("mpirun"))?;
        let mpi = launcher::find(&line[0])?;
        launcher::check(&mpi)?;
        launcher::check_user(&line)?;
        if slots::must_oversubscribe(&self.slot_request(ranks), &line)? {
            line.push("--oversubscribe".into());
        }
        for hosts in &self.hosts.host {
            line.extend(["--host".into(), hosts.into()]);
        }
        if let Some(file) = &self.hosts.hostfile {
            line.extend(["--hostfile".into(), file.into()]);
        }
        line.extend(["-n".into(), ranks.to_string().into()]);
        Ok(MpirunCommand::new(line, self.program.clone()))
    }

    /// Returns the plan of this job for understudy's own launcher.
    fn plan(&self, library: &Path, hosts: Vec<Host>, spares: u32) -> Result<Plan, Failure> {
        Ok(Plan {
            workers: self.workers,
            spares,
            program: self.program.clone(),
            preload: library.into(),
            mpi: None,
            hosts,
            rank_order: RankOrder::Slot,
            agent: self.hosts.agent().map_err(usage)?,
            ckptd: product_files::companion(library, "ckptd"),
            environment: Environment::default(),
        })
    }

    /// Refuses words that mpirun would misinterpret, and a host file that cannot be opened.
    fn check_words(&self, arguments: &[OsString]) -> Result<(), Failure> {
        if arguments.iter().any(|word| word == ":") {
            return Err(usage(
                "`:` begins another program for mpirun, and a protected job has one. Start one \
                 program that does the work of both.",
            ));
        }
        match &self.hosts.hostfile {
            Some(file) => std::fs::File::open(file)
                .map(drop)
                .map_err(|error| usage(format_args!("--hostfile: {}: {error}", file.display()))),
            None => Ok(()),
        }
    }

    fn daemon(
        &self,
        settings: &Settings,
        library: &Path,
        events: &Events,
        hosts: Vec<String>,
    ) -> Daemon {
        if self.no_daemon {
            return Daemon::default();
        }
        let request = DaemonRequest {
            settings,
            library,
            events,
            hosts,
            is_dry: self.dry_run,
        };
        Daemon::for_job(&request).unwrap_or_else(|why| {
            print_message(why);
            Daemon::default()
        })
    }

    fn slot_request(&self, ranks: u32) -> SlotRequest<'_> {
        SlotRequest {
            workers: self.workers,
            ranks,
            hosts: &self.hosts.host,
            hostfile: self.hosts.hostfile.as_deref(),
            oversubscribe: self.oversubscribe,
        }
    }
}

/// Returns the path of the file for the output, for processes in any directory.
fn absolute(file: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(file).map_err(|error| usage(format_args!("--output: {error}")))
}

/// Returns the path by which the library is preloaded on all hosts.
fn preloaded(library: &Path, spans_hosts: bool) -> Result<PathBuf, Failure> {
    if spans_hosts && !product_files::can_be_preloaded(library) {
        let path = library.display();
        return Err(cannot(format!(
            "{path}: ld.so cannot preload this path. {}",
            product_files::UNPRELOADABLE
        )));
    }
    product_files::preloadable(library).map_err(cannot)
}
