//! The manager of a job on this node: gives the protocol its lines, its clock and the MPI library's servers.
//!
//! What is decided is in `understudy_protocol`; here messages become events, and actions become messages.

use super::process::Process;
use super::program::Mpi;
use super::{Alone, Error, Event, Generation, Manager, Name, Rank, Settings, What};
use crate::line::{ASIDE, FromGuardian, Hello, Line, Listener, ToGuardian, ToManager, ToProcess};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use understudy_protocol as protocol;
use understudy_protocol::{Action, Ending, Guardian, LOST, Number, Said};

/// How often processes are interrupted that are still in their MPI library.
const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);
/// How long a script may take to end when the process has died that it has started.
const SCRIPTS_END: Duration = Duration::from_millis(500);
/// How long the guardians may take to come.
const GATHERING: Duration = Duration::from_secs(120);

/// Manages the job that has this directory, until its guardians have gone.
///
/// # Errors
/// If nobody can call, for want of a directory.
pub fn manage(listener: Listener, directory: &Path) -> Result<(), Error> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let wake = wake.map_err(|errno| Error::system("eventfd")(errno.into()))?;
    let mut job = Job {
        directory: directory.to_owned(),
        listener,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        protocol: None,
        servers: None,
        wake: Arc::new(wake),
        aborts: channel(),
        callers: Vec::new(),
        guardians: BTreeMap::new(),
        processes: BTreeMap::new(),
        late: BTreeMap::new(),
        files: BTreeMap::new(),
        begun: None,
        began: Instant::now(),
    };
    job.run();
    job.clean_up();
    Ok(())
}

/// A rank of a generation whose MPI library has given up.
type Broken = (Name, Rank);

/// The job while it runs.
struct Job {
    directory: PathBuf,
    listener: Listener,
    host: String,
    /// There is none before the first guardian has said how many there are.
    protocol: Option<protocol::Job>,
    /// Those of the MPI library; not before a process has said which one.
    servers: Option<Manager>,
    wake: Arc<OwnedFd>,
    /// Ranks whose MPI library has given up.
    aborts: (Sender<Broken>, Receiver<Broken>),
    /// Who has not said yet what it is.
    callers: Vec<Line>,
    guardians: BTreeMap<Guardian, Line>,
    processes: BTreeMap<Number, Process>,
    /// Programs of scripts that have come too late; each waits to be killed.
    late: BTreeMap<Number, Line>,
    /// What processes have handed over, and how those have ended that have.
    files: BTreeMap<Number, (Vec<OwnedFd>, i32)>,
    /// The generation that has begun last, and who its ranks are.
    begun: Option<(Name, Vec<Number>)>,
    began: Instant,
}

impl Job {
    /// Attends to the job until its guardians have gone.
    fn run(&mut self) {
        loop {
            self.wait();
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
            self.take_calls();
            self.hear_callers();
            self.hear_processes();
            self.hear_guardians();
            while let Ok((generation, rank)) = self.aborts.1.try_recv() {
                let begun = self.begun.as_ref().filter(|(name, _)| *name == generation);
                if let Some(&number) = begun.and_then(|(_, ranks)| ranks.get(rank.0 as usize)) {
                    self.happen(protocol::Event::Broke(number));
                }
            }
            self.happen(protocol::Event::Tick);
            self.interrupt();
            self.end_scripts();
            let is_deserted = self.guardians.is_empty() && self.callers.is_empty();
            if is_deserted && (self.protocol.is_some() || self.began.elapsed() > GATHERING) {
                return;
            }
        }
    }

