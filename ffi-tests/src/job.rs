//! A job: what is run, and the run.

mod command;

use crate::hosts::Hosts;
use crate::kill::{Kill, Trigger};
use crate::outcome::{Killed, Outcome};
use crate::place::{self, Launcher};
use crate::processes;
use crate::slurm::Srun;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A file of this name in the working directory is the launcher's standard input.
pub const STANDARD_INPUT: &str = "standard-input";
/// Where in its directory a job has its epochs.
pub const DISK: &str = "disk";
/// How often the job is looked at.
const TICK: Duration = Duration::from_millis(4);
/// How long relays and the launcher may take to clean up after mpirun has ended.
const GRACE: Duration = Duration::from_secs(3);

/// Which processes of a job are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All ranks, spares too.
    Ranks,
    /// The same, by SIGTERM to the guardians: the job ends, and none of its output is lost.
    Job,
    /// The launcher as well.
    Everything,
}

type Watch = Box<dyn FnMut(&BTreeMap<u32, processes::Process>) -> bool>;

/// A program to run under mpirun.
pub struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    workers: u32,
    spares: u32,
    layer: bool,
    variables: Vec<(String, String)>,
    inputs: Vec<(String, String)>,
    kills: Vec<Kill>,
    end: Option<(Trigger, Scope)>,
    lost: Option<(Trigger, usize)>,
    disk: bool,
    limit: Duration,
    mpirun: Option<PathBuf>,
    launcher: Launcher,
    srun: Option<Srun>,
    mpich: bool,
    slots: Vec<u32>,
    by: String,
    tcp: bool,
    watch: Option<Watch>,
}

impl Job {
    /// Four workers and one spare under understudy, with a checkpoint every 200 ms.
    pub fn new(program: impl AsRef<Path>, arguments: &[&str]) -> Job {
        Job {
            program: program.as_ref().to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            workers: 4,
            spares: 1,
            layer: true,
            variables: Vec::new(),
            inputs: Vec::new(),
            kills: Vec::new(),
            end: None,
            lost: None,
            disk: false,
            limit: Duration::from_secs(60),
            mpirun: None,
            launcher: place::launcher(),
            srun: None,
            mpich: false,
            slots: Vec::new(),
            by: "slot".to_owned(),
            tcp: false,
            watch: None,
        }
        .interval("0.2s")
    }

    /// How many ranks the program sees.
    pub fn workers(mut self, workers: u32) -> Job {
        self.workers = workers;
        self
    }

    /// See [`Job::workers`].
    pub fn worker_count(&self) -> u32 {
        self.workers
    }

    /// How many ranks it does not see.
    pub fn spares(mut self, spares: u32) -> Job {
        self.spares = spares;
        self
    }

    /// UNDERSTUDY_INTERVAL
    pub fn interval(self, interval: &str) -> Job {
        self.env("UNDERSTUDY_INTERVAL", interval)
    }

    /// UNDERSTUDY_FAULT
    pub fn fault(self, fault: &str) -> Job {
        self.env("UNDERSTUDY_FAULT", fault)
    }

