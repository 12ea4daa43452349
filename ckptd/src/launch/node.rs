//! A job's processes and guardians on one node: their lines, what they hand over, and the MPI library's servers.

mod again;
mod boards;
mod bypass;
mod children;
mod generations;
mod guardians;

use super::mail::Post;
use super::place;
use super::process::{Caller, Process};
use super::segments::Aborts;
use super::servers::Servers;
use super::talk::{Order, Report};
use super::{Error, thread};
use again::Again;
use children::Children;
use generations::Begun;
use rustix::process::set_parent_process_death_signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};
use understudy_pmi::{Answer, Name};
use understudy_sockets::{Poller, RETRY, Ready, Registry, Source};
use understudy_wire::io::Interest;
use understudy_wire::line::{Hello, Line, Listener, ToGuardian, ToManager, ToProcess};

/// How often processes are interrupted that are still in their MPI library.
const INTERRUPT_PERIOD: Duration = Duration::from_millis(1);
/// How long a process may be elsewhere before its main thread is called in, and how often that is tried.
const ABSENCE: Duration = Duration::from_millis(200);
const CALL_PERIOD: Duration = Duration::from_millis(50);
/// How long a process may take to leave it.
const DEAFNESS: Duration = Duration::from_secs(30);
/// How long a script may take to end when the process has died that it has started.
const SCRIPTS_END: Duration = Duration::from_millis(500);

/// Time that the servers of the MPI library have to end.
const SERVERS_LIMIT: Duration = Duration::from_secs(2);

/// What a process has handed over.
struct Left {
    /// The worker whose copies these are.
    worker: Worker,
    files: Vec<OwnedFd>,
    /// How the process has ended, if it has.
    status: i32,
}

/// A node while the job runs.
pub struct Node {
    directory: PathBuf,
    poller: Poller,
    listener: Source<Listener>,
    host: String,
    /// Those of the MPI library; not before a process has said which one.
    servers: Option<Servers>,
    aborts: Aborts,
    post: Post,
    /// What other nodes have been asked for, by numbers that rise, with the namespaces that it is for.
    asked: BTreeMap<u64, (Vec<Name>, Answer)>,
    asked_last: u64,
    /// Who has not said yet what it is.
    callers: Vec<Source<Line>>,
    /// How many workers the job has.
    workers: u32,
    guardians: BTreeMap<Guardian, Source<Line>>,
    /// If this manager follows another one.
    again: Again,
    /// No other manager can take this one's place.
    is_last: bool,
    /// The guardian of each process, by number, as all that follows.
    homes: BTreeMap<ProcessNumber, Guardian>,
    waiting: BTreeMap<ProcessNumber, Caller>,
    /// Programs of scripts that have come too late; each waits to be killed.
    belated: BTreeMap<ProcessNumber, Caller>,
    processes: BTreeMap<ProcessNumber, Process>,
    files: BTreeMap<ProcessNumber, Left>,
    /// Who has inherited since the last generation began, and from whom.
    heirs: BTreeMap<ProcessNumber, ProcessNumber>,
    /// Who has ended, and is not forgotten by its guardian.
    ended: BTreeSet<ProcessNumber>,
    /// The last generation in which somebody has gone on with the program, and whether there has been one.
    went_on: Option<Generation>,
    is_protected: bool,
    begun: Option<Begun>,
    /// What the program has started.
    children: Children,
    /// The generation that processes are to leave their MPI library for, and since when.
    announced: Option<(Generation, Instant)>,
    /// When main threads were last called in.
    called: Option<Instant>,
    /// The program is at its end.
    is_ending: bool,
    /// Guardians have been told to leave.
    is_over: bool,
    /// The job ends: this node cannot go on.
    has_given_up: bool,
    reports: Vec<Report>,
}

