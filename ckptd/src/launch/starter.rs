//! Starts the guardians of a job on this node, as mpirun would.
#![allow(unsafe_code)]

use super::local::adopt;
use super::{Error, Identity};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a job is made of.
pub struct Plan {
    pub workers: u32,
    pub spares: u32,
    /// The program, with its arguments.
    pub program: Vec<OsString>,
    /// The layer's library.
    pub preload: OsString,
    /// The MPI library of a program that opens it late, by its name.
    pub mpi: Option<PathBuf>,
}

/// Runs a job to its end; its exit status.
///
/// # Errors
/// Those of starting a process.
pub fn run(plan: &Plan) -> Result<i32, Error> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let job = format!("ckptd-{host}-{}@1", std::process::id());
    let name = &plan.program[0];
    let file = crate::path::find(name).ok_or_else(|| Error::NoProgram(name.into()))?;
    if !Path::new(&plan.preload).is_file() {
        return Err(Error::Missing(plan.preload.clone().into()));
    }
    let size = plan.workers + plan.spares;
    let guardians: Result<Vec<Child>, Error> = (0..size).map(|rank| start(plan, &file, &job, rank)).collect();
    let guardians = guardians?;
    let mut signals = Signals::new([libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2])
        .map_err(Error::system("a signal handler"))?;
    let pids: Vec<Pid> = guardians
        .iter()
        .filter_map(|child| Pid::from_raw(child.id() as i32))
        .collect();
    std::thread::spawn(move || {
        for signal in signals.forever().filter_map(Signal::from_named_raw) {
            for &pid in &pids {
                // It may have ended; all are waited for below, at the end.
                let _ = kill_process(pid, signal);
            }
        }
    });
    let mut codes = Vec::new();
    for mut child in guardians {
        codes.extend(child.wait().map_err(Error::system("a guardian"))?.code());
    }
    // Who was killed is missed by nobody, if others bring the job to its end.
    let first = codes.iter().copied().find(|&code| code != 0);
    Ok(first.or(codes.pop()).unwrap_or(128 + libc::SIGKILL))
}

fn start(plan: &Plan, file: &Path, job: &str, rank: u32) -> Result<Child, Error> {
    let own = std::env::current_exe().map_err(Error::system("this program's file"))?;
    let mut command = Command::new(own);
    command.args(["guardian", "--"]).arg(file).args(&plan.program);
    if let Some(directory) = plan.mpi.as_deref().and_then(Path::parent) {
        let mut path = directory.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        command.env("LD_LIBRARY_PATH", path);
    }
    let mut preload = plan.preload.clone();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload).env("UNDERSTUDY_ASIDE", "1");
    command.env("UNDERSTUDY_SPARES", plan.spares.to_string());
    let (rank_text, size) = (rank.to_string(), (plan.workers + plan.spares).to_string());
    let variables = [
        ("PMIX_NAMESPACE", job),
        ("PMIX_RANK", &rank_text),
        ("OMPI_COMM_WORLD_RANK", &rank_text),
        ("OMPI_COMM_WORLD_SIZE", &size),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", &size),
    ];
    let identity = Identity {
        variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
        defaults: Vec::new(),
        descriptor: None,
    };
    adopt(&mut command, identity);
    if rank != 0 {
        command.stdin(Stdio::null());
    }
    let prepare = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(prepare) };
    command.spawn().map_err(Error::system("a guardian"))
}