    /// Sets a variable for the ranks.
    pub fn env(mut self, name: &str, value: &str) -> Job {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a file into the working directory.
    pub fn input(mut self, name: &str, text: &str) -> Job {
        self.inputs.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Kills a rank; kills are done one after the other.
    pub fn kill(mut self, kill: Kill) -> Job {
        self.kills.push(kill);
        self
    }

    /// Kills many processes of it at once.
    pub fn killed_as_a_whole(mut self, at: Trigger, scope: Scope) -> Job {
        self.end = Some((at, scope));
        self
    }

    /// Ends a host, which is not the first, with all that runs there.
    pub fn lose_host(mut self, at: Trigger, host: usize) -> Job {
        self.lost = Some((at, host));
        self
    }

    /// UNDERSTUDY_DISK: a directory of the job's own.
    pub fn disk(mut self) -> Job {
        self.disk = true;
        self
    }

    /// Without understudy and spares.
    pub fn native(mut self) -> Job {
        self.layer = false;
        self.disk = false;
        self.spares = 0;
        self.srun = None;
        self.variables.retain(|(name, _)| !name.starts_with("UNDERSTUDY_"));
        self
    }

    /// Started by a script, which gets the program and its arguments.
    pub fn started_by(mut self, script: &Path) -> Job {
        let program = std::mem::replace(&mut self.program, script.to_owned());
        self.arguments.insert(0, program.to_string_lossy().into_owned());
        self
    }

    /// Started so, whatever the others are.
    pub fn launched_by(mut self, launcher: Launcher) -> Job {
        self.launcher = launcher;
        self
    }

    /// A program of MPICH's: under `ckptd launch`, or without the layer under MPICH's mpiexec.
    pub fn of_mpich(mut self) -> Job {
        self.mpich = true;
        self.launched_by(Launcher::Ckptd)
    }

    /// With another mpirun than that of the PATH, without flags but for the number of ranks.
    pub fn mpirun(mut self, path: &Path) -> Job {
        self.mpirun = Some(path.to_owned());
        self
    }

    /// Under Slurm's srun instead of mpirun.
    pub fn launched_by_srun(mut self, srun: Srun) -> Job {
        self.srun = Some(srun);
        self
    }

    /// On several hosts, with so many slots each; ranks fill the first, then the second, and so on.
    pub fn hosts(mut self, slots: &[u32]) -> Job {
        self.slots = slots.to_owned();
        self
    }

    /// With another order of the ranks on the hosts (`--map-by`).
    pub fn map_by(mut self, by: &str) -> Job {
        self.by = by.to_owned();
        self
    }

    /// With TCP beside shared memory.
    pub fn tcp(mut self) -> Job {
        self.tcp = true;
        self
    }

    /// After this long the job is killed.
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Is called with the ranks again and again once all are there, until it returns true.
    pub fn watch(mut self, watch: impl FnMut(&BTreeMap<u32, processes::Process>) -> bool + 'static) -> Job {
        self.watch = Some(Box::new(watch));
        self
    }

    /// A name by which equal native runs are recognised.
    pub fn key(&self) -> String {
        format!(
            "{:?} {:?} {} {:?} {:?}",
            self.program, self.arguments, self.workers, self.inputs, self.slots
        )
    }

    /// Runs the job in a directory of its own, and waits until nothing of it is left.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(self) -> Outcome {
        let _turn = place::turn();
        self.run_in(directory())
    }

    /// Runs another job at the same time.
    ///
    /// # Panics
    /// If one cannot be started.
    pub fn run_beside(self, other: impl FnOnce() -> Job + Send) -> [Outcome; 2] {
        let _turn = place::turn();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| other().run_in(directory()));
            [self.run_in(directory()), other.join().expect("it has been started")]
        })
    }

    /// Runs the job in the directory of an earlier one, which has it no more.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run_after(self, before: &mut Outcome) -> Outcome {
        let _turn = place::turn();
        self.run_in(before.root.take().expect("nobody else has taken the directory"))
    }

    fn run_in(mut self, root: tempfile::TempDir) -> Outcome {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for name in ["work", "events"] {
            std::fs::create_dir_all(root.path().join(name)).expect("the directory is writable");
        }
        for (name, text) in &self.inputs {
            std::fs::write(root.path().join("work").join(name), text).expect("the directory is writable");
        }
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hosts = (!self.slots.is_empty()).then(|| Hosts::new(&self.slots).expect("there can be hosts"));
        let mut command = self.command(root.path(), &mark, hosts.as_ref());
        let stream = |name| File::create(root.path().join(name)).expect("the directory is writable");
        let input = File::open(root.path().join("work").join(STANDARD_INPUT));
        command
            .stdin(input.map_or_else(
                |_| Stdio::null(),
                |input| {
                    if self.launcher == Launcher::Ckptd {
                        piped(input)
                    } else {
                        input.into()
                    }
                },
            ))
            .stdout(stream("stdout"))
            .stderr(stream("stderr"));
        let line = format!("{command:?}");
        let (started, began) = (Instant::now(), SystemTime::now());
        let child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut run = Run {
            child,
            mark,
            hosts,
            size: self.workers + self.spares,
            is_guarded: self.layer,
            ranks: BTreeMap::new(),
            relay_mark: String::new(),
            shared_memory: BTreeSet::new(),
            killed: Vec::new(),
            began,
        };
        let status = run.attend(root.path(), &mut self, started);
        let wall = started.elapsed();
        let left_behind = run.left_behind();
        Outcome::new(root, line, status, wall, run.killed, left_behind)
    }
}

/// A job's own.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("ffi-test-").tempdir();
    directory.expect("there is room for temporary files")
}

/// What mpirun makes of its standard input, and ckptd's launcher leaves as it is: a pipe.
fn piped(mut input: File) -> Stdio {
    let (read, mut write) = std::io::pipe().expect("there are descriptors");
    // Whoever does not read all of it has closed it by the end.
    std::thread::spawn(move || std::io::copy(&mut input, &mut write));
    read.into()
}

/// A job under way.
struct Run {
    child: Child,
    mark: String,
    hosts: Option<Hosts>,
    size: u32,
    /// What the launcher starts becomes guardians, and is no rank.
    is_guarded: bool,
    ranks: BTreeMap<u32, processes::Process>,
    /// What the names of the job's files have in them, and its relays' command lines.
    relay_mark: String,
    shared_memory: BTreeSet<String>,
    killed: Vec<Killed>,
    /// Files that are older are another job's, whose launcher had the same process number.
    began: SystemTime,
}

fn is_since(entry: &std::fs::DirEntry, began: SystemTime) -> bool {
    let changed = entry.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed >= began)
}

