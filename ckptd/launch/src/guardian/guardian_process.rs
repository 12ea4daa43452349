//! The guardian: a launcher sees it in place of a process of the program.
//!
//! A launcher ends a job when a process that the launcher has started is killed. These processes
//! are guardians, which survive the death of a process of the program: a guardian starts the
//! process, passes on its output and the launcher's signals, reports its end to the job's manager,
//! and starts another process on the manager's request. If the guardian is killed, its processes
//! are killed as well. If the manager dies, guardians start another one and report their processes
//! to it.

use super::guarded_process::GuardedProcess;
use super::guardian_sockets::{GuardianSockets, leave, register, report_failed_start};
use super::hang_watch::HangWatch;
use super::input::Input;
use super::launcher_position::LauncherPosition;
use super::manager_watch::ManagerWatch;
use super::memory_kills::MemoryKills;
use super::passed_signals::PassedSignals;
use super::program::{Program, preloaded_besides};
use super::spawned_children::SpawnedChildren;
use super::unprotected::run_unprotected;
use crate::Error;
use crate::fence_tie::FenceTie;
use crate::manager_process::Succession;
use crate::output::is_lost;
use crate::print_message::{limit_print_time, print_message};
use crate::request_signals::{RequestSignals, SignalMeaning};
use crate::spawn_thread::spawn_thread;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::iterator::Signals;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;
use understudy_catalogue::{exit_status, message};
use understudy_numbers::ProcessNumber;
use understudy_protocol::GuardianLimits;
use understudy_settings::{CheckpointSignals, Config};
use understudy_sockets::{Poller, Source};
use understudy_wire::line::{
    self, FromGuardian, Hello, Killer, Line, LineListener, ManagerRole, ProcessEnd, ToGuardian,
};

/// Signals that a launcher forwards to its processes.
const FORWARDED_SIGNALS: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Forwarded signals that end a process by default.
///
/// Before a process was started, these signals end the job.
const TERMINATING_SIGNALS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT];

/// State of a guardian.
pub struct GuardianProcess {
    pub(super) position: LauncherPosition,
    pub(super) workers: u32,
    pub(super) spares: u32,
    pub(super) replenishes: bool,
    pub(super) program: Program,
    pub(super) poller: Poller,
    pub(super) manager: Source<Line>,
    pub(super) input: Input,
    /// True if a process of the program was refused.
    pub(super) has_refused: Cell<bool>,
    pub(super) memory: MemoryKills,
    pub(super) hangs: HangWatch,
    pub(super) manager_watch: ManagerWatch,
    pub(super) listener: Source<LineListener>,
    /// Connections on which no first message has arrived yet.
    pub(super) unidentified: Vec<Source<Line>>,
    /// Connection on which threads send messages for the manager.
    pub(super) thread_sender: Arc<Line>,
    /// Receiving end of `thread_sender`.
    pub(super) thread_messages: Source<Line>,
    /// Managers that this process has started.
    ///
    /// The first manager of a job on several nodes ends when its standard input is closed.
    pub(super) managers: Vec<Child>,
    /// True if no other manager can replace the current manager.
    pub(super) is_last: bool,
    /// Process id of the manager that this guardian has joined last.
    pub(super) manager_pid: Option<u32>,
    /// Managers that have died since a process of this node has last resumed the program.
    pub(super) fruitless_managers: u32,
    pub(super) processes: Arc<Mutex<Vec<GuardedProcess>>>,
    /// True if a process was started.
    pub(super) has_begun: bool,
    /// Signal that arrived before a process was started and ends the job.
    pub(super) early_signal: Option<i32>,
    pub(super) passed: Arc<PassedSignals>,
    pub(super) children: SpawnedChildren,
    /// Tie of this process to the fence of its node, if the node has one.
    ///
    /// Set before the first process is started, because the fence is there then.
    pub(super) fence_tie: Option<FenceTie>,
    /// State for another manager of this node, if the job is on several nodes.
    ///
    /// Dropped after the tie, because the fence may end with this value.
    pub(super) succession: Option<Succession>,
}

