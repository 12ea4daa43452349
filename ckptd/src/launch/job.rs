//! A protected job on this node: its processes, and its generations.
//!
//! ```text
//!   start:  W + S processes, each with a line (`crate::line`); all say Ready(0)
//!   begin:  a generation of all living processes is made known to their MPI; each gets its rank
//!   death:  generation + 1 is written into every page; who is inside MPI is interrupted; all say Ready again
//!           (a new process is started if there would be less than W)
//!   end:    W workers say AtEnd; all are told End; from then on only exit statuses count
//! ```
//!
//! Whatever dies, and whenever, the next generation is the answer. The job ends early if the program does (a process exits
//! by itself before the end, or asks for an abort), or if nobody is left who has been in the job before.
use super::local::adopt;
use super::process::Process;
use super::program::{Kind, Mpi};
use super::{Alone, Error, Event, Generation, Identity, Manager, Name, Rank, Settings, What};
use crate::line::{ToManager, ToProcess};
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Exit status of a job that could not be recovered (EX_TEMPFAIL of sysexits.h).
const LOST: i32 = 75;
/// How often the job is looked at: while all is well, and during a renewal.
const LOOKS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(1)];
/// How long a process may take to leave its MPI library. One that computes may take as long as it likes for its next call.
const DEAFNESS: Duration = Duration::from_secs(30);
/// How many new processes may die before they have been in a generation.
const STILLBORN: u32 = 10;
/// A generation that fails this many times in a row without a death ends the job.
const FUTILE: u32 = 10;
/// How long the others may take to end by themselves.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a job is made of.
pub struct Plan {
    /// Unique among the jobs of this user.
    pub name: String,
    pub workers: u32,
    pub spares: u32,
    /// The program, with its arguments.
    pub program: Vec<OsString>,
    /// The layer's library.
    pub preload: OsString,
    /// The MPI library, if the program does not tell it.
    pub mpi: Option<PathBuf>,
    pub host: String,
}

impl Plan {
    /// The layer's name of the job, which tells who has launched it.
    fn job(&self) -> String {
        format!("ckptd-{}-{}@1", self.host, std::process::id())
    }
}

/// Runs a job to its end; its exit status.
///
/// # Errors
/// What the program or its MPI library lack to be started so.
pub fn run(plan: Plan) -> Result<i32, Error> {
    let mpi = match &plan.mpi {
        Some(library) => Mpi::named(library)?,
        None => Mpi::of(&file_of(&plan.program[0]))?,
    };
    if mpi.kind == Kind::Mpich {
        return Err(Error::Mpich(mpi.library));
    }
    let memory = crate::private::make_in_memory().map_err(|refused| Error::System {
        what: "the directory of this user in memory".into(),
        source: std::io::Error::other(refused.to_string()),
    })?;
    // By its name, `understudy clean` knows whose it is.
    let directory = memory.path().join(format!("understudy-{}-launch", plan.job()));
    let place = |name: &str| -> Result<PathBuf, Error> {
        let path = directory.join(name);
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        made.map_err(Error::system(path.display().to_string()))?;
        Ok(path)
    };
    let (manager, events) = Manager::start(&Settings {
        mpi,
        directory: place("sessions")?,
        memory: place("segments")?,
        host: plan.host.clone(),
        peers: Arc::new(Alone),
    })?;
    let status = Job::start(plan, manager, events).and_then(|mut job| job.run());
    let _ = std::fs::remove_dir_all(&directory);
    status
}

/// The file of a program that is named as for execvp(3).
fn file_of(program: &OsStr) -> PathBuf {
    let places = std::env::var_os("PATH").filter(|_| !program.as_bytes().contains(&b'/'));
    let mut files = places
        .iter()
        .flat_map(std::env::split_paths)
        .map(|place| place.join(program));
    files.find(|file| file.is_file()).unwrap_or_else(|| program.into())
}

/// The signals that end a job, all processes of it included.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The job while it runs.
struct Job {
    plan: Plan,
    manager: Manager,
    events: Receiver<Event>,
    /// They forward what the processes write.
    pumps: Vec<JoinHandle<()>>,
    processes: Vec<Process>,
    /// The number of the next process.
    next: u32,
    /// There is an epoch to go back to.
    is_protected: bool,
    /// Bytes that the processes have written to standard output.
    written: Arc<AtomicU64>,
    generation: u32,
    /// The generation that has begun last.
    begun: Option<Name>,
    is_begun: bool,
    since: Instant,
    futile: u32,
    stillborn: u32,
    restarts: u32,
    /// A signal to this process; 0: none.
    signal: Arc<AtomicUsize>,
    is_ending: bool,
    status: i32,
}