impl Run {
    /// Waits for the end and kills on the way; `None` if the time was up.
    fn attend(&mut self, root: &Path, job: &mut Job, started: Instant) -> Option<std::process::ExitStatus> {
        let (stdout, events) = (root.join("stdout"), root.join("events"));
        let mut kills = job.kills.iter();
        let mut kill = kills.next();
        let mut due: Option<Instant> = None;
        loop {
            if let Some(status) = self.child.try_wait().expect("mpirun is our child") {
                return Some(status);
            }
            if started.elapsed() > job.limit {
                self.end();
                return None;
            }
            self.look();
            if let (Some((at, scope)), true) = (job.end, self.is_complete())
                && at.has_come(&stdout, &events)
            {
                job.end = None;
                self.kill_all(scope, started);
            }
            if let (Some((at, host)), Some(hosts)) = (job.lost, &self.hosts)
                && self.is_complete()
                && at.has_come(&stdout, &events)
            {
                assert!(hosts.lose(host), "host {host} cannot be ended");
                job.lost = None;
            }
            if let (Some(next), true) = (kill, self.is_complete()) {
                if due.is_none() && next.at.has_come(&stdout, &events) {
                    due = Some(Instant::now() + next.delay);
                }
                if due.is_some_and(|due| Instant::now() >= due) {
                    if let Some(process) = self.ranks.get(&next.rank) {
                        let hit = processes::kill(process.pid);
                        self.killed.push(Killed {
                            rank: next.rank,
                            pid: process.pid,
                            at: started.elapsed(),
                            hit,
                        });
                    }
                    (kill, due) = (kills.next(), None);
                }
            }
            if self.is_complete() && job.watch.as_mut().is_some_and(|watch| watch(&self.ranks)) {
                job.watch = None;
            }
            std::thread::sleep(TICK);
        }
    }

    fn is_complete(&self) -> bool {
        self.ranks.len() == self.size as usize
    }

    /// Learns the ranks' processes and their files in /dev/shm.
    fn look(&mut self) {
        if !self.is_complete() {
            self.ranks = processes::ranks(&processes::marked(&self.mark), self.is_guarded);
            self.relay_mark = self.relay_mark();
        } else if self.hosts.is_none()
            && self
                .shared_memory
                .iter()
                .filter(|path| path.contains("sm_segment"))
                .count()
                < self.size as usize
        {
            self.shared_memory.extend(
                self.ranks
                    .values()
                    .flat_map(|process| processes::mapped_shared_memory(process.pid)),
            );
        }
    }

    fn kill_all(&mut self, scope: Scope, started: Instant) {
        for (&rank, process) in &self.ranks {
            let pid = process.pid;
            let hit = match scope {
                Scope::Job => processes::state(pid).is_some(),
                Scope::Ranks | Scope::Everything => processes::kill(pid),
            };
            let at = started.elapsed();
            self.killed.push(Killed { rank, pid, at, hit });
        }
        if scope == Scope::Job {
            let all = processes::marked(&self.mark);
            for guardian in all.iter().filter(|process| process.is_guardian()) {
                processes::terminate(guardian.pid);
            }
        }
        if scope == Scope::Everything {
            for process in processes::marked(&self.mark) {
                processes::kill(process.pid);
            }
        }
    }

    /// Kills what is left of the job.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in processes::marked(&self.mark) {
            processes::kill(process.pid);
        }
    }

    /// Relays have no environment; their command line has the name of the job, and that has the pid of the launcher, or a batch system's numbers.
    fn relay_mark(&self) -> String {
        match (&self.hosts, self.ranks.values().next()) {
            (Some(hosts), _) => hosts.job_mark(),
            (_, Some(rank)) if self.is_guarded => crate::living::job_mark(rank.parent),
            (_, Some(rank)) => format!("-{}@", rank.parent),
            (_, None) => format!("-{}@", self.child.id()),
        }
    }

    fn survivors(&self) -> Vec<String> {
        let mut found: Vec<String> = processes::marked(&self.mark)
            .into_iter()
            .map(|process| format!("process {} ({})", process.pid, process.command))
            .collect();
        let relay_mark = &self.relay_mark;
        found.extend(
            processes::with_command(relay_mark)
                .into_iter()
                .map(|pid| format!("relay {pid}")),
        );
        if let Some(hosts) = &self.hosts {
            found.extend(hosts.shared_memory());
            return found;
        }
        let files = place::shared_memory()
            .into_iter()
            .filter(|entry| is_since(entry, self.began))
            .map(|entry| entry.path().to_string_lossy().into_owned());
        found.extend(files.filter(|path| path.contains(relay_mark) || self.shared_memory.contains(path)));
        found
    }

    /// What still exists after a while; it is removed.
    fn left_behind(&mut self) -> Vec<String> {
        let ended = Instant::now();
        let mut found = self.survivors();
        while !found.is_empty() && ended.elapsed() < GRACE {
            std::thread::sleep(5 * TICK);
            found = self.survivors();
        }
        let relays = processes::with_command(&self.relay_mark);
        for pid in processes::marked(&self.mark)
            .into_iter()
            .map(|process| process.pid)
            .chain(relays)
        {
            processes::kill(pid);
        }
        for path in found.iter().filter(|path| path.starts_with("/dev/shm/")) {
            let _ = std::fs::remove_file(path);
        }
        found
    }
}