impl Node {
    /// The node of the job that has this directory, where it is called. `is_last`: no other manager can take this one's place.
    ///
    /// # Errors
    /// Those of [`Poller::new`] and epoll_ctl(2).
    pub fn new(listener: Listener, directory: &Path, is_last: bool) -> Result<Node, Error> {
        let failed = || Error::system("a poller");
        let poller = Poller::new().map_err(failed())?;
        let listener = Source::new(poller.registry(), listener, Interest::READ);
        Ok(Node {
            directory: directory.to_owned(),
            listener: listener.map_err(failed())?,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            servers: None,
            aborts: Aborts::default(),
            post: Post::new(poller.registry()),
            poller,
            asked: BTreeMap::new(),
            asked_last: 0,
            callers: Vec::new(),
            workers: 0,
            guardians: BTreeMap::new(),
            again: Again::default(),
            is_last,
            homes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            belated: BTreeMap::new(),
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            heirs: BTreeMap::new(),
            ended: BTreeSet::new(),
            went_on: None,
            is_protected: false,
            begun: None,
            children: Children::default(),
            announced: None,
            called: None,
            is_ending: false,
            is_over: false,
            has_given_up: false,
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

    /// Returns the place where others register what the node is to wait for, too.
    pub fn registry(&self) -> &Registry {
        self.poller.registry()
    }

    /// Waits until something may have happened, here or at a source of others, or for so long.
    pub fn wait(&mut self, limit: Option<Duration>) -> Ready {
        let is_led = self.again.is_led();
        let mut processes = self.processes.values_mut();
        let is_watched = processes.all(|process| process.watch(is_led).is_ok());
        let own = [
            self.again.limit(),
            self.bypass_limit(),
            self.children.deadline(),
            self.late().next().map(|_| INTERRUPT_PERIOD),
            self.processes
                .values()
                .find_map(Process::is_silent_for)
                .map(|_| SCRIPTS_END),
            (!is_watched).then_some(RETRY),
        ];
        let limit = own.into_iter().chain([limit]).flatten().min();
        self.poller.wait(limit).unwrap_or_default()
    }

    /// What has happened since.
    pub fn attend(&mut self) {
        let caller = self.listener.waiting();
        let registry = self.poller.registry();
        // One that cannot be waited for is closed, and calls again.
        self.callers
            .extend(caller.and_then(|it| Source::new(registry, it, Interest::READ).ok()));
        self.hear_callers();
        self.hear_processes();
        self.hear_guardians();
        self.look_for_guardians();
        for mail in self.post.take() {
            self.report_mail(mail);
        }
        self.interrupt();
        self.end_scripts();
        self.end_as_children();
    }

    /// What the leader is to be told.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn hear_callers(&mut self) {
        for line in std::mem::take(&mut self.callers) {
            match line.receive::<Hello>(Duration::ZERO) {
                Ok(None) => self.callers.push(line),
                Ok(Some(Hello::Guardian {
                    rank,
                    workers,
                    spares,
                    replenishes,
                    is_again,
                })) => {
                    if self.is_last {
                        let _ = line.send(&ToGuardian::IsLast);
                    }
                    // Now there is somebody who would end this process.
                    let _ = set_parent_process_death_signal(None);
                    self.again.note(is_again, workers + spares);
                    self.workers = workers;
                    self.guardians.insert(rank, line);
                    self.reports.push(Report::Came {
                        rank,
                        workers,
                        spares,
                        replenishes,
                        is_again,
                    });
                }
                Ok(Some(Hello::Process { .. })) | Err(_) => {}
            }
        }
    }

    /// A process of the program uses MPI.
    fn take_caller(&mut self, number: ProcessNumber, caller: Caller) {
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
        self.children.begin_program();
        self.processes.clear();
        self.files.clear();
        self.is_protected = false;
    }

    fn admit(&mut self, number: ProcessNumber, generation: Option<Generation>) {
        let (Some(caller), Some(generation)) = (self.waiting.remove(&number), generation) else {
            return;
        };
        self.is_ending = false;
        let library = PathBuf::from(&caller.call.library);
        let workers = self.workers_here();
        let process = Process::new(caller, self.poller.registry());
        match process.and_then(|process| process.introduce(workers, generation).map(|()| process)) {
            Ok(process) => drop(self.processes.insert(number, process)),
            // It has died meanwhile, and its guardian will tell of that.
            Err(error) if has_gone(&error) => return,
            Err(error) => return self.give_up(format!("a process cannot be connected: {error}")),
        }
        self.serve(&library);
    }

    /// How many workers were started on this node.
    fn workers_here(&self) -> u32 {
        self.guardians.range(..Guardian(self.workers)).count() as u32
    }

    /// Starts the servers of this MPI library, if there are none.
    fn serve(&mut self, library: &Path) {
        if self.servers.is_none() {
            match self.start_servers(library) {
                Ok(servers) => self.servers = Some(servers),
                Err(error) => self.give_up(format!("{error}. {}", error.remedy())),
            }
        }
    }

    fn hear_processes(&mut self) {
        if !self.again.is_led() {
            return;
        }
        let (mut goes_on, mut looks, mut went_back) = (None, Vec::new(), Vec::new());
        for (&number, process) in &mut self.processes {
            for (said, files) in process.hear() {
                match said {
                    // How it ends is told when it does, unless its guardian dies as well.
                    ToManager::Keeps { worker } => {
                        let status = libc::SIGKILL;
                        self.files.insert(
                            number,
                            Left {
                                worker,
                                files,
                                status,
                            },
                        );
                    }
                    ToManager::KeepsNothing => drop(self.files.remove(&number)),
                    ToManager::Running { generation } => goes_on = Some(generation),
                    ToManager::Spawns {
                        worker,
                        number: time,
                    } => self.children.expect(number, worker, time),
                    ToManager::Captured {
                        worker,
                        number: time,
                    } => self.children.capture(worker, time),
                    ToManager::Settled {
                        worker,
                        number: time,
                    } => self.children.settle(worker, time),
                    ToManager::WentBack {
                        worker,
                        number: time,
                    } => went_back.push((worker, time)),
                    ToManager::Look {
                        id,
                        process,
                        workers,
                    } => {
                        looks.push((number, id, process, workers));
                        continue;
                    }
                    _ => {}
                }
                self.reports.push(Report::Process { number, said });
            }
        }
        for (worker, time) in went_back {
            self.went_back(worker, time);
        }
        for (number, id, process, workers) in looks {
            self.want_boards((number, id), process, workers);
        }
        if goes_on > self.went_on {
            (self.went_on, self.is_protected) = (goes_on, true);
            let guardians = self.guardians.values();
            guardians.for_each(|line| drop(line.send(&ToGuardian::GoesOn)));
        }
    }

    /// Does what the leader wants.
    pub fn obey(&mut self, order: Order) {
        self.again.lead();
        match order {
            Order::Guardian { rank, message } => self.tell_guardian(rank, &message),
            Order::Admit { number, generation } => self.admit(number, generation),
            Order::Announce { generation } => {
                if std::mem::take(&mut self.is_ending) {
                    self.forget_program();
                }
                self.announced = Some((generation, Instant::now()));
                self.children.hold();
                self.processes
                    .values()
                    .for_each(|process| process.tell_generation(generation));
                // The servers before have died with their manager.
                if let Some(library) = self.again.take_library() {
                    self.serve(&library);
                }
            }
            Order::CountSpare => self.processes.values().for_each(Process::count_spare_death),
            Order::Ask { number, fallen } => {
                if let Some(process) = self.processes.get(&number) {
                    process.tell(&ToProcess::Ask { fallen }, &[]);
                }
            }
            Order::Inherit { heir, from } => self.hand_out(heir, from),
            Order::Begin(beginning) => {
                if let Err(error) = self.begin(beginning) {
                    self.give_up(format!("{error}. {}", error.remedy()));
                }
            }
            Order::End { is_good } => {
                self.is_ending = true;
                self.children.end(is_good);
                if is_good {
                    // Another manager has to know as soon as one of them does.
                    self.processes.values().for_each(Process::note_end);
                    let processes = self.processes.values();
                    processes.for_each(|process| process.tell(&ToProcess::End, &[]));
                }
            }
            Order::Modex { id, of, rank } => self.look_up(id, &of, rank),
            Order::Join { id, joining } => {
                if let Err(error) = self.join(id, joining) {
                    self.give_up(format!("{error}. {}", error.remedy()));
                }
            }
            Order::WentBack { worker, number } => self.went_back(worker, number),
            Order::Look { id, workers } => self.read_boards(id, &workers),
            Order::Forget { name } => self.forget_namespace(&name),
            Order::Answer { id, bytes } => {
                // Without bytes, or of a generation that has ended, there is none.
                if let (Some((_, answer)), Some(bytes)) = (self.asked.remove(&id), bytes) {
                    answer.give(bytes);
                }
            }
        }
    }

    /// Ends all processes and guardians of this node: the job goes on without them, or not at all.
    pub fn give_in(&mut self, status: i32) {
        self.processes.values().for_each(Process::kill);
        self.children.kill_all();
        self.clean_up();
        let leave = ToGuardian::Leave { status };
        self.guardians
            .values()
            .for_each(|line| drop(line.send(&leave)));
    }

    /// Removes what the job has left on this node, before its guardians go: whoever has started them may kill all else then (a batch
    /// system, a container).
    pub fn clean_up(&mut self) {
        self.forget_others();
        if let Some(servers) = self.servers.take() {
            self.end_servers(servers);
        }
        place::remove_left(&self.directory);
    }

    /// Ends the servers of the MPI library, which may hang.
    fn end_servers(&self, servers: Servers) {
        let (done, is_done) = channel();
        let end = move || {
            drop(servers);
            // Nobody waits any more if it took too long.
            let _ = done.send(());
        };
        if thread(end).is_ok()
            && is_done.recv_timeout(SERVERS_LIMIT) == Err(RecvTimeoutError::Timeout)
        {
            log::warn!("the servers of the MPI library do not end");
            self.forget_generations();
        }
    }

    /// Who is to be taken out of the MPI library, if in it.
    fn late(&self) -> impl Iterator<Item = &Process> {
        let announced = self.announced.filter(|_| !self.is_ending);
        let is_late = move |process: &&Process| {
            announced.is_some_and(|(generation, _)| process.is_late_for(generation))
        };
        self.processes.values().filter(is_late)
    }

    /// Processes leave their MPI library, and after a while also what else they are about.
    fn interrupt(&mut self) {
        let Some((_, since)) = self.announced else {
            return;
        };
        let waited = since.elapsed();
        let is_call_due =
            waited > ABSENCE && self.called.is_none_or(|last| last.elapsed() > CALL_PERIOD);
        for process in self.late() {
            match process.is_inside() {
                true if waited > DEAFNESS => {
                    say!(
                        "understudy: process {} does not leave the MPI library; it is killed",
                        process.pid()
                    );
                    process.kill();
                }
                true => process.interrupt(),
                false if is_call_due && process.is_interruptible() => process.interrupt(),
                false => {}
            }
        }
        if is_call_due {
            self.called = Some(Instant::now());
        }
    }

    /// A script may go on although the process that it has started has died; that is the death of both.
    fn end_scripts(&mut self) {
        if self.is_ending {
            return;
        }
        let is_over = |process: &Process| {
            process
                .is_silent_for()
                .is_some_and(|time| time > SCRIPTS_END)
        };
        for (&number, process) in self
            .processes
            .iter()
            .filter(|(_, process)| is_over(process))
        {
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
        self.has_given_up = true;
        self.reports.push(Report::GivesUp(why));
    }
}

/// Whether a system call fails because there is no such process, or no such line, any more.
fn has_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ESRCH | libc::EPIPE | libc::ECONNRESET)
    )
}