impl Job {
    /// Starts all processes.
    ///
    /// # Errors
    /// Those of starting a process.
    fn start(plan: Plan, manager: Manager, events: Receiver<Event>) -> Result<Job, Error> {
        let mut job = Job {
            manager,
            events,
            pumps: Vec::new(),
            processes: Vec::new(),
            next: 0,
            is_protected: false,
            written: Arc::default(),
            generation: 0,
            begun: None,
            is_begun: false,
            since: Instant::now(),
            futile: 0,
            stillborn: 0,
            restarts: 0,
            signal: Arc::default(),
            is_ending: false,
            status: 0,
            plan,
        };
        for signal in ENDING {
            signal_hook::flag::register_usize(signal, Arc::clone(&job.signal), signal as usize)
                .map_err(Error::system("a signal handler"))?;
        }
        job.start_all()?;
        Ok(job)
    }

    fn start_process(&mut self) -> Result<(), Error> {
        let size = self.plan.workers + self.plan.spares;
        let mut command = Command::new(&self.plan.program[0]);
        command.args(&self.plan.program[1..]);
        command.env("LD_PRELOAD", &self.plan.preload);
        command.env("UNDERSTUDY_SPARES", self.plan.spares.to_string());
        if self.restarts > 0 {
            // A fault strikes once.
            command.env_remove("UNDERSTUDY_FAULT");
        }
        let variables = [
            ("PMIX_NAMESPACE", self.plan.job()),
            ("PMIX_RANK", self.next.to_string()),
            ("OMPI_COMM_WORLD_SIZE", size.to_string()),
            ("OMPI_COMM_WORLD_RANK", self.next.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", self.next.to_string()),
        ];
        adopt(
            &mut command,
            Identity {
                variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
                defaults: Vec::new(),
                descriptor: None,
            },
        );
        let started = Process::start(command, self.next, self.generation);
        let mut process = started.map_err(Error::system("a process of the program"))?;
        self.pumps.extend(process.pumps(&self.written));
        self.next += 1;
        self.processes.push(process);
        Ok(())
    }

    /// Attends to the job until all its processes have ended; its exit status.
    ///
    /// # Errors
    /// Those of beginning a generation.
    fn run(&mut self) -> Result<i32, Error> {
        while !self.processes.is_empty() {
            self.wait();
            self.bury()?;
            self.listen()?;
            while let Ok(event) = self.events.try_recv() {
                if let What::Abort { status, message } = event.what {
                    log::info!("rank {} of {} aborts: {message}", event.rank, event.generation);
                    self.end_with(status);
                }
            }
            let signal = self.signal.load(Ordering::Relaxed);
            if signal != 0 {
                self.end_with(128 + signal as i32);
            }
            if self.is_ending {
                continue;
            }
            if self.is_begun {
                self.look_for_the_end();
            } else {
                self.interrupt();
                self.begin_if_ready()?;
            }
        }
        for pump in self.pumps.drain(..) {
            let _ = pump.join();
        }
        Ok(self.status)
    }

    /// Waits until something may have happened.
    fn wait(&self) {
        let limit = LOOKS[usize::from(!self.is_begun && !self.is_ending)];
        let limit = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: limit.as_nanos() as i64,
        };
        let poll = |process| rustix::event::PollFd::new(process, rustix::event::PollFlags::IN);
        let mut polls: Vec<_> = self.processes.iter().map(|process| poll(&process.line)).collect();
        let _ = rustix::event::poll(&mut polls, Some(&limit));
    }

