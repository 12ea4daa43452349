//! The start of a process of the program.

use super::guarded_process::{GuardedProcess, SignalForwarding, SignalTargets};
use super::guardian_process::GuardianProcess;
use crate::Error;
use crate::fence_tie::FenceTie;
use crate::output::pass_all_on;
use crate::print_message::print_message;
use crate::tied_child::{die_with_parent, or_end, pidfd_of};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use understudy_catalogue::{exit_status, message};
use understudy_formats::private_directories::runtime_variable;
use understudy_formats::worker_output::WorkerOutput;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_pmi::{Identity, adopt, is_of_a_launcher};
use understudy_settings::fault::without_strikes;
use understudy_sockets::Source;
use understudy_wire::io::Interest;
use understudy_wire::line::{
    FromGuardian, Killer, LAUNCHER_PREFIX, LINE_VARIABLE, PID_NAMESPACE, ProcessEnd,
};

/// Variable of the faults that a test plants.
const FAULTS: &str = "UNDERSTUDY_FAULT";

impl GuardianProcess {
    /// Starts a process of the program that does not outlive this guardian.
    ///
    /// A process that cannot be started is reported as ended.
    pub fn start(&mut self, number: ProcessNumber, is_restart: bool) {
        self.processes().retain(|before| before.number != number);
        let ending = match self.early_signal {
            Some(signal) => {
                let by = Killer::Launcher;
                ProcessEnd::Killed { number, signal, by }
            }
            None => match self
                .tie()
                .and_then(|()| self.start_process(number, is_restart))
            {
                Ok(process) => {
                    self.has_begun = true;
                    return self.processes().push(process);
                }
                Err(error) => {
                    let error = Error::system(self.program.file.display().to_string())(error);
                    print_message(message::process_not_started(error));
                    let (status, pid) = (exit_status::SYSTEM_REFUSAL, 0);
                    ProcessEnd::Exited {
                        number,
                        status,
                        pid,
                    }
                }
            },
        };
        let written = 0;
        for end in [ending, ProcessEnd::OutputClosed { number, written }] {
            let _ = self.manager.send(&FromGuardian::Ended(end));
        }
    }

    /// Ties this process to the fence of its node, if it is not tied yet.
    fn tie(&mut self) -> io::Result<()> {
        if self.fence_tie.is_none() {
            self.fence_tie = FenceTie::of_this_process(&self.position.directory())?;
        }
        Ok(())
    }

    fn start_process(&self, number: ProcessNumber, is_restart: bool) -> io::Result<GuardedProcess> {
        let mut command = self.program.command();
        command.env_remove("UNDERSTUDY_ASIDE");
        // A number beyond the launcher's ranks has had no earlier process.
        if is_restart
            && number.0 < self.position.size
            && let Ok(faults) = std::env::var(FAULTS)
        {
            match without_strikes(&faults) {
                Some(faults) => command.env(FAULTS, faults),
                None => command.env_remove(FAULTS),
            };
        }
        adopt(&mut command, self.identity(number));
        if let Ok(namespace) = rustix::fs::stat("/proc/self/ns/pid") {
            command.env(PID_NAMESPACE, namespace.st_ino.to_string());
        }
        if !self.position.is_of_starter() {
            // If the program runs without understudy, it needs the variables of its launcher.
            for (name, value) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
                let mut original_name = OsString::from(LAUNCHER_PREFIX);
                original_name.push(name);
                command.env(original_name, value);
            }
        }
        command.stdin(self.input.for_process(number)?);
        command.stdout(self.standard_output(number)?);
        command.stderr(Stdio::piped());
        // A process that reads a terminal must be in the terminal's foreground group (termios(3),
        // tcsetpgrp).
        let is_group = !io::stdin().is_terminal();
        if is_group {
            command.process_group(0);
        }
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let line = Arc::clone(&self.thread_sender);
        let close = move |written| {
            let end = ProcessEnd::OutputClosed { number, written };
            drop(line.send(&FromGuardian::Ended(end)));
        };
        let registry = self.poller.registry();
        let watched = pass_all_on(&mut child, close)
            .and_then(|()| pidfd_of(&child))
            .and_then(|pidfd| Source::new(registry, pidfd, Interest::READ));
        let pidfd = or_end(&mut child, watched)?;
        let is_spare = is_restart || number.0 >= self.workers;
        let passing = SignalForwarding {
            passed: Arc::clone(&self.passed),
            to: if is_spare {
                SignalTargets::Resumed
            } else {
                SignalTargets::All
            },
        };
        let mut process = GuardedProcess::new(number, child, pidfd, is_group, passing);
        process.tie(&self.position.directory())?;
        Ok(process)
    }

    /// Returns the standard output of a process: with `--output`, a worker's is a file.
    ///
    /// Spares have a pipe: one that replaces a worker opens the file as any file of the worker.
    fn standard_output(&self, number: ProcessNumber) -> io::Result<Stdio> {
        let output = WorkerOutput::of_environment().filter(|_| number.0 < self.workers);
        let Some(output) = output else {
            return Ok(Stdio::piped());
        };
        let path = output.start_file(Worker(number.0));
        let mut options = File::options();
        options.append(true).create(true);
        if self.position.rank.0 != self.position.local_rank {
            // What a lost host has in its cache is lost. The file must not be shorter then than at
            // the checkpoint. The first host, where both numbers are equal, is never lost alone.
            options.custom_flags(libc::O_DSYNC);
        }
        // The file of an earlier start must not be truncated, because its process may have it open.
        let _ = std::fs::remove_file(&path);
        let opened = options.open(&path);
        if let Err(error) = &opened {
            print_message(message::worker_output_not_opened(path.display(), error));
        }
        let opened = opened.map_err(|_| io::Error::other("its standard output cannot be opened"));
        opened.map(Stdio::from)
    }

    /// Returns the variables that give a process its number, as a launcher would set them.
    fn identity(&self, number: ProcessNumber) -> Identity {
        let position = &self.position;
        let (number, size) = (number.to_string(), position.size.to_string());
        let (local_size, local_rank) = (
            position.local_size.to_string(),
            position.local_rank.to_string(),
        );
        let line = format!(
            "{number},{},{}",
            position.rank,
            position.directory().display()
        );
        let variables = [
            (LINE_VARIABLE, &line),
            ("PMIX_NAMESPACE", &position.job),
            ("PMIX_RANK", &number),
            ("OMPI_COMM_WORLD_SIZE", &size),
            ("OMPI_COMM_WORLD_RANK", &number),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", &local_size),
            ("OMPI_COMM_WORLD_LOCAL_RANK", &local_rank),
        ];
        let runtime_directory = runtime_variable().map(|(name, path)| (name.into(), path.into()));
        Identity {
            variables: variables
                .map(|(name, value)| (name.into(), value.into()))
                .into_iter()
                .chain(runtime_directory)
                .collect(),
            defaults: Vec::new(),
            descriptor: None,
        }
    }
}