/// Guards processes until the job's manager sends the exit status.
///
/// `settings` is the outcome of adding settings of files to the environment.
///
/// # Errors
/// Errors of the environment and of system calls.
pub fn run(program: Program, settings: Result<(), String>) -> Result<i32, Error> {
    let mut position = LauncherPosition::from_environment()?;
    limit_print_time();
    // Without this signal the guardian would outlive a launcher that was killed.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Error::system("prctl")(errno.into()))?;
    if let Err(why) = settings {
        return run_unprotected(&program, &position, 0, &Error::SettingsFile(why));
    }
    // Wrong settings are ignored here, because the processes of the program report them.
    let config = Config::read(|name| std::env::var(name).ok()).ok();
    let spares = config.as_ref().map_or(1, |config| config.spares);
    let requests = config.as_ref().and_then(|it| it.checkpoint_on.clone());
    let hang_after = config.as_ref().and_then(|it| it.hang_after);
    let node_timeout = config.clone().unwrap_or_default().node_timeout;
    // With a daemon, the workers request spares at the end of a recovery, within the daemon's
    // limit.
    let replenishes = config.is_some_and(|config| config.replenish && config.daemon.is_none());
    let Some(workers) = position
        .size
        .checked_sub(spares)
        .filter(|&workers| workers > 0)
    else {
        let size = position.size;
        return run_unprotected(&program, &position, 0, &Error::OnlySpares { size, spares });
    };
    if position.rank.0 == 0 && std::env::var_os("UNDERSTUDY_SPARES").is_none() {
        print_message(message::default_spare(spares, position.size, workers));
    }
    let hello = Hello::Guardian {
        rank: position.rank,
        workers,
        spares,
        replenishes,
        had_manager: false,
    };
    let sockets = match GuardianSockets::open(&mut position) {
        Err(error) if error.is_refusal() => {
            return run_unprotected(&program, &position, spares, &error);
        }
        Err(error) => {
            report_failed_start(&position, &hello);
            return Err(error);
        }
        Ok(sockets) => sockets,
    };
    let mut guardian = GuardianProcess {
        is_last: !position.is_on_one_node(),
        manager_pid: None,
        position,
        workers,
        spares,
        replenishes,
        program,
        manager: sockets.manager,
        input: sockets.input,
        has_refused: Cell::new(false),
        memory: MemoryKills::new(),
        hangs: HangWatch::new(hang_after),
        manager_watch: ManagerWatch::new(GuardianLimits::new(node_timeout)),
        listener: sockets.listener,
        unidentified: Vec::new(),
        thread_sender: Arc::new(sockets.thread_sender),
        thread_messages: sockets.thread_messages,
        poller: sockets.poller,
        managers: sockets.started_manager.into_iter().collect(),
        fruitless_managers: 0,
        processes: Arc::default(),
        has_begun: false,
        early_signal: None,
        passed: Arc::default(),
        children: SpawnedChildren::default(),
        fence_tie: None,
        succession: None,
    };
    guardian.report_state(false);
    if let Err(error) = guardian.forward_signals(requests) {
        leave(&guardian.manager);
        return Err(error);
    }
    let status = guardian.serve();
    if status.is_err() {
        guardian.kill_all();
    }
    status
}

