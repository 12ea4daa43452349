//! Processes as shown by /proc.

use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::time::Duration;
use understudy_formats::proc_maps::MappedFiles;

/// Environment variable that identifies the processes of a job.
///
/// The name does not begin with `UNDERSTUDY_`, because understudy hides its own variables from the
/// program.
pub const MARK: &str = "FFI_TEST_ID";

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// Rank in the launcher's world, if the process has a rank.
    pub rank: Option<u32>,
    pub command: String,
}

impl Process {
    /// True for a guardian, which the launcher takes for a rank.
    pub fn is_guardian(&self) -> bool {
        self.command.starts_with("ckptd guardian ") || self.command.contains("/ckptd guardian ")
    }

    /// True for a process of `ckptd`, such as a guardian, a relay or a launcher.
    fn is_of_understudy(&self) -> bool {
        let program = self.command.split(' ').next().unwrap_or_default();
        program.rsplit('/').next() == Some("ckptd")
    }
}

pub fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Fields of /proc/PID/stat after the name: state, parent, …
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn bytes(pid: u32, file: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn strings(bytes: &[u8]) -> Vec<String> {
    let texts = bytes.split(|&byte| byte == 0);
    texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// Parent of a process; `None` if the process has exited or is a zombie.
pub fn parent(pid: u32) -> Option<u32> {
    let fields = stat(pid)?;
    if fields[0] == "Z" || fields[0] == "X" {
        None
    } else {
        fields[1].parse().ok()
    }
}

/// True if the process is a descendant of `from`.
pub fn descends(mut pid: u32, from: u32) -> bool {
    while let Some(parent) = self::parent(pid).filter(|&parent| parent > 1) {
        if parent == from {
            return true;
        }
        pid = parent;
    }
    false
}

/// State letter of a process: `S`, `R`, …
pub fn state(pid: u32) -> Option<String> {
    stat(pid).map(|fields| fields[0].clone())
}

/// Processor time of the living threads of a process (proc(5), schedstat).
pub fn processor_time(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let time = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let times: Option<Vec<u64>> = threads.flatten().map(time).collect();
    Some(Duration::from_nanos(times?.iter().sum()))
}

/// Living processes whose environment contains `mark`, except `strangers`.
///
/// The strangers are older than the mark, so their environments need not be read.
pub fn marked(mark: &str, strangers: &BTreeSet<u32>) -> Vec<Process> {
    // Raw bytes are searched, since environments are read many times a second while a job starts.
    let wanted = format!("{MARK}={mark}\0");
    let wanted = memchr::memmem::Finder::new(&wanted);
    let described = |pid| {
        let environment = bytes(pid, "environ");
        wanted.find(&environment)?;
        let environment = strings(&environment);
        let rank = environment
            .iter()
            .find_map(|entry| entry.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok());
        Some((rank, strings(&bytes(pid, "cmdline")).join(" ")))
    };
    all()
        .filter(|pid| !strangers.contains(pid))
        .filter_map(|pid| {
            let (rank, command) = described(pid)?;
            Some(Process {
                pid,
                parent: parent(pid)?,
                rank,
                command,
            })
        })
        .collect()
}

/// Selects the ranks among marked processes.
///
/// A rank is a process with a rank number whose parent is a guardian or, unless `guarded`, the
/// launcher. The launcher is marked and has no rank number. Children of a rank inherit the rank's
/// variables, but their parent is the rank or, for orphans, another process.
pub fn ranks(processes: &[Process], guarded: bool) -> BTreeMap<u32, Process> {
    let launchers: BTreeSet<u32> = processes
        .iter()
        .filter(|process| process.is_guardian() || process.rank.is_none() && !guarded)
        .map(|process| process.pid)
        .collect();
    let is_first =
        |process: &&Process| launchers.contains(&process.parent) && !process.is_of_understudy();
    processes
        .iter()
        .filter(is_first)
        .filter_map(|process| Some((process.rank?, process.clone())))
        .collect()
}

/// Living processes whose command line contains `part`.
pub fn with_command(part: &str) -> Vec<u32> {
    all()
        .filter(|&pid| {
            parent(pid).is_some()
                && memchr::memmem::find(&bytes(pid, "cmdline"), part.as_bytes()).is_some()
        })
        .collect()
}

/// Living processes of this name that have a pidfd of `process` (pidfd_open(2)).
pub fn attached_to(process: u32, name: &str) -> Vec<u32> {
    let pid_line = format!("Pid:\t{process}\n");
    let has_it = |pid: u32| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo"))
            .into_iter()
            .flatten()
            .flatten();
        let mut texts = descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
        texts.any(|text| text.contains(&pid_line))
    };
    let is_named = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let lives = |pid: u32| stat(pid).is_some_and(|fields| fields[0] != "Z");
    all()
        .filter(|&pid| is_named(pid) && lives(pid) && has_it(pid))
        .collect()
}

/// Proportional set size of a process in KiB: shared pages are divided among their users.
pub fn proportional_memory(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Files below /dev/shm that a process has mapped and that were not removed.
pub fn mapped_shared_memory(pid: u32) -> Vec<String> {
    let mapped = MappedFiles::read(pid);
    let paths = mapped.paths().map(|path| path.display().to_string());
    paths
        .filter(|path| path.starts_with("/dev/shm/") && !path.ends_with(" (deleted)"))
        .collect()
}

/// Current content of the random bytes of a process (getauxval(3): AT_RANDOM).
///
/// The kernel has set the bytes at the start; understudy replaces them in ranks.
pub fn random_bytes(pid: u32) -> Option<[u8; 16]> {
    const AT_RANDOM: u64 = 25;
    let auxiliary = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    let entries = auxiliary.chunks_exact(16);
    let mut entries =
        entries.filter_map(|entry| Some((number(&entry[..8])?, number(&entry[8..])?)));
    let (_, address) = entries.find(|(kind, _)| *kind == AT_RANDOM)?;
    let mut bytes = [0; 16];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// Command line and environment of a process.
pub fn words(pid: u32) -> [Vec<String>; 2] {
    ["cmdline", "environ"].map(|file| strings(&bytes(pid, file)))
}

/// Sends SIGKILL; returns true if the process existed.
pub fn kill(pid: u32) -> bool {
    send(pid, Signal::KILL)
}

/// Sends SIGTERM; returns true if the process existed.
pub fn terminate(pid: u32) -> bool {
    send(pid, Signal::TERM)
}

/// Sends a signal; returns true if the process existed.
pub fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

/// Resources that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// Resident memory in KiB.
    pub memory: u64,
    pub descriptors: usize,
    pub mappings: usize,
}

/// Returns the resources that a process uses; `None` if it has exited.
pub fn resource_use(pid: u32) -> Option<ResourceUse> {
    parent(pid)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(ResourceUse {
        memory: resident.split_whitespace().next()?.parse().ok()?,
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        mappings: std::fs::read_to_string(format!("/proc/{pid}/maps"))
            .ok()?
            .lines()
            .count(),
    })
}