    /// Waits until something may have happened.
    fn wait(&self) {
        let mut limit = self.protocol.is_none().then_some(GATHERING);
        if let Some(protocol) = &self.protocol {
            if !protocol.late().0.is_empty() {
                limit = Some(INTERRUPT_PERIOD);
            } else if let Some(deadline) = protocol.deadline() {
                limit = Some(deadline.saturating_sub(self.began.elapsed()));
            }
        }
        if self.processes.values().any(|process| process.is_silent_for().is_some()) {
            limit = Some(limit.unwrap_or(SCRIPTS_END).min(SCRIPTS_END));
        }
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let lines = self.callers.iter().chain(self.guardians.values());
        let lines = lines.chain(self.processes.values().filter_map(Process::line));
        let all = lines.map(Line::as_fd).chain([self.listener.as_fd(), self.wake.as_fd()]);
        let mut polls: Vec<_> = all.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)).collect();
        let _ = poll(&mut polls, limit.as_ref());
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
                    self.protocol.get_or_insert_with(|| protocol::Job::new(workers, spares));
                    self.guardians.insert(Guardian(rank), line);
                    self.happen(protocol::Event::Came(Guardian(rank)));
                }
                Ok(Some(Hello::Process { number, library })) => self.meet(Number(number), line, &library),
                Err(_) => {}
            }
        }
    }

    /// A process of the program uses MPI.
    fn meet(&mut self, number: Number, line: Line, library: &str) {
        if self.protocol.as_ref().is_some_and(protocol::Job::is_ending) {
            // Of the program before nothing is needed any more.
            self.processes.clear();
            self.files.clear();
        } else if self.processes.contains_key(&number) {
            // The one before has died, and its script has gone on to the next program; that is the death of both.
            self.late.insert(number, line);
            return self.tell_guardians(&ToGuardian::Kill { number: number.0 });
        }
        self.happen(protocol::Event::Called(number));
        let Some(protocol) = &self.protocol else { return };
        if protocol.is_ending() {
            eprintln!("understudy: the job is at its end, and process {number} comes too late");
            return;
        }
        let process = Process::new(line, protocol.generation().0);
        match process.and_then(|process| process.introduce().map(|()| process)) {
            Ok(process) => drop(self.processes.insert(number, process)),
            Err(error) => return self.give_up(&format!("a process cannot be connected: {error}")),
        }
        if self.servers.is_none() {
            match self.start_servers(Path::new(library)) {
                Ok(servers) => self.servers = Some(servers),
                Err(error) => self.give_up(&format!("{error}. {}", error.remedy())),
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
        let mut heard = Vec::new();
        for (&guardian, line) in &self.guardians {
            loop {
                match line.receive::<FromGuardian>(Duration::ZERO) {
                    Ok(Some(message)) => heard.push(self.event_of(&message)),
                    Ok(None) => break,
                    Err(_) => {
                        heard.push(protocol::Event::Gone(guardian));
                        break;
                    }
                }
            }
        }
        for event in heard {
            match event {
                protocol::Event::Gone(guardian) => drop(self.guardians.remove(&guardian)),
                protocol::Event::Ended(number, ending) => {
                    log::info!("process {number} has ended: {ending:?}");
                    // What has been said before, by it or others, is older than its end.
                    self.hear_processes();
                    self.processes.remove(&number);
                    self.late.remove(&number);
                    if let Some((_, status)) = self.files.get_mut(&number) {
                        *status = as_wait_tells(ending);
                    }
                }
                _ => {}
            }
            self.happen(match event {
                // Without the layer it cannot be replaced.
                protocol::Event::Ended(number, Ending::Signal(signal)) if self.directory.join(ASIDE).exists() => {
                    protocol::Event::Ended(number, Ending::Asked(signal))
                }
                event => event,
            });
        }
    }

    fn event_of(&self, message: &FromGuardian) -> protocol::Event {
        match *message {
            FromGuardian::Exited { number, status, pid } => {
                let rank = self.processes.get(&Number(number)).map(Process::pid);
                // A shell has started the rank, and tells how that has ended (POSIX, 2.8.2).
                let ending = match status {
                    129..192 if rank.is_some_and(|rank| rank != pid) => Ending::Signal(status - 128),
                    _ => Ending::Exit(status),
                };
                protocol::Event::Ended(Number(number), ending)
            }
            FromGuardian::Killed {
                number,
                signal,
                is_asked,
            } => {
                let ending = if is_asked {
                    Ending::Asked(signal)
                } else {
                    Ending::Signal(signal)
                };
                protocol::Event::Ended(Number(number), ending)
            }
            FromGuardian::Closed { number, written } => protocol::Event::Closed(Number(number), written),
        }
    }

    fn hear_processes(&mut self) {
        let numbers: Vec<Number> = self.processes.keys().copied().collect();
        for number in numbers {
            self.hear_process(number);
        }
    }

    fn hear_process(&mut self, number: Number) {
        let heard = self.processes.get_mut(&number).map(Process::hear).unwrap_or_default();
        for (message, files) in heard {
            let generation = protocol::Generation;
            let said = match message {
                ToManager::Ready { generation: of } => Said::Ready(generation(of)),
                ToManager::Running { generation: of } => Said::Running(generation(of)),
                ToManager::Failed { generation: of } => Said::Failed(generation(of)),
                ToManager::AtEnd { generation: of } => Said::AtEnd(generation(of)),
                ToManager::Keeps { worker } => {
                    // How it ends is told when it does, unless its guardian dies as well.
                    self.files.insert(number, (files, libc::SIGKILL));
                    Said::Keeps(worker)
                }
                ToManager::KeepsNothing => {
                    self.files.remove(&number);
                    Said::KeepsNothing
                }
                ToManager::Replenish { spares } => Said::Replenish(spares),
                ToManager::Abort { status } => Said::Abort(status),
            };
            self.happen(protocol::Event::Said(number, said));
        }
    }

    fn happen(&mut self, event: protocol::Event) {
        let Some(protocol) = &mut self.protocol else { return };
        let actions = protocol.handle(self.began.elapsed(), event);
        if actions.iter().any(|action| matches!(action, Action::Leave { .. })) {
            self.clean_up();
        }
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start {
                number: Number(number),
                at,
                anew,
            } => {
                self.processes.remove(&Number(number));
                self.tell_guardian(at, &ToGuardian::Start { number, anew });
            }
            Action::Kill { number, at } => {
                // It need not be the process that the guardian has started, but one that a script has.
                if let Some(process) = self.processes.get(&number) {
                    process.kill();
                }
                self.tell_guardian(at, &ToGuardian::Kill { number: number.0 });
            }
            Action::Leave { at, status } => self.tell_guardian(at, &ToGuardian::Leave { status }),
            Action::Announce(generation) => {
                log::info!("generation {generation} is to be");
                self.processes
                    .values()
                    .for_each(|process| process.tell_generation(generation.0));
            }
            Action::Inherit { heir, from } => self.hand_out(heir, from),
            Action::Begin { generation, ranks } => {
                if let Err(error) = self.begin(generation.0, &ranks) {
                    self.give_up(&format!("{error}. {}", error.remedy()));
                }
            }
            Action::End => self
                .processes
                .values()
                .for_each(|process| process.tell(&ToProcess::End, &[])),
            Action::Say(text) => eprintln!("understudy: {text}"),
        }
    }

    /// Whichever has the process that this is about.
    fn tell_guardians(&self, message: &ToGuardian) {
        self.guardians.values().for_each(|line| drop(line.send(message)));
    }

    fn tell_guardian(&self, at: Guardian, message: &ToGuardian) {
        if let Some(line) = self.guardians.get(&at) {
            // One that has gone is found soon.
            let _ = line.send(message);
        }
    }

    /// Gives a process the files of a dead one.
    fn hand_out(&mut self, heir: Number, from: Number) {
        let Some((files, status)) = self.files.remove(&from) else {
            return;
        };
        log::info!("process {heir} inherits from process {from}");
        if let Some(process) = self.processes.get(&heir) {
            let inherit = ToProcess::Inherit { from: from.0, status };
            // One that has died meanwhile leaves them to the next.
            process.tell(&inherit, &files);
        }
        self.files.insert(heir, (files, libc::SIGKILL));
    }

    /// Makes a generation known to the servers, and to its processes.
    fn begin(&mut self, generation: u32, ranks: &[Number]) -> Result<(), Error> {
        let Some(servers) = &self.servers else { return Ok(()) };
        // All have left it, and none is in the next one yet: the servers want it so.
        if let Some((before, _)) = self.begun.take() {
            servers.end(&before)?;
        }
        let size = ranks.len() as u32;
        let of_all = Generation::here(
            &format!("understudy-{}", std::process::id()),
            generation,
            &self.host,
            size,
        )?;
        servers.begin(&of_all)?;
        self.files.retain(|number, _| ranks.contains(number));
        for (rank, number) in (0..).zip(ranks) {
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
        log::info!("generation {generation} begins with {size} processes");
        self.begun = Some((of_all.name, ranks.to_vec()));
        Ok(())
    }

    /// Takes processes out of their MPI library that are to leave it.
    fn interrupt(&mut self) {
        let Some(protocol) = &self.protocol else { return };
        let (late, is_deaf) = protocol.late();
        for number in late {
            let Some(process) = self.processes.get(&number) else {
                continue;
            };
            match process.is_inside() {
                true if is_deaf => {
                    eprintln!(
                        "understudy: process {} does not leave the MPI library; it is killed",
                        process.pid()
                    );
                    process.kill();
                }
                true => process.interrupt(),
                false => {}
            }
        }
    }

    /// A script may go on although the process that it has started has died; that is the death of both.
    fn end_scripts(&mut self) {
        if self.protocol.as_ref().is_none_or(protocol::Job::is_ending) {
            return;
        }
        let is_over = |process: &Process| process.is_silent_for().is_some_and(|time| time > SCRIPTS_END);
        for (number, process) in self.processes.iter().filter(|(_, process)| is_over(process)) {
            log::info!(
                "process {number} (pid {}) has died, and what has started it is ended",
                process.pid()
            );
            self.tell_guardians(&ToGuardian::Kill { number: number.0 });
        }
        self.processes.retain(|_, process| !is_over(process));
    }

    /// Removes what the job has left, before its guardians go: whoever has started them may kill all else then (a batch system, a container).
    fn clean_up(&mut self) {
        drop(self.servers.take());
        let name = self.directory.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = name.trim_start_matches("understudy-").trim_end_matches("-launch");
        for left in crate::remains::of_job(name) {
            let _ = left.remove();
        }
    }

    /// The job cannot go on.
    fn give_up(&mut self, why: &str) {
        eprintln!("understudy: {why}");
        self.happen(protocol::Event::Abort(LOST));
    }
}

/// The status as wait(2) tells it.
fn as_wait_tells(ending: Ending) -> i32 {
    match ending {
        Ending::Exit(status) => status << 8,
        Ending::Signal(signal) | Ending::Asked(signal) => signal,
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
