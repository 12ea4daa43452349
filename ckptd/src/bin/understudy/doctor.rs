//! `understudy doctor`: checks of this machine, and remedies.

mod accelerators;
mod checks;
mod container;
mod fabric;
mod granted;
mod hosts;
mod kernel;
mod libraries;
mod mpi_version;
mod probe;
mod process_starter;
mod trial;

pub use fabric::active_network;
pub use libraries::mpi_of;
pub use probe::end;

use crate::outcome::{Outcome, print, print_json, verdict};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

/// Check whether protected jobs can run here, and print what to change.
#[derive(clap::Args)]
#[command(after_help = "Exit status:\n  \
    0  a protected job can run here (there may be warnings)\n  \
    1  it cannot; the output says why and what to do\n  \
    2  wrong usage\n  \
    3  the checks could not be made\n\n\
    Example: understudy doctor -n 4 --host a:4,b:4 -- ./solver input.txt")]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Check this launcher, as `understudy run --mpirun` would use it, and pass it these options.
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,
    /// Command that starts processes on a host, as for `understudy run`.
    #[arg(long, value_name = "COMMAND", default_value = "auto")]
    agent: String,
    /// Check these hosts as well, by a job of one process on each. This program must have the same
    /// path on all of them.
    #[arg(long, value_name = "HOSTS")]
    host: Vec<String>,
    /// Number of workers of the trial job.
    #[arg(short = 'n', long, value_name = "WORKERS", default_value_t = 2, requires = "program",
          value_parser = clap::value_parser!(u32).range(2..))]
    workers: u32,
    /// Duration of the trial job.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        requires = "program"
    )]
    seconds: u64,
    /// Preload library, if it is not beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Check this node only, and print a line of JSON (for the doctor itself).
    #[arg(long, hide = true)]
    local: bool,
    /// Initialise and finalise this MPI library (the program of the job that the doctor starts).
    #[arg(long, hide = true, value_name = "FILE")]
    initialise_mpi: Option<PathBuf>,
    /// Print the version of this MPI library (for the doctor itself).
    #[arg(long, hide = true, value_name = "FILE")]
    mpi_version: Option<PathBuf>,
    /// Program to run under protection for a while, to estimate the memory that it needs.
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Describes the kernel and the C library of this node.
pub fn platform() -> String {
    format!("{}, glibc {}", checks::kernel_release(), kernel::glibc())
}

/// True if this kernel marks modified pages.
pub fn can_mark_pages() -> bool {
    kernel::pagemap_scan().is_ok() && kernel::write_protection().is_ok()
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Ok,
    /// Protection works, but not as well as possible, or not completely.
    Warning,
    /// No protected job can run.
    Failure,
}

/// A check with its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub grade: Grade,
    pub finding: String,
    /// Action that solves the problem.
    pub remedy: Option<String>,
}

impl Check {
    pub fn ok(name: &str, finding: impl Into<String>) -> Self {
        Self::new(name, Grade::Ok, finding, None)
    }

    pub fn warning(name: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, Grade::Warning, finding, Some(remedy.into()))
    }

    pub fn failure(name: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, Grade::Failure, finding, Some(remedy.into()))
    }

    /// Returns a warning whose finding names the remedy.
    pub fn explained_warning(name: &str, finding: impl Into<String>) -> Self {
        Self::new(name, Grade::Warning, finding, None)
    }

    /// Returns a failed check whose finding names the remedy.
    pub fn explained_failure(name: &str, finding: impl Into<String>) -> Self {
        Self::new(name, Grade::Failure, finding, None)
    }

    fn new(name: &str, grade: Grade, finding: impl Into<String>, remedy: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            grade,
            finding: finding.into(),
            remedy,
        }
    }
}

/// Results of the checks that start no job of MPI.
pub struct Parts {
    pub checks: Vec<Check>,
    /// Results of each host's own checks.
    ///
    /// Empty for this host alone, or after a failed check.
    pub hosts: Vec<hosts::Node>,
}

impl Parts {
    /// True if no check has failed.
    pub fn are_well(&self) -> bool {
        is_well(&self.checks) && self.hosts.iter().all(|node| is_well(&node.checks))
    }
}

