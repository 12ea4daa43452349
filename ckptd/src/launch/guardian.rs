//! The guardian: what a launcher sees of a process of the program.
//!
//! Launchers end a job when one of its processes is killed. They have started guardians, which are not: a guardian starts the process, passes
//! on its output and the launcher's signals, tells the job's manager how it ends, and starts another one when the manager asks for that.
//! If the guardian is killed, so are its processes.
#![allow(unsafe_code)]

use super::local::{adopt, is_of_a_launcher};
use super::place::Seat;
use super::{Error, Identity};
use crate::line::{FromGuardian, Hello, LAUNCHERS, LINE, Line, ToGuardian};
use crate::settings::{Config, refusal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, set_parent_process_death_signal,
};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Signals that a launcher passes on to its processes.
const FORWARDED: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Exit status of a job that cannot be protected and must be (EX_CONFIG of sysexits.h).
const REFUSED: i32 = 78;
/// How long the first process of a node may take to say why.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The program, as the launcher was told to start it.
#[derive(Debug)]
pub struct Program {
    pub file: PathBuf,
    /// The first is its name.
    pub arguments: Vec<OsString>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        command
    }
}

/// A process of the program.
struct Ward {
    number: u32,
    child: Child,
    pidfd: OwnedFd,
    is_group: bool,
    /// The last signal that was passed on to it.
    asked: i32,
}

impl Ward {
    fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.child.id() as i32) else {
            return;
        };
        // It may have ended; it has not been waited for.
        let _ = match self.is_group {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        };
    }
}

/// A guardian at its work.
struct Guardian {
    seat: Seat,
    spares: u32,
    program: Program,
    line: Arc<Line>,
    /// It ends when nobody holds its standard input.
    _manager: Option<Child>,
    wards: Arc<Mutex<Vec<Ward>>>,
}

/// Guards processes until the job's manager says with which status to end.
///
/// # Errors
/// What the environment or the system lack.
pub fn run(program: Program) -> Result<i32, Error> {
    let mut seat = Seat::from_environment()?;
    // Without its launcher nobody would end this.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| Error::system("prctl")(errno.into()))?;
    // What is wrong with a setting, the program's processes tell.
    let spares = Config::read(|name| std::env::var(name).ok()).map_or(1, |config| config.spares);
    let Some(workers) = seat.size.checked_sub(spares).filter(|&workers| workers > 0) else {
        return Err(Error::OnlySpares {
            size: seat.size,
            spares,
        });
    };
    let (line, manager) = match seat.call() {
        Err(error @ Error::Planted(_)) => return go_without(&program, &seat, &error),
        called => called?,
    };
    let line = Arc::new(line);
    let hello = Hello::Guardian {
        rank: seat.rank,
        workers,
        spares,
    };
    line.send(&hello).map_err(Error::system("the process manager"))?;
    let mut guardian = Guardian {
        seat,
        spares,
        program,
        line,
        _manager: manager,
        wards: Arc::default(),
    };
    guardian.forward_signals()?;
    guardian.attend()
}

/// The job cannot be protected: the program runs in place of this process, or the job stops.
fn go_without(program: &Program, seat: &Seat, why: &Error) -> Result<i32, Error> {
    let stop = refusal::stops(!seat.is_ours(), !seat.is_on_one_node());
    if seat.local_rank == 0 {
        eprintln!("understudy: {why}; {}; {}", why.remedy(), refusal::outcome(stop));
    } else if stop.is_some() {
        // A rank that ends with an error ends the job: the one that speaks is given time.
        std::thread::sleep(LAST_WORD);
    }
    if stop.is_some() {
        return Ok(REFUSED);
    }
    set_parent_process_death_signal(None).map_err(|errno| Error::system("prctl")(errno.into()))?;
    let mut command = program.command();
    let preload = std::env::var("LD_PRELOAD").unwrap_or_default();
    let is_other = |item: &&str| !item.is_empty() && !item.ends_with("libunderstudy.so");
    let others: Vec<&str> = preload.split([':', ' ']).filter(is_other).collect();
    command.env("LD_PRELOAD", others.join(":"));
    Err(Error::system(program.file.display().to_string())(command.exec()))
}

