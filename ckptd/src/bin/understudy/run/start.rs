//! Start of a job by Open MPI's mpirun or by understudy's own starter.
//!
//! mpirun runs in a child process, the starter in a thread.

use super::failures::cannot;
use super::launcher::quoted;
use super::progress::Terminal;
use super::signals::{Signals, may_end_a_job};
use crate::outcome::Failure;
use crossbeam_channel::{Receiver, bounded};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use understudy_launch::starter::{self, Plan};
use understudy_launch::{Environment, Streams, end_with_parent, is_unwanted};
use understudy_settings::SECRET;

/// Launcher of a job.
pub enum Start {
    Mpirun(MpirunCommand),
    Ckptd(Plan),
}

/// Command of Open MPI's launcher.
pub struct MpirunCommand {
    /// The launcher and its options.
    launcher: Vec<OsString>,
    /// Options that pass variables to the ranks.
    variables: Vec<OsString>,
    /// The program and its arguments.
    program: Vec<OsString>,
    /// Value of `UNDERSTUDY_SECRET`.
    ///
    /// The value is not in the command line, because every user can read command lines.
    secret: Option<OsString>,
}

impl MpirunCommand {
    pub fn new(launcher: Vec<OsString>, program: Vec<OsString>) -> MpirunCommand {
        MpirunCommand {
            launcher,
            variables: Vec::new(),
            program,
            secret: None,
        }
    }

    /// Returns the words of the command.
    fn words(&self) -> Vec<OsString> {
        [&self.launcher[..], &self.variables, &self.program].concat()
    }
}

/// Threads that pass the output of a job to the terminal.
type Pumps = Vec<JoinHandle<io::Result<()>>>;

/// Job that has been started.
pub struct Running {
    /// Receives the exit status of the launcher, or the reason why it failed.
    pub end: Receiver<Result<u8, String>>,
    /// Number of the last signal that may have ended the job, or 0.
    pub signal: Arc<AtomicI32>,
    pub pumps: Pumps,
}

impl Start {
    /// Adds the variables of the ranks.
    pub fn with_variables(
        mut self,
        mut variables: BTreeMap<String, OsString>,
        secret: Option<OsString>,
    ) -> Start {
        match &mut self {
            Start::Mpirun(command) => {
                for (name, value) in variables {
                    command
                        .variables
                        .extend(["-x".into(), assignment(name.as_ref(), &value)]);
                }
                if secret.is_some() {
                    // The launcher takes the value from its own environment.
                    command.variables.extend(["-x".into(), SECRET.into()]);
                }
                command.secret = secret;
            }
            Start::Ckptd(plan) => {
                // The starter preloads the library by itself, and only into the program.
                variables.remove("LD_PRELOAD");
                let secret = secret.map(|value| (SECRET.to_owned(), value));
                let variables = variables.into_iter().chain(secret);
                plan.environment =
                    Environment::of(variables.map(|(name, value)| (name.into(), value)));
            }
        }
        self
    }

    /// Returns the command as a line for a shell.
    pub fn shell_line(&self) -> String {
        match self {
            Start::Mpirun(command) => quoted(&command.words()),
            Start::Ckptd(plan) => quoted(&words_of(plan)),
        }
    }

    /// Starts the job. Its output passes through the terminal if there is one.
    pub fn run(self, terminal: Option<&Terminal>) -> Result<Running, Failure> {
        match self {
            Start::Mpirun(command) => run_mpirun(command, terminal),
            Start::Ckptd(plan) => run_starter(plan, terminal),
        }
    }
}

/// Returns `NAME=VALUE`.
fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    [name, "=".as_ref(), value].join(OsStr::new(""))
}

