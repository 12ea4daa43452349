//! Commands read the event files of a long job with little memory.

use rustix::fs::ftruncate;
use std::path::Path;
use std::process::{Command, Stdio};
use understudy_formats::events::{
    EndReason, Epoch, EventWriter, Kind, ProcessNumber, Role, Worker, file_name, monotonic_ns,
};
use understudy_report::Live;

const RANKS: u32 = 16;
const CHECKPOINTS: u64 = 1_000;
/// Limit of a command's peak memory in KiB, less than the size of the files.
const MOST_KIB: u64 = 18 << 10;

/// Records that the runtime writes for a checkpoint of a rank, and a long record.
fn checkpoint(epoch: Epoch, rank: u32) -> [Kind; 6] {
    let (bytes, ns) = (40_960, 150_000);
    [
        Kind::Cut {
            epoch,
            at_call: epoch.0 * 100,
            candidates: epoch.0 * 3000,
        },
        Kind::Capture {
            epoch,
            pages: 10,
            bytes,
            scan_ns: ns,
            copy_ns: ns,
        },
        Kind::Ship {
            epoch,
            to: ProcessNumber((rank + 1) % RANKS),
            bytes,
            alike: 0,
            ns,
        },
        Kind::Received {
            epoch,
            from: ProcessNumber((rank + RANKS - 1) % RANKS),
            bytes,
            ns,
        },
        Kind::Commit { epoch, ns },
        // A long record at each checkpoint makes the files as long as those of a job of days,
        // whose many short records would take longer to write.
        Kind::Config {
            settings: vec![("UNDERSTUDY_DISK".into(), "x".repeat(1300))],
        },
    ]
}

/// Writes the files of a job with a checkpoint every 10 s for 2.8 hours.
fn job(directory: &Path) {
    let begin = monotonic_ns();
    for rank in 0..RANKS {
        let writer = EventWriter::create(directory, ProcessNumber(rank));
        let start = Kind::Start {
            pid: 100 + rank,
            world_rank: ProcessNumber(rank),
            role: Role::Worker(Worker(rank)),
            workers: RANKS,
            spares: 0,
            host: "node".into(),
            program: "solver".into(),
            command: vec!["solver".into()],
            version: "0.1.0".into(),
            job: "job".into(),
        };
        writer.emit_at(begin, Epoch(0), start);
        for epoch in (1..=CHECKPOINTS).map(Epoch) {
            let at = begin + epoch.0 * 10_000_000_000;
            for kind in checkpoint(epoch, rank) {
                writer.emit_at(at, epoch, kind);
            }
        }
        let how = EndReason::Finalized;
        writer.emit(Epoch(CHECKPOINTS), Kind::End { how });
    }
}

/// Runs the command; returns the length of its output and its peak memory in KiB.
fn run(arguments: &[&str], directory: &Path) -> (u64, u64) {
    let output = tempfile::tempfile().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_understudy"));
    child.args(arguments).arg(directory);
    child.stdout(Stdio::from(output.try_clone().unwrap()));
    let status = child.status().unwrap();
    assert!(status.success(), "{arguments:?}: {status}");
    (output.metadata().unwrap().len(), peak_of_children())
}

/// Peak memory of the largest child so far: getrusage(2), `ru_maxrss`.
#[allow(unsafe_code)]
fn peak_of_children() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes, and zeroes are a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss as u64
}

/// Each command reads files that are longer than the memory that it may use.
///
/// The file has a single test, because the measured peak is that of all children of this process.
#[test]
fn commands_need_little_memory_for_long_files() {
    let directory = tempfile::tempdir().unwrap();
    job(directory.path());
    let length = |rank| {
        let file = directory.path().join(file_name(ProcessNumber(rank)));
        file.metadata().unwrap().len()
    };
    let all: u64 = (0..RANKS).map(length).sum();
    assert!(all > MOST_KIB << 10, "only {all} bytes");
    let commands: [(&[&str], u64); 5] = [
        (&["events"], all),
        (&["events", "--summary"], 100),
        (&["events", "--json"], all),
        (&["inspect"], 100),
        (&["report"], 1000),
    ];
    for (arguments, least) in commands {
        let (length, peak) = run(arguments, directory.path());
        assert!(length > least, "{arguments:?}: only {length} bytes");
        assert!(peak < MOST_KIB, "{arguments:?}: {peak} KiB");
    }
    let mut live = Live::new(directory.path());
    let state = live.poll().unwrap().expect("a job");
    let last = state.checkpoint.expect("a checkpoint").epoch;
    assert_eq!(last, Epoch(CHECKPOINTS));
    assert!(own_peak() < MOST_KIB, "status: {} KiB", own_peak());
    a_hole_is_not_read(directory.path());
}

/// Peak memory of this process: `VmHWM` (proc_pid_status(5)).
fn own_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.unwrap().parse().unwrap()
}

/// Checks that a hole after the last record is damage, and is not read.
///
/// The hole has almost 20 GiB.
fn a_hole_is_not_read(directory: &Path) {
    let path = directory.join(file_name(ProcessNumber(0)));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    ftruncate(&file, 20 << 30).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    let output = command
        .args(["events", "--summary"])
        .arg(directory)
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("PROBLEM: rank-0.events: checksum"), "{text}");
    assert!(peak_of_children() < MOST_KIB, "{} KiB", peak_of_children());
}