impl Guardian {
    fn wards(&self) -> MutexGuard<'_, Vec<Ward>> {
        self.wards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forward_signals(&self) -> Result<(), Error> {
        let mut signals = Signals::new(FORWARDED).map_err(Error::system("a signal handler"))?;
        let wards = Arc::clone(&self.wards);
        std::thread::spawn(move || {
            for number in signals.forever() {
                let Some(signal) = Signal::from_named_raw(number) else {
                    continue;
                };
                for ward in wards.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
                    ward.asked = number;
                    ward.signal(signal);
                }
            }
        });
        Ok(())
    }

    fn attend(&mut self) -> Result<i32, Error> {
        loop {
            self.wait();
            self.bury();
            match self.line.receive(Duration::ZERO) {
                Ok(Some(ToGuardian::Start { number, anew })) => self.start(number, anew)?,
                Ok(Some(ToGuardian::Kill { number })) => {
                    for ward in self.wards().iter().filter(|ward| ward.number == number) {
                        ward.signal(Signal::KILL);
                    }
                }
                Ok(Some(ToGuardian::Leave { status })) => return Ok(status),
                Ok(None) => {}
                Err(_) => return Err(Error::NoManager),
            }
        }
    }

    /// Waits until the manager says something or a process ends.
    fn wait(&self) {
        // Nobody else takes wards away.
        let pidfds: Vec<OwnedFd> = self
            .wards()
            .iter()
            .filter_map(|ward| ward.pidfd.try_clone().ok())
            .collect();
        let mut polls: Vec<_> = pidfds.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
        polls.push(PollFd::new(&*self.line, PollFlags::IN));
        let _ = poll(&mut polls, None);
    }

    /// Tells the manager who has ended.
    fn bury(&self) {
        let mut wards = self.wards();
        let mut index = 0;
        while index < wards.len() {
            let Ok(Some(status)) = wards[index].child.try_wait() else {
                index += 1;
                continue;
            };
            let ward = wards.remove(index);
            // What else a killed one has started does not outlive it.
            if ward.is_group && status.signal().is_some() {
                ward.signal(Signal::KILL);
            }
            // If the manager has gone, that is seen next.
            let _ = self.line.send(&ward.obituary(status));
        }
    }

    /// Starts a process of the program, which does not outlive this one.
    fn start(&mut self, number: u32, anew: bool) -> Result<(), Error> {
        let mut command = self.program.command();
        command.env("UNDERSTUDY_SPARES", self.spares.to_string());
        command.env_remove("UNDERSTUDY_ASIDE");
        if anew && number < self.seat.size {
            // A fault strikes once; new processes have numbers of their own.
            command.env_remove("UNDERSTUDY_FAULT");
        }
        adopt(&mut command, self.identity(number));
        if !self.seat.is_ours() {
            // Should the program run without the layer, it has its launcher.
            for (name, value) in std::env::vars_os().filter(|(name, _)| is_of_a_launcher(name)) {
                let mut was = OsString::from(LAUNCHERS);
                was.push(name);
                command.env(was, value);
            }
        }
        command.stdin(if anew && self.seat.rank != 0 {
            Stdio::null()
        } else {
            Stdio::inherit()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // One that reads a terminal must be in its foreground group (termios(3), tcsetpgrp).
        let is_group = !io::stdin().is_terminal();
        if is_group {
            command.process_group(0);
        }
        let prepare = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(prepare) };
        let what = || Error::system(self.program.file.display().to_string());
        let mut child = command.spawn().map_err(what())?;
        let pidfd = Pid::from_raw(child.id() as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pidfd = pidfd.transpose().map_err(|errno| what()(errno.into()))?;
        self.pump(number, &mut child);
        self.wards().extend(pidfd.map(|pidfd| Ward {
            number,
            child,
            pidfd,
            is_group,
            asked: 0,
        }));
        Ok(())
    }

    /// What makes a process the one of this number, as a launcher would tell it.
    fn identity(&self, number: u32) -> Identity {
        let seat = &self.seat;
        let (number, size) = (number.to_string(), seat.size.to_string());
        let (local_size, local_rank) = (seat.local_size.to_string(), seat.local_rank.to_string());
        let line = format!("{number},{}", seat.directory().display());
        let variables = [
            (LINE, &line),
            ("PMIX_NAMESPACE", &seat.job),
            ("PMIX_RANK", &number),
            ("OMPI_COMM_WORLD_SIZE", &size),
            ("OMPI_COMM_WORLD_RANK", &number),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", &local_size),
            ("OMPI_COMM_WORLD_LOCAL_RANK", &local_rank),
        ];
        Identity {
            variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
            defaults: Vec::new(),
            descriptor: None,
        }
    }

    /// Passes on what a process writes; tells the manager when all that write there have closed it, relays among them.
    fn pump(&self, number: u32, child: &mut Child) {
        let written = Arc::new(AtomicU64::new(0));
        let open = Arc::new(AtomicUsize::new(2));
        let close = {
            let (line, written) = (Arc::clone(&self.line), Arc::clone(&written));
            move || {
                if open.fetch_sub(1, Ordering::AcqRel) == 1 {
                    let written = written.load(Ordering::Relaxed);
                    let _ = line.send(&FromGuardian::Closed { number, written });
                }
            }
        };
        let close_too = close.clone();
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        std::thread::spawn(move || {
            if let Some(from) = out {
                pass_on(from, rustix::stdio::stdout(), &written);
            }
            close();
        });
        std::thread::spawn(move || {
            if let Some(from) = errors {
                pass_on(from, rustix::stdio::stderr(), &AtomicU64::new(0));
            }
            close_too();
        });
    }
}

impl Ward {
    fn obituary(&self, status: ExitStatus) -> FromGuardian {
        let number = self.number;
        match status.signal() {
            None => FromGuardian::Exited {
                number,
                status: status.code().unwrap_or_default(),
                pid: self.child.id(),
            },
            Some(signal) => FromGuardian::Killed {
                number,
                signal,
                // A terminal sends it to all.
                is_asked: signal == self.asked || signal == libc::SIGINT,
            },
        }
    }
}

/// Passes a stream on until its end, and counts the bytes.
fn pass_on(mut from: impl Read, to: BorrowedFd<'_>, written: &AtomicU64) {
    let Ok(to) = to.try_clone_to_owned() else { return };
    let (mut to, mut bytes) = (File::from(to), [0; 1 << 16]);
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        written.fetch_add(length as u64, Ordering::Relaxed);
        // Whoever has closed the other end does not want it.
        let _ = to.write_all(&bytes[..length]);
    }
}
