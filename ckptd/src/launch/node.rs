//! A job's processes and guardians on one node: their lines, what they hand over, and the MPI library's servers.

use super::process::Process;
use super::program::Mpi;
use super::talk::{Order, Report};
use super::{Alone, Error, Event, Generation, Manager, Name, Rank, Settings, What};
use crate::line::{ASIDE, FromGuardian, Hello, Line, Listener, ToGuardian, ToManager, ToProcess};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How often processes are interrupted that are still in their MPI library.
const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);
/// How long a process may take to leave it.
const DEAFNESS: Duration = Duration::from_secs(30);
/// How long a script may take to end when the process has died that it has started.
const SCRIPTS_END: Duration = Duration::from_millis(500);
/// How long the guardians may take to come.
const GATHERING: Duration = Duration::from_secs(120);

/// A rank of a generation whose MPI library has given up.
type Broken = (Name, Rank);

/// A process that waits to be let in, and the file of its MPI library.
type Caller = (Line, String);

/// A node while the job runs.
pub struct Node {
    directory: PathBuf,
    listener: Listener,
    host: String,
    /// Those of the MPI library; not before a process has said which one.
    servers: Option<Manager>,
    wake: Arc<OwnedFd>,
    /// Ranks whose MPI library has given up.
    aborts: (Sender<Broken>, Receiver<Broken>),
    /// Who has not said yet what it is.
    callers: Vec<Line>,
    /// By rank.
    guardians: BTreeMap<u32, Line>,
    /// By number, as all that follows.
    waiting: BTreeMap<u32, Caller>,
    processes: BTreeMap<u32, Process>,
    /// What processes have handed over, and how those have ended that have.
    files: BTreeMap<u32, (Vec<OwnedFd>, i32)>,
    /// The generation that has begun last, and who its ranks are.
    begun: Option<(Name, Vec<u32>)>,
    /// The generation that processes are to leave their MPI library for, and since when.
    announced: Option<(u32, Instant)>,
    /// The program is at its end.
    is_ending: bool,
    /// When guardians were waited for, if none has come yet.
    gathering: Option<Instant>,
    reports: Vec<Report>,
}

