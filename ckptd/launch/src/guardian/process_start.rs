//! The start of a process of the program.

use super::guardian_process::GuardianProcess;
use super::ward::{Passing, To, Ward};
use crate::Error;
use crate::output::pass_all_on;
use crate::say::say;
use crate::tied_child::{die_with_parent, or_end, pidfd_of};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use understudy_catalogue::message;
use understudy_formats::private::runtime_variable;
use understudy_numbers::ProcessNumber;
use understudy_pmi::{Identity, adopt, is_of_a_launcher};
use understudy_sockets::Source;
use understudy_wire::io::Interest;
use understudy_wire::line::{Ended, FromGuardian, Killer, LAUNCHERS, LINE, PID_NAMESPACE};

/// Exit status of a process that cannot be started (EX_OSERR of sysexits.h).
const NOT_STARTED: i32 = 71;

impl GuardianProcess {
    /// Starts a process of the program that does not outlive this one.
    ///
    /// A process that cannot be started is reported as ended.
    pub fn start(&mut self, number: ProcessNumber, anew: bool) {
        self.wards().retain(|before| before.number != number);
        let ending = match self.asked {
            Some(signal) => {
                let by = Killer::Launcher;
                Ended::Killed { number, signal, by }
            }
            None => match self.ward(number, anew) {
                Ok(ward) => {
                    self.has_begun = true;
                    return self.wards().push(ward);
                }
                Err(error) => {
                    let error = Error::system(self.program.file.display().to_string())(error);
                    say(message::process_not_started(error));
                    let (status, pid) = (NOT_STARTED, 0);
                    Ended::Exited {
                        number,
                        status,
                        pid,
                    }
                }
            },
        };
        let written = 0;
        for told in [ending, Ended::Closed { number, written }] {
            let _ = self.line.send(&FromGuardian::Ended(told));
        }
    }

    fn ward(&self, number: ProcessNumber, anew: bool) -> io::Result<Ward> {
        let mut command = self.program.command();
        command.env("UNDERSTUDY_SPARES", self.spares.to_string());
        command.env_remove("UNDERSTUDY_ASIDE");
        if anew && number.0 < self.seat.size {
            // A fault strikes once. Processes with further numbers are not those that the fault
            // names.
            command.env_remove("UNDERSTUDY_FAULT");
        }
        adopt(&mut command, self.identity(number));
        if let Ok(namespace) = rustix::fs::stat("/proc/self/ns/pid") {
            command.env(PID_NAMESPACE, namespace.st_ino.to_string());
        }
        if !self.seat.is_ours() {
            // If the program runs without understudy, it needs the variables of its launcher.
            for (name, value) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
                let mut was = OsString::from(LAUNCHERS);
                was.push(name);
                command.env(was, value);
            }
        }
        command.stdin(self.input.for_process(number)?);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A process that reads a terminal must be in its foreground group (termios(3), tcsetpgrp).
        let is_group = !io::stdin().is_terminal();
        if is_group {
            command.process_group(0);
        }
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let line = Arc::clone(&self.closing);
        let close = move |written| drop(line.send(&Ended::Closed { number, written }));
        let registry = self.poller.registry();
        let watched = pass_all_on(&mut child, close)
            .and_then(|()| pidfd_of(&child))
            .and_then(|pidfd| Source::new(registry, pidfd, Interest::READ));
        let pidfd = or_end(&mut child, watched)?;
        let is_spare = anew || number.0 >= self.workers;
        let passing = Passing {
            passed: Arc::clone(&self.passed),
            to: if is_spare { To::Players } else { To::Whoever },
        };
        Ok(Ward::new(number, child, pidfd, is_group, passing))
    }

    /// Returns the variables that give a process its number, as a launcher would set them.
    fn identity(&self, number: ProcessNumber) -> Identity {
        let seat = &self.seat;
        let (number, size) = (number.to_string(), seat.size.to_string());
        let (local_size, local_rank) = (seat.local_size.to_string(), seat.local_rank.to_string());
        let line = format!("{number},{},{}", seat.rank, seat.directory().display());
        let variables = [
            (LINE, &line),
            ("PMIX_NAMESPACE", &seat.job),
            ("PMIX_RANK", &number),
            ("OMPI_COMM_WORLD_SIZE", &size),
            ("OMPI_COMM_WORLD_RANK", &number),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", &local_size),
            ("OMPI_COMM_WORLD_LOCAL_RANK", &local_rank),
        ];
        let place = runtime_variable().map(|(name, place)| (name.into(), place.into()));
        Identity {
            variables: variables
                .map(|(name, value)| (name.into(), value.into()))
                .into_iter()
                .chain(place)
                .collect(),
            defaults: Vec::new(),
            descriptor: None,
        }
    }
}