    /// Looks who has ended.
    fn bury(&mut self) -> Result<(), Error> {
        let mut ended: Vec<(Process, ExitStatus)> = Vec::new();
        let mut index = 0;
        while index < self.processes.len() {
            match self.processes[index].child.try_wait() {
                Ok(Some(status)) => ended.push((self.processes.remove(index), status)),
                _ => index += 1,
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        for (process, status) in &ended {
            log::info!(
                "process {} (pid {}) has ended: {status}",
                process.number,
                process.child.id()
            );
            if self.is_ending {
                self.note(*status);
            } else if let Some(code) = status.code() {
                // The program, or the layer, has ended it.
                self.end_with(code);
            } else if !process.has_played {
                self.stillborn += 1;
            }
        }
        if !self.is_ending {
            if self.stillborn > STILLBORN {
                eprintln!(
                    "understudy: {} new processes have died before they could take a part; the job ends",
                    self.stillborn
                );
                self.end_with(LOST);
                return Ok(());
            }
            if self.is_protected && !self.processes.iter().any(|process| process.has_played) {
                eprintln!("understudy: all processes of the job have died; start it again");
                self.end_with(LOST);
                return Ok(());
            }
            self.renew()?;
        }
        Ok(())
    }

    fn note(&mut self, status: ExitStatus) {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        if self.status == 0 {
            self.status = code;
        }
    }

    /// The next generation is to be.
    fn renew(&mut self) -> Result<(), Error> {
        if !self.is_protected {
            return self.restart();
        }
        while (self.processes.len() as u32) < self.plan.workers {
            self.start_process()?;
        }
        self.generation += 1;
        self.is_begun = false;
        self.since = Instant::now();
        for process in &mut self.processes {
            process.is_at_end = false;
            process.tell_generation(self.generation);
        }
        log::info!("generation {} with {} processes", self.generation, self.processes.len());
        Ok(())
    }

    /// There is nothing to go back to: all processes start from the beginning. What they have printed would come twice.
    fn restart(&mut self) -> Result<(), Error> {
        for process in &mut self.processes {
            let _ = process.child.kill();
        }
        for mut process in self.processes.drain(..) {
            let _ = process.child.wait();
        }
        let written = self.written.load(Ordering::Relaxed);
        self.restarts += 1;
        if written > 0 || self.restarts > FUTILE {
            let why = match written {
                0 => format!("{FUTILE} starts have failed"),
                _ => "the program has printed something already, which would come twice".into(),
            };
            eprintln!("understudy: a process died before the first checkpoint, and {why}; start the job again");
            (self.is_ending, self.status) = (true, LOST);
            return Ok(());
        }
        log::info!("start {} from the beginning", self.restarts + 1);
        (self.next, self.is_begun, self.since) = (0, false, Instant::now());
        self.generation += 1;
        self.start_all()
    }

    fn start_all(&mut self) -> Result<(), Error> {
        for _ in 0..self.plan.workers + self.plan.spares {
            self.start_process()?;
        }
        Ok(())
    }

    /// Takes those out of their MPI library that are not ready.
    fn interrupt(&mut self) {
        let is_late = self.since.elapsed() > DEAFNESS;
        for process in &mut self.processes {
            if process.ready == Some(self.generation) || !process.is_inside() {
                continue;
            }
            if is_late {
                eprintln!(
                    "understudy: process {} does not leave the MPI library; it is killed",
                    process.child.id()
                );
                let _ = process.child.kill();
            } else {
                process.interrupt();
            }
        }
    }

    fn begin_if_ready(&mut self) -> Result<(), Error> {
        let generation = self.generation;
        if self.is_ending || self.processes.iter().any(|process| process.ready != Some(generation)) {
            return Ok(());
        }
        let size = self.processes.len() as u32;
        // All have left it, and none is in the next one yet: the servers want it so.
        if let Some(before) = self.begun.take() {
            self.manager.end(&before)?;
        }
        let of_all = Generation::here(&self.plan.name, generation, &self.plan.host, size)?;
        self.manager.begin(&of_all)?;
        let name = of_all.name;
        for (rank, process) in (0..).zip(&mut self.processes) {
            let identity = self.manager.identity(&name, Rank(rank))?;
            let text = |text: OsString| text.to_string_lossy().into_owned();
            let all = identity.defaults.into_iter().chain(identity.variables);
            let begin = ToProcess::Begin {
                generation,
                rank,
                size,
                variables: all.map(|(name, value)| (text(name), text(value))).collect(),
            };
            // A process that has died meanwhile is found soon.
            let _ = process.line.send(&begin);
            process.has_played = true;
        }
        log::info!("generation {generation} begins after {:?}", self.since.elapsed());
        self.begun = Some(name);
        (self.is_begun, self.stillborn) = (true, 0);
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Error> {
        let (mut has_failed, mut is_running) = (false, false);
        let mut wanted = None;
        for process in &mut self.processes {
            while let Ok(Some(message)) = process.line.receive::<ToManager>(Duration::ZERO) {
                match message {
                    ToManager::Ready { generation } => process.ready = Some(generation),
                    ToManager::Running { generation } => {
                        self.is_protected = true;
                        is_running |= generation == self.generation;
                    }
                    ToManager::AtEnd { generation } => process.is_at_end = generation == self.generation,
                    ToManager::Failed { generation } => has_failed |= generation == self.generation && self.is_begun,
                    ToManager::Abort { status } => wanted = Some(status),
                }
            }
        }
        if is_running {
            self.futile = 0;
        }
        if let Some(status) = wanted {
            self.end_with(status);
        } else if has_failed && !self.is_ending {
            self.futile += 1;
            log::info!("generation {} has failed without a death", self.generation);
            if self.futile == FUTILE {
                eprintln!("understudy: {FUTILE} generations have failed although nobody has died; the job ends");
                self.end_with(LOST);
            } else {
                self.renew()?;
            }
        }
        Ok(())
    }

    fn look_for_the_end(&mut self) {
        let count = self.processes.iter().filter(|process| process.is_at_end).count();
        if count as u32 >= self.plan.workers {
            self.is_ending = true;
            for process in &self.processes {
                let _ = process.line.send(&ToProcess::End);
            }
        }
    }

    /// Ends the job: what still runs is killed.
    fn end_with(&mut self, status: i32) {
        if self.is_ending {
            return;
        }
        (self.is_ending, self.status) = (true, status);
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until && !self.processes.is_empty() {
            self.processes
                .retain_mut(|process| matches!(process.child.try_wait(), Ok(None)));
            std::thread::sleep(LOOKS[0]);
        }
        for process in &mut self.processes {
            let _ = process.child.kill();
        }
    }
}