impl Node {
    /// The node of the job that has this directory, where it is called.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new(listener: Listener, directory: &Path) -> Result<Node, Error> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|errno| Error::system("eventfd")(errno.into()))?;
        Ok(Node {
            directory: directory.to_owned(),
            listener,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            servers: None,
            wake: Arc::new(wake),
            aborts: channel(),
            callers: Vec::new(),
            guardians: BTreeMap::new(),
            waiting: BTreeMap::new(),
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            begun: None,
            announced: None,
            is_ending: false,
            gathering: Some(Instant::now()),
            reports: Vec::new(),
        })
    }

    /// No guardian is left, or none has come.
    pub fn is_deserted(&self) -> bool {
        let is_too_late = |since: Instant| since.elapsed() > GATHERING;
        self.guardians.is_empty() && self.callers.is_empty() && self.gathering.is_none_or(is_too_late)
    }

    /// Waits until something may have happened, or for so long.
    pub fn wait(&self, limit: Option<Duration>) {
        let own = [
            self.gathering.map(|_| GATHERING),
            self.announced
                .filter(|_| self.late().next().is_some())
                .map(|_| INTERRUPT_PERIOD),
            self.processes
                .values()
                .find_map(Process::is_silent_for)
                .map(|_| SCRIPTS_END),
        ];
        let limit = own.into_iter().chain([limit]).flatten().min().map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let lines = self.callers.iter().chain(self.guardians.values());
        let lines = lines.chain(self.processes.values().filter_map(Process::line));
        let all = lines.map(Line::as_fd).chain([self.listener.as_fd(), self.wake.as_fd()]);
        let mut polls: Vec<_> = all.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)).collect();
        let _ = poll(&mut polls, limit.as_ref());
    }

    /// What has happened since.
    pub fn attend(&mut self) {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        self.take_calls();
        self.hear_callers();
        self.hear_processes();
        self.hear_guardians();
        while let Ok((generation, rank)) = self.aborts.1.try_recv() {
            let begun = self.begun.as_ref().filter(|(name, _)| *name == generation);
            if let Some(&number) = begun.and_then(|(_, ranks)| ranks.get(rank.0 as usize)) {
                self.reports.push(Report::Broke { number });
            }
        }
        self.interrupt();
        self.end_scripts();
    }

    /// What the leader is to be told.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn take_calls(&mut self) {
        let mut polls = [PollFd::new(&self.listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Ok(1..) = poll(&mut polls, Some(&now)) {
            self.callers.extend(self.listener.accept());
        }
    }

    fn hear_callers(&mut self) {
        for line in std::mem::take(&mut self.callers) {
            match line.receive::<Hello>(Duration::ZERO) {
                Ok(None) => self.callers.push(line),
                Ok(Some(Hello::Guardian { rank, workers, spares })) => {
                    self.gathering = None;
                    self.guardians.insert(rank, line);
                    self.reports.push(Report::Came { rank, workers, spares });
                }
                Ok(Some(Hello::Process { number, library })) => self.take_caller(number, (line, library)),
                Err(_) => {}
            }
        }
    }

    /// A process of the program uses MPI.
    fn take_caller(&mut self, number: u32, caller: Caller) {
        if self.is_ending {
            self.forget_program();
        } else if self.processes.contains_key(&number) || self.waiting.contains_key(&number) {
            // The one before has died, and its script has gone on to the next program; that is the death of both.
            return self.kill(number);
        }
        self.waiting.insert(number, caller);
        self.reports.push(Report::Called { number });
    }

    /// Of the program before nothing is needed any more.
    fn forget_program(&mut self) {
        self.processes.clear();
        self.files.clear();
    }

    fn admit(&mut self, number: u32, generation: Option<u32>) {
        let (Some((line, library)), Some(generation)) = (self.waiting.remove(&number), generation) else {
            return;
        };
        self.is_ending = false;
        let process = Process::new(line, generation);
        match process.and_then(|process| process.introduce().map(|()| process)) {
            Ok(process) => drop(self.processes.insert(number, process)),
            Err(error) => return self.give_up(format!("a process cannot be connected: {error}")),
        }
        if self.servers.is_none() {
            match self.start_servers(Path::new(&library)) {
                Ok(servers) => self.servers = Some(servers),
                Err(error) => self.give_up(format!("{error}. {}", error.remedy())),
            }
        }
    }

    fn start_servers(&self, library: &Path) -> Result<Manager, Error> {
        let mpi = Mpi::named(library)?;
        let place = |name: &str| -> Result<PathBuf, Error> {
            let path = self.directory.join(name);
            let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
            made.map_err(Error::system(path.display().to_string()))?;
            Ok(path)
        };
        let (servers, events) = Manager::start(&Settings {
            mpi,
            directory: place("sessions")?,
            memory: place("segments")?,
            host: self.host.clone(),
            peers: Arc::new(Alone),
        })?;
        let (aborts, wake) = (self.aborts.0.clone(), Arc::clone(&self.wake));
        std::thread::spawn(move || note_aborts(events, &aborts, &wake));
        Ok(servers)
    }

    fn hear_guardians(&mut self) {
        let (mut heard, mut gone) = (Vec::new(), Vec::new());
        for (&rank, line) in &self.guardians {
            loop {
                match line.receive::<FromGuardian>(Duration::ZERO) {
                    Ok(Some(message)) => heard.push(message),
                    Ok(None) => break,
                    Err(_) => {
                        gone.push(rank);
                        break;
                    }
                }
            }
        }
        for message in heard {
            let (message, ended) = self.understood(message);
            if let Some((number, status)) = ended {
                log::info!("process {number} has ended: {message:?}");
                // What has been said before, by it or others, is older than its end.
                self.hear_processes();
                self.processes.remove(&number);
                self.waiting.remove(&number);
                if let Some((_, ending)) = self.files.get_mut(&number) {
                    *ending = status;
                }
            }
            self.reports.push(Report::Guardian(message));
        }
        for rank in gone {
            self.guardians.remove(&rank);
            self.reports.push(Report::Gone { rank });
        }
    }

    /// What a guardian means; and which process has ended, with its status as wait(2) tells it.
    fn understood(&self, message: FromGuardian) -> (FromGuardian, Option<(u32, i32)>) {
        // Without the layer a process cannot be replaced.
        let is_aside = || self.directory.join(ASIDE).exists();
        let (number, signal, is_asked) = match message {
            FromGuardian::Closed { .. } => return (message, None),
            FromGuardian::Exited { number, status, pid } => {
                let rank = self.processes.get(&number).map(Process::pid);
                match status {
                    // A shell has started the rank, and tells how that has ended (POSIX, 2.8.2).
                    129..192 if rank.is_some_and(|rank| rank != pid) => (number, status - 128, false),
                    _ => return (message, Some((number, status << 8))),
                }
            }
            FromGuardian::Killed {
                number,
                signal,
                is_asked,
            } => (number, signal, is_asked),
        };
        let is_asked = is_asked || is_aside();
        let killed = FromGuardian::Killed {
            number,
            signal,
            is_asked,
        };
        (killed, Some((number, signal)))
    }

    fn hear_processes(&mut self) {
        for (&number, process) in &mut self.processes {
            for (said, files) in process.hear() {
                match said {
                    // How it ends is told when it does, unless its guardian dies as well.
                    ToManager::Keeps { .. } => drop(self.files.insert(number, (files, libc::SIGKILL))),
                    ToManager::KeepsNothing => drop(self.files.remove(&number)),
                    _ => {}
                }
                self.reports.push(Report::Process { number, said });
            }
        }
    }

    /// Does what the leader wants.
    pub fn obey(&mut self, order: Order) {
        match order {
            Order::Guardian { rank, message } => self.tell_guardian(rank, &message),
            Order::Admit { number, generation } => self.admit(number, generation),
            Order::Announce { generation } => {
                if std::mem::take(&mut self.is_ending) {
                    self.forget_program();
                }
                self.announced = Some((generation, Instant::now()));
                self.processes
                    .values()
                    .for_each(|process| process.tell_generation(generation));
            }
            Order::Inherit { heir, from } => self.hand_out(heir, from),
            Order::Begin { generation, ranks } => {
                if let Err(error) = self.begin(generation, ranks) {
                    self.give_up(format!("{error}. {}", error.remedy()));
                }
            }
            Order::End { is_good } => {
                self.is_ending = true;
                if is_good {
                    let processes = self.processes.values();
                    processes.for_each(|process| process.tell(&ToProcess::End, &[]));
                }
            }
        }
    }

    /// Has a process killed by its guardian, whichever that is.
    fn kill(&self, number: u32) {
        let kill = ToGuardian::Kill { number };
        self.guardians.values().for_each(|line| drop(line.send(&kill)));
    }

    fn tell_guardian(&mut self, rank: u32, message: &ToGuardian) {
        match message {
            ToGuardian::Start { number, .. } => drop(self.processes.remove(number)),
            ToGuardian::Kill { number } => {
                // It need not be the process that the guardian has started, but one that a script has.
                if let Some(process) = self.processes.get(number) {
                    process.kill();
                }
            }
            ToGuardian::Leave { .. } => {}
        }
        if let Some(line) = self.guardians.get(&rank) {
            // One that has gone is found soon.
            let _ = line.send(message);
        }
    }

    /// Gives a process the files of a dead one.
    fn hand_out(&mut self, heir: u32, from: u32) {
        let Some((files, status)) = self.files.remove(&from) else {
            return;
        };
        log::info!("process {heir} inherits from process {from}");
        if let Some(process) = self.processes.get(&heir) {
            // One that has died meanwhile leaves them to the next.
            process.tell(&ToProcess::Inherit { from, status }, &files);
        }
        self.files.insert(heir, (files, libc::SIGKILL));
    }

    /// Makes a generation known to the servers, and to its processes.
    fn begin(&mut self, generation: u32, ranks: Vec<u32>) -> Result<(), Error> {
        self.announced = None;
        let Some(servers) = &self.servers else { return Ok(()) };
        // All have left it, and none is in the next one yet: the servers want it so.
        if let Some((before, _)) = self.begun.take() {
            servers.end(&before)?;
        }
        let size = ranks.len() as u32;
        let job = format!("understudy-{}", std::process::id());
        let of_all = Generation::here(&job, generation, &self.host, size)?;
        servers.begin(&of_all)?;
        self.processes.retain(|number, _| ranks.contains(number));
        self.files.retain(|number, _| ranks.contains(number));
        for (rank, number) in (0..).zip(&ranks) {
            let identity = servers.identity(&of_all.name, Rank(rank))?;
            let text = |text: OsString| text.to_string_lossy().into_owned();
            let all = identity.defaults.into_iter().chain(identity.variables);
            let begin = ToProcess::Begin {
                generation,
                rank,
                size,
                variables: all.map(|(name, value)| (text(name), text(value))).collect(),
                descriptor: identity.descriptor.as_ref().map(|_| "PMI_FD".into()),
            };
            if let Some(process) = self.processes.get(number) {
                let descriptor: Vec<OwnedFd> = identity.descriptor.into_iter().collect();
                process.tell(&begin, &descriptor);
            }
        }
        self.begun = Some((of_all.name, ranks));
        Ok(())
    }

    /// Who is to be taken out of the MPI library, if in it.
    fn late(&self) -> impl Iterator<Item = &Process> {
        let announced = self.announced.filter(|_| !self.is_ending);
        let is_late =
            move |process: &&Process| announced.is_some_and(|(generation, _)| process.is_late_for(generation));
        self.processes.values().filter(is_late)
    }

    fn interrupt(&self) {
        let is_deaf = self.announced.is_some_and(|(_, since)| since.elapsed() > DEAFNESS);
        for process in self.late().filter(|process| process.is_inside()) {
            match is_deaf {
                true => {
                    eprintln!(
                        "understudy: process {} does not leave the MPI library; it is killed",
                        process.pid()
                    );
                    process.kill();
                }
                false => process.interrupt(),
            }
        }
    }

    /// A script may go on although the process that it has started has died; that is the death of both.
    fn end_scripts(&mut self) {
        if self.is_ending {
            return;
        }
        let is_over = |process: &Process| process.is_silent_for().is_some_and(|time| time > SCRIPTS_END);
        for (&number, process) in self.processes.iter().filter(|(_, process)| is_over(process)) {
            log::info!(
                "process {number} (pid {}) has died, and what has started it is ended",
                process.pid()
            );
            self.kill(number);
        }
        self.processes.retain(|_, process| !is_over(process));
    }

    /// The job cannot go on.
    fn give_up(&mut self, why: String) {
        self.reports.push(Report::GivesUp(why));
    }
}

/// Passes on what the servers' threads see of libraries that give up.
fn note_aborts(events: Receiver<Event>, aborts: &Sender<Broken>, wake: &OwnedFd) {
    for event in events {
        if let What::Abort { status, message } = event.what {
            log::info!(
                "rank {} of {} aborts ({status}): {message}",
                event.rank,
                event.generation
            );
            let _ = aborts.send((event.generation, event.rank));
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }
}