impl GuardianProcess {
    pub(super) fn processes(&self) -> MutexGuard<'_, Vec<GuardedProcess>> {
        self.processes.lock()
    }

    /// Forwards signals, except those that request a checkpoint, which the manager receives.
    fn forward_signals(&self, requests: Option<CheckpointSignals>) -> Result<(), Error> {
        let mut signals =
            Signals::new(FORWARDED_SIGNALS).map_err(Error::system("a signal handler"))?;
        let mut meanings = RequestSignals::default();
        let (processes, passed) = (Arc::clone(&self.processes), Arc::clone(&self.passed));
        let (line, rank) = (Arc::clone(&self.thread_sender), self.position.rank);
        spawn_thread(move || {
            for number in signals.forever() {
                let Some(signal) = Signal::from_named_raw(number) else {
                    continue;
                };
                // Registrations need the lock, too: a process that registers meanwhile either is in
                // the list and receives the signal, or finds the signal in its page.
                let processes = processes.lock();
                let may_request = requests.as_ref().is_some_and(|it| it.contains(number));
                if may_request && !processes.is_empty() {
                    match meanings.meaning_of(number) {
                        SignalMeaning::Request => {
                            let _ = line.send(&FromGuardian::RequestCheckpoint { signal: number });
                            continue;
                        }
                        SignalMeaning::Repetition => continue,
                        SignalMeaning::End => {}
                    }
                }
                passed.note(number);
                processes.iter().for_each(|process| process.pass(signal));
                if processes.is_empty() && TERMINATING_SIGNALS.contains(&number) {
                    let _ = line.send(&FromGuardian::Ended(ProcessEnd::Killed {
                        number: ProcessNumber(rank.0),
                        signal: signal.as_raw(),
                        by: Killer::Launcher,
                    }));
                }
            }
        })
        .map_err(Error::system("a thread"))
    }

    /// Reports the state of this guardian to the manager.
    pub(super) fn report_state(&self, had_manager: bool) {
        let hello = Hello::Guardian {
            rank: self.position.rank,
            workers: self.workers,
            spares: self.spares,
            replenishes: self.replenishes,
            had_manager,
        };
        // Errors are ignored here and below: if the manager has died, the next receive fails.
        let _ = self.manager.send(&hello);
        for process in self.processes().iter_mut() {
            let (record, descriptors) = process.record();
            let _ = self
                .manager
                .send_with(&FromGuardian::Process(record), &descriptors);
        }
        let _ = self.manager.send(&FromGuardian::AllReported);
    }

    fn serve(&mut self) -> Result<i32, Error> {
        loop {
            self.wait();
            self.accept_registrations();
            self.report_ends();
            self.report_hangs();
            let directory = self.position.directory();
            self.manager_watch.poll(&self.manager, &directory);
            let status = match self.manager.receive_with(Duration::ZERO) {
                Ok(Some((message, files))) => {
                    self.manager_watch.note_message(message == ToGuardian::Beat);
                    self.execute(message, files)?
                }
                Ok(None) => None,
                Err(_) => self.find_manager()?,
            };
            if let Some(status) = status {
                return Ok(status);
            }
        }
    }

    /// Executes an order of the manager.
    ///
    /// Returns the exit status if the order is to exit.
    fn execute(&mut self, message: ToGuardian, files: Vec<OwnedFd>) -> Result<Option<i32>, Error> {
        match message {
            ToGuardian::Start { number, is_restart } => self.start(number, is_restart),
            ToGuardian::Leave { status } => {
                // The rest of the output may take long.
                let _ = self.manager.send(&FromGuardian::Leaves);
                // The fence ends with the last process that has the pipe to its keeper.
                self.fence_tie = None;
                self.processes().iter_mut().for_each(GuardedProcess::untie);
                self.children.flush();
                return Ok(Some(match status {
                    0 if is_lost() => exit_status::STATE_NOT_SAVED,
                    0 if self.has_refused.get() => exit_status::REFUSED,
                    status => status,
                }));
            }
            ToGuardian::Kill { number } => {
                self.memory.except(number);
                self.with_process(number, |process| process.signal(Signal::KILL));
            }
            ToGuardian::ReleaseState { number } => {
                self.with_process(number, GuardedProcess::release)
            }
            ToGuardian::AdoptStore {
                adopter,
                from,
                worker,
                status,
            } => self.with_process(adopter, |process| {
                process.adopt_store(from, worker, status, files)
            }),
            ToGuardian::Resumed => self.fruitless_managers = 0,
            ToGuardian::Joined { role, pid, duty } => {
                self.manager_pid = Some(pid);
                let mut files = files.into_iter();
                let succession = duty.map(|duty| Succession::new(duty, &mut files));
                self.succession = succession.flatten();
                self.is_last = role != ManagerRole::Alone && self.succession.is_none();
                if let Some(process) = files.next() {
                    self.manager_watch.judge(role, pid, process);
                }
            }
            ToGuardian::Beat => {}
            ToGuardian::StartChild(start) => {
                let id = start.id;
                let (line, preload) = (files.into_iter().next(), preloaded_besides());
                let registry = self.poller.registry();
                let directory = self.position.directory();
                let news = self
                    .children
                    .start(start, line, preload, &directory, registry);
                let process: Vec<_> = self.children.descriptor(id).into_iter().collect();
                let _ = self
                    .manager
                    .send_with(&FromGuardian::Child { id, news }, &process);
            }
        }
        Ok(None)
    }

    fn with_process(&self, number: ProcessNumber, then: impl FnOnce(&mut GuardedProcess)) {
        self.processes()
            .iter_mut()
            .find(|process| process.number == number)
            .map(then);
    }

    /// Kills all processes and the processes that they have started.
    pub(super) fn kill_all(&self) {
        self.processes()
            .iter()
            .for_each(|process| process.signal(Signal::KILL));
        self.children.kill_all();
    }

    /// Waits until a message arrives, a process ends, or the kill count must be polled.
    fn wait(&mut self) {
        let beats = Some(self.manager_watch.limit());
        let limits = [self.memory.poll(), self.hangs.limit(), beats];
        let _ = self.poller.wait(limits.into_iter().flatten().min());
    }

    /// Reports processes that have become inactive, or active again.
    fn report_hangs(&mut self) {
        let reports = self.hangs.poll(&self.processes.lock());
        for report in reports {
            let _ = self.manager.send(&report);
        }
    }

    /// Accepts processes that register; each receives a connection to the manager.
    fn accept_registrations(&mut self) {
        let caller = self.listener.accept_waiting();
        // A connection that cannot be polled is closed.
        self.unidentified
            .extend(caller.and_then(|line| register(&self.poller, line).ok()));
        for line in std::mem::take(&mut self.unidentified) {
            match line.receive::<Hello>(Duration::ZERO) {
                Ok(None) => self.unidentified.push(line),
                Ok(Some(Hello::Process { number, library })) => {
                    self.register(line, number, library)
                }
                Ok(Some(Hello::ReadActivities)) => self.hangs.answer(line, &self.processes()),
                // Managers only test whether this process lives.
                Ok(Some(Hello::Guardian { .. } | Hello::Replace(_))) | Err(_) => {}
            }
        }
    }

    fn register(&self, line: Source<Line>, number: ProcessNumber, library: String) {
        self.with_process(number, |process| {
            if process.has_ended() {
                self.refuse_orphan(number);
            } else if let Ok((call, descriptors)) = process.register(line, library) {
                let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
                let _ = self
                    .manager
                    .send_with(&FromGuardian::Registered { number, call }, &descriptors);
            }
            // If the process has ended meanwhile, the next poll reports its end.
        });
    }

    /// Refuses a process of the program whose parent has ended.
    ///
    /// The guardian is not notified when such a process ends.
    fn refuse_orphan(&self, number: ProcessNumber) {
        print_message(message::program_in_background(
            number,
            self.program.file.display(),
        ));
        self.has_refused.set(true);
    }

    /// Reports ended processes to the manager.
    fn report_ends(&mut self) {
        for (id, news) in self.children.take_ended() {
            let _ = self.manager.send(&FromGuardian::Child { id, news });
        }
        while let Ok(Some(message)) = self.thread_messages.receive::<FromGuardian>(Duration::ZERO) {
            match &message {
                FromGuardian::Ended(end @ ProcessEnd::OutputClosed { number, .. }) => {
                    self.with_process(*number, |process| process.record_output_end(end))
                }
                FromGuardian::Ended(ProcessEnd::Killed { signal, .. }) if !self.has_begun => {
                    self.early_signal = Some(*signal)
                }
                FromGuardian::RequestCheckpoint { .. } => {}
                _ => continue,
            }
            let _ = self.manager.send(&message);
        }
        let mut processes = self.processes();
        for process in processes.iter_mut() {
            process.receive();
            if let Some(mut ending) = process.poll_end() {
                if process.kill_orphan() && matches!(ending, ProcessEnd::Exited { .. }) {
                    self.refuse_orphan(process.number);
                }
                let refused = self.position.directory().join(line::REFUSED_FILE);
                self.has_refused
                    .set(self.has_refused.get() || refused.exists());
                self.memory.explain(&mut ending);
                let _ = self.manager.send(&FromGuardian::Ended(ending));
            }
        }
        processes.retain(|process| !process.is_released());
    }
}
