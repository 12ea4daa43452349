//! A job's processes and guardians on one node: their lines, what they hand over, and the MPI library's servers.

mod generations;

use super::mail::Mailbox;
use super::place;
use super::process::Process;
use super::talk::{Order, Report};
use super::{Answer, Error, Manager, Rank};
use crate::line::{ASIDE, FromGuardian, Hello, Line, Listener, ToGuardian, ToManager, ToProcess};
use generations::Begun;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often processes are interrupted that are still in their MPI library.
const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);
/// How long a process may take to leave it.
const DEAFNESS: Duration = Duration::from_secs(30);
/// How long a script may take to end when the process has died that it has started.
const SCRIPTS_END: Duration = Duration::from_millis(500);

/// A process that waits to be let in, and the file of its MPI library.
type Caller = (Line, String);

/// A node while the job runs.
pub struct Node {
    directory: PathBuf,
    listener: Listener,
    host: String,
    /// Those of the MPI library; not before a process has said which one.
    servers: Option<Manager>,
    mailbox: Mailbox,
    /// What other nodes have been asked for, by numbers that rise.
    asked: BTreeMap<u64, Answer>,
    asked_last: u64,
    /// Who has not said yet what it is.
    callers: Vec<Line>,
    /// By rank.
    guardians: BTreeMap<u32, Line>,
    /// By number, as all that follows.
    waiting: BTreeMap<u32, Caller>,
    /// Programs of scripts that have come too late; each waits to be killed.
    belated: BTreeMap<u32, Caller>,
    processes: BTreeMap<u32, Process>,
    /// What processes have handed over, and how those have ended that have.
    files: BTreeMap<u32, (Vec<OwnedFd>, i32)>,
    begun: Option<Begun>,
    /// The generation that processes are to leave their MPI library for, and since when.
    announced: Option<(u32, Instant)>,
    /// The program is at its end.
    is_ending: bool,
    /// Guardians have been told to leave.
    is_over: bool,
    reports: Vec<Report>,
}

impl Node {
    /// The node of the job that has this directory, where it is called.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new(listener: Listener, directory: &Path) -> Result<Node, Error> {
        Ok(Node {
            directory: directory.to_owned(),
            listener,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            servers: None,
            mailbox: Mailbox::new().map_err(Error::system("eventfd"))?,
            asked: BTreeMap::new(),
            asked_last: 0,
            callers: Vec::new(),
            guardians: BTreeMap::new(),
            waiting: BTreeMap::new(),
            belated: BTreeMap::new(),
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            begun: None,
            announced: None,
            is_ending: false,
            is_over: false,
            reports: Vec::new(),
        })
    }

    /// What this node is called.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Guardians have been told to leave.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// There is no guardian, and nobody who may be one.
    pub fn is_deserted(&self) -> bool {
        self.guardians.is_empty() && self.callers.is_empty()
    }

    /// Waits until something may have happened, here or at one of these, or for so long.
    pub fn wait(&self, limit: Option<Duration>, others: Vec<PollFd<'_>>) {
        let own = [
            self.late().next().map(|_| INTERRUPT_PERIOD),
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
        let all = lines
            .map(Line::as_fd)
            .chain([self.listener.as_fd(), self.mailbox.as_fd()]);
        let own = all.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let mut polls: Vec<PollFd<'_>> = own.chain(others).collect();
        let _ = poll(&mut polls, limit.as_ref());
    }

    /// What has happened since.
    pub fn attend(&mut self) {
        self.take_calls();
        self.hear_callers();
        self.hear_processes();
        self.hear_guardians();
        for mail in self.mailbox.take() {
            self.report_mail(mail);
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
            self.belated.insert(number, caller);
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
            // It has died meanwhile, and its guardian will tell of that.
            Err(error) if has_gone(&error) => return,
            Err(error) => return self.give_up(format!("a process cannot be connected: {error}")),
        }
        if self.servers.is_none() {
            match self.start_servers(Path::new(&library)) {
                Ok(servers) => self.servers = Some(servers),
                Err(error) => self.give_up(format!("{error}. {}", error.remedy())),
            }
        }
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
                self.belated.remove(&number);
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
            Order::Begin(beginning) => {
                if let Err(error) = self.begin(beginning) {
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
            Order::Modex { id, generation, rank } => self.look_up(id, generation, Rank(rank)),
            Order::Answer { id, bytes } => {
                // Without bytes, or of a generation that has ended, there is none.
                if let (Some(answer), Some(bytes)) = (self.asked.remove(&id), bytes) {
                    answer.give(bytes);
                }
            }
        }
    }

    /// Ends all processes and guardians of this node: the job goes on without them, or not at all.
    pub fn give_in(&mut self, status: i32) {
        self.processes.values().for_each(Process::kill);
        self.clean_up();
        let leave = ToGuardian::Leave { status };
        self.guardians.values().for_each(|line| drop(line.send(&leave)));
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
            ToGuardian::Leave { .. } => {
                self.is_over = true;
                self.clean_up();
            }
        }
        if let Some(line) = self.guardians.get(&rank) {
            // One that has gone is found soon.
            let _ = line.send(message);
        }
    }

    /// Removes what the job has left on this node, before its guardians go: whoever has started them may kill all else then (a batch
    /// system, a container).
    pub fn clean_up(&mut self) {
        drop(self.servers.take());
        place::remove_left(&self.directory);
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

/// Whether a system call fails because there is no such process, or no such line, any more.
fn has_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPIPE | libc::ECONNRESET))
}