/// Returns the words of `ckptd launch` for a plan.
fn words_of(plan: &Plan) -> Vec<OsString> {
    let mut words = vec![OsString::from("/usr/bin/env")];
    for (name, value) in plan.environment.variables() {
        words.push(assignment(name, value));
    }
    words.extend([plan.ckptd.clone().into(), "launch".into()]);
    for (option, number) in [("-n", plan.workers), ("--spares", plan.spares)] {
        words.extend([option.into(), number.to_string().into()]);
    }
    for host in &plan.hosts {
        words.extend([
            "--host".into(),
            format!("{}:{}", host.name, host.slots).into(),
        ]);
    }
    if !plan.hosts.is_empty() {
        words.extend(["--agent".into(), plan.agent.to_string().into()]);
    }
    words.extend(["--preload".into(), plan.preload.clone(), "--".into()]);
    words.extend_from_slice(&plan.program);
    words
}

/// Starts mpirun and a thread that waits for its exit.
fn run_mpirun(command: MpirunCommand, terminal: Option<&Terminal>) -> Result<Running, Failure> {
    let line = command.words();
    let secret = command.secret;
    let signals = Signals::catch()?;
    let (streams, pumps) = streams_for(terminal)?;
    let mut command = Command::new(&line[0]);
    let [stdout, stderr] = streams.for_command()?;
    command.args(&line[1..]).stdout(stdout).stderr(stderr);
    command.envs(secret.iter().map(|secret| (SECRET, secret)));
    // Signals to the job pass through this process: without it, the job could not be ended and
    // would compete with a restart.
    end_with_parent(&mut command);
    let mut child = command.spawn().map_err(|error| {
        cannot(format!(
            "{} cannot be executed: {error}",
            Path::new(&line[0]).display()
        ))
    })?;
    let signal = signals.pass_on_to(child.id())?;
    let (sender, end) = bounded(1);
    thread::Builder::new().spawn(move || {
        let status = child
            .wait()
            .map(status_of)
            .map_err(|error| format!("the launcher's exit status is not known: {error}"));
        sender.send(status)
    })?;
    Ok(Running { end, signal, pumps })
}

/// Runs understudy's own starter in a thread.
fn run_starter(plan: Plan, terminal: Option<&Terminal>) -> Result<Running, Failure> {
    let (streams, pumps) = streams_for(terminal)?;
    let signal = Arc::new(AtomicI32::new(0));
    let last = Arc::clone(&signal);
    let notify = move |number| {
        if may_end_a_job(number) {
            last.store(number, SeqCst);
        }
    };
    let (sender, end) = bounded(1);
    // The job's processes end with this thread.
    thread::Builder::new().spawn(move || {
        let status = starter::run(&plan, streams, notify).map(|status| status.clamp(0, 255) as u8);
        sender.send(status.map_err(|error| error.to_string()))
    })?;
    Ok(Running { end, signal, pumps })
}

/// Returns the exit status that a shell would show.
fn status_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}

/// Returns the streams of a job and the threads that pass them to the terminal.
fn streams_for(terminal: Option<&Terminal>) -> Result<(Streams, Pumps), Failure> {
    let Some(terminal) = terminal else {
        return Ok((Streams::own()?, Vec::new()));
    };
    let ((from_stdout, stdout), (from_stderr, stderr)) = (io::pipe()?, io::pipe()?);
    let streams = Streams {
        stdout: OwnedFd::from(stdout).into(),
        stderr: OwnedFd::from(stderr).into(),
    };
    let (for_stdout, for_stderr) = (terminal.clone(), terminal.clone());
    let pumps = vec![
        thread::Builder::new().spawn(move || pump(from_stdout, io::stdout(), &for_stdout))?,
        thread::Builder::new().spawn(move || pump(from_stderr, io::stderr(), &for_stderr))?,
    ];
    Ok((streams, pumps))
}

/// Passes output to the terminal until all writers have closed the pipe.
///
/// Output that cannot be written is discarded, so that the job continues.
///
/// # Errors
/// Fails if output cannot be written, unless the reader has closed its end.
fn pump(mut from: PipeReader, mut to: impl Write, terminal: &Terminal) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let mut written = Ok(());
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) if written.is_ok() => written = terminal.write(&mut to, &buffer[..read]),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written.or_else(|error| {
        if is_unwanted(&error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}