fn is_well(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.grade != Grade::Failure)
}

/// Results of all checks.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// True if a protected job can run.
    can_run: bool,
    checks: Vec<Check>,
    hosts: Vec<hosts::Node>,
    memory: Option<probe::Memory>,
}

impl Arguments {
    /// Returns the arguments for checks of hosts and of a program.
    pub fn of(
        host: Vec<String>,
        agent: String,
        library: Option<PathBuf>,
        program: OsString,
    ) -> Self {
        Self {
            json: false,
            mpirun: None,
            agent,
            host,
            workers: 2,
            seconds: 10,
            library,
            local: false,
            initialise_mpi: None,
            mpi_version: None,
            program: vec![program],
        }
    }

    /// Checks the parts that a job would use here.
    ///
    /// `workers` is the number of workers of a job that is to run here, if that is known.
    pub fn parts(&self, workers: Option<u32>) -> Parts {
        let starter = process_starter::Starter::of(self);
        let mut checks = starter.checks();
        checks.extend(checks::node(self.library.as_deref()));
        checks.extend(checks::settings());
        let (of_allocation, granted) = granted::checks(workers);
        checks.extend(of_allocation);
        let hosts = match &starter {
            process_starter::Starter::Ckptd { .. } if self.host.is_empty() => granted,
            _ => self.host.clone(),
        };
        if let Some(program) = self.program.first() {
            checks.extend(libraries::check(program));
        }
        let mut nodes = Vec::new();
        if !hosts.is_empty() && is_well(&checks) {
            let (check, found) = hosts::check_hosts(&starter, &hosts);
            checks.push(check);
            nodes = found;
        }
        Parts {
            checks,
            hosts: nodes,
        }
    }

    pub fn run(self) -> Outcome {
        if let Some(library) = &self.initialise_mpi {
            return trial::initialise_mpi(library);
        }
        if let Some(library) = &self.mpi_version {
            return mpi_version::print_version(library);
        }
        if self.local {
            print(serde_json::to_string(&hosts::Node::this(self.library.as_deref()))? + "\n")?;
            return Ok(verdict(true));
        }
        let workers = (!self.program.is_empty()).then_some(self.workers);
        let Parts {
            mut checks,
            hosts: nodes,
        } = self.parts(workers);
        if self.program.is_empty() && is_well(&checks) {
            checks.push(trial::run(&self)?);
        }
        let mut memory = None;
        if !self.program.is_empty() && is_well(&checks) {
            let (check, found) = probe::run(&self)?;
            checks.push(check);
            memory = found;
        }
        let can_run = is_well(&checks) && nodes.iter().all(|node| is_well(&node.checks));
        let diagnosis = Diagnosis {
            can_run,
            checks,
            hosts: nodes,
            memory,
        };
        if self.json {
            print_json(&diagnosis)?;
        } else {
            print(text(&diagnosis))?;
        }
        Ok(verdict(can_run))
    }
}

fn text(diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    list(&mut out, &diagnosis.checks, Grade::Ok);
    for node in &diagnosis.hosts {
        let _ = writeln!(out, "{} ({}):", node.host, node.kind);
        list(&mut out, &node.checks, Grade::Warning);
        if node.checks.iter().all(|check| check.grade == Grade::Ok) {
            let _ = writeln!(out, "ok       all checks");
        }
    }
    if let Some(memory) = &diagnosis.memory {
        memory.describe(&mut out);
    }
    out + if diagnosis.can_run {
        "Protected jobs can run here.\n"
    } else {
        "Protected jobs cannot run here until the failures above are corrected.\n"
    }
}

fn list(out: &mut String, checks: &[Check], min_grade: Grade) {
    for check in checks.iter().filter(|check| check.grade >= min_grade) {
        let grade = match check.grade {
            Grade::Ok => "ok",
            Grade::Warning => "warning",
            Grade::Failure => "FAILURE",
        };
        let _ = writeln!(out, "{grade:<8} {:<23} {}", check.name, check.finding);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(out, "{:>32} -> {remedy}", "");
        }
    }
}
