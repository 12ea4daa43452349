//! A worker is killed at every place of an undisturbed run.
//!
//! The places are all fault points except [`BEHIND_THE_END`], and MPI calls. The ordinary run takes
//! a few calls and one worker for every second point; `make sweep` takes all, with each worker.
//! Where static data are rebuilt, the spare and other processes are also killed during replays.
//!
//! Each run ends with the bytes of an undisturbed one. Only at [`AT_THE_END`] it may report a loss
//! instead. A table has the number of runs for each result.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::reduced_replicas::rebuilt;
use ffi_tests::{Job, Outcome, paths};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use understudy_formats::events::Kind;

/// Number of workers for MPI libraries whose calls wait in the kernel.
const WORKERS: u32 = 4;
/// Number of workers for MPICH, whose calls spin.
///
/// More workers than processors would take seconds for each run.
const WORKERS_OF_MPICH: u32 = 2;

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum RunResult {
    /// Equal bytes, nothing left behind, and the fault point was reached.
    Survived,
    /// A status other than 0, and a line that reports the loss.
    Named,
    /// Equal bytes, nothing left behind, and the fault point was not reached.
    NotMet,
    Wrong,
}

/// Parts of lines that report a loss.
const LOSSES: &[&str] = &[
    "cannot be recovered",
    "during MPI_Init",
    "[death-after-finalize]",
];

fn run_result(outcome: &Outcome, undisturbed: &Outcome, case: &TestProgram) -> RunResult {
    let succeeded = outcome.status.is_some_and(|status| status.success());
    let names_loss = || {
        outcome
            .own_lines()
            .iter()
            .any(|line| LOSSES.iter().any(|loss| line.contains(loss)))
    };
    let is_equal = || {
        let compare = || outcome.assert_like_after(undisturbed, case.files, case.canonical);
        catch_unwind(AssertUnwindSafe(compare)).is_ok()
    };
    match () {
        () if succeeded && is_equal() && outcome.left_behind.is_empty() => {
            // A job that restarts begins new event files.
            let starts_again = outcome
                .own_lines()
                .iter()
                .any(|line| line.contains("the job starts again"));
            if outcome.faults().is_empty() && !starts_again {
                RunResult::NotMet
            } else {
                RunResult::Survived
            }
        }
        () if outcome.status.is_some() && !succeeded && names_loss() => RunResult::Named,
        () => RunResult::Wrong,
    }
}

/// Number of MPI calls of a worker, and number of passages of each fault point.
type Counts = (u64, Vec<(String, u64)>);

/// A program with the settings of its sweep.
struct Swept {
    case: TestProgram,
    workers: u32,
    spares: u32,
    /// True if static data are rebuilt.
    ///
    /// Each run then has the faults [`WAITING`] as well, so that replicas are reduced at
    /// [`REDUCED_CHECKPOINT`].
    replays: bool,
}

/// Checkpoint at which replicas are reduced, in runs whose static data are rebuilt.
///
/// Trial replays end while the workers wait at earlier cuts. Buddies poll for the results once per
/// cut and send them to the workers, which then send the lists of proved pages to their buddies.
const REDUCED_CHECKPOINT: u64 = 9;
/// Delays of every worker at cuts during which trial replays end.
const WAITING: [&str; 2] = [
    "at=cut.begin epoch=4 delay=200ms",
    "at=cut.begin epoch=5 delay=200ms",
];

impl Swept {
    fn plain(case: TestProgram, make: fn() -> Job) -> Swept {
        Swept {
            case: TestProgram { make, ..case },
            workers: WORKERS,
            spares: 1,
            replays: false,
        }
    }

    /// Settings for a program of MPICH, with [`WORKERS_OF_MPICH`].
    fn of_mpich(case: TestProgram, make: fn() -> Job) -> Swept {
        Swept {
            workers: WORKERS_OF_MPICH,
            ..Swept::plain(case, make)
        }
    }

    fn replaying(case: TestProgram, make: fn() -> Job) -> Swept {
        Swept {
            spares: 2,
            replays: true,
            ..Swept::plain(case, make)
        }
    }

    fn job(&self, fault: &str) -> Job {
        let job = self.case.job().workers(self.workers).spares(self.spares);
        if !self.replays {
            return job.fault(fault);
        }
        let waits =
            (0..WORKERS).flat_map(|rank| WAITING.map(|place| format!("wait rank={rank} {place}")));
        let faults: Vec<String> = waits.chain([fault.to_owned()]).collect();
        job.env("UNDERSTUDY_STATIC", "replay")
            .env("UNDERSTUDY_BUDDY_OFFSET", "1")
            .fault(&faults.join("; "))
    }

    /// Counts the calls and fault points of the workers in an undisturbed run.
    fn counts(&self) -> Vec<Counts> {
        let outcome = self.job("count").run();
        outcome.assert_success();
        let counted = |rank: u32| {
            let passed = outcome
                .events(rank)
                .into_iter()
                .find_map(|record| match record.kind {
                    Kind::Passed { calls, points } => Some((calls, points)),
                    _ => None,
                });
            passed.unwrap_or_default()
        };
        (0..self.workers).map(counted).collect()
    }
}

/// Faults of one run of a sweep.
struct Fault {
    /// Row of the table.
    place: String,
    /// Column of the table.
    worker: u32,
    /// Value of UNDERSTUDY_FAULT.
    text: String,
    /// True if the job may end with a loss: the fault is at [`AT_THE_END`].
    may_end: bool,
}

/// Fault point after which failed ranks are not replaced and buffered output is lost.
const BEHIND_THE_END: &str = "finalize.end";
/// Fault point at which all workers have reached `MPI_Finalize`.
///
/// From there on, mpirun does not report the failure of a process; `ckptd launch` does.
const AT_THE_END: &str = "finalize.agreed";

/// Returns the faults of a sweep.
///
/// Each worker is killed at the first passage of each point and, if it passes the point at least
/// `late` times, at checkpoint `late`; and at about `calls_per_worker` calls, or at every call.
fn faults(counts: &[Counts], calls_per_worker: Option<u64>, late: u64) -> Vec<Fault> {
    let mut found = Vec::new();
    let workers = counts.len() as u64;
    for (worker, (calls, points)) in (0..).zip(counts) {
        let kill = |at: &str| format!("kill rank={worker} at={at}");
        for (place, times) in points.iter().filter(|(_, times)| *times > 0) {
            if place == BEHIND_THE_END {
                continue;
            }
            found.push(Fault {
                place: place.clone(),
                worker,
                text: kill(place),
                may_end: place == AT_THE_END,
            });
            if *times >= late {
                let text = format!("{} epoch={late}", kill(place));
                found.push(Fault {
                    place: format!("{place}, {late}"),
                    worker,
                    text,
                    may_end: false,
                });
            }
        }
        let stride = calls_per_worker.map_or(1, |wanted| (calls / wanted).max(1));
        // Each worker starts at another call, so that all together reach more kinds of calls.
        let mut call = 1 + u64::from(worker) * stride / workers;
        while call <= *calls {
            found.push(Fault {
                place: "calls".into(),
                worker,
                text: kill(&format!("call:{call}")),
                may_end: false,
            });
            call += stride;
        }
    }
    found
}

/// Returns faults of the spare during or after a replay, or of another process meanwhile.
///
/// Workers also fail during trial replays, which their buddies run. Failures of the buddies
/// themselves are among [`faults`].
fn faults_of_replays() -> Vec<Fault> {
    let fault = |place: &str, worker: u32, text: String| Fault {
        place: place.to_owned(),
        worker,
        text,
        may_end: false,
    };
    let mut found = Vec::new();
    // The buddy sleeps before or after the trial replay, and the worker fails meanwhile. With the
    // faults `WAITING`, checkpoint 5 is taken before or after the trial replay.
    let stage = "rehearse";
    for worker in 0..WORKERS {
        let buddy = (worker + 1) % WORKERS;
        let sleeps = ["begin", "end"]
            .map(|event| format!("wait rank={buddy} at={stage}.{event} delay=60ms; "));
        let dies = format!("kill rank={worker} at=capture.begin epoch=5 delay=20ms");
        let text = sleeps.concat() + &dies;
        found.push(fault(&format!("{stage}, a worker"), worker, text));
    }
    for place in ["replay.begin", "replay.end"] {
        for (worker, bystander) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
            let dies = format!("kill rank={worker} at=cut.begin epoch={REDUCED_CHECKPOINT}");
            let fails_too = format!("{dies}; kill spare=0 at={place}");
            found.push(fault(&format!("{place}, spare"), worker, fails_too));
            let late = format!(
                "{dies}; wait spare=0 at={place} delay=40ms; kill rank={bystander} at=fetch.begin \
                 delay=20ms"
            );
            found.push(fault(&format!("{place}, a worker"), worker, late));
        }
    }
    found
}

/// Returns the faults of a program's sweep; the ordinary run has a part of them.
fn chosen(swept: &Swept, in_full: bool) -> Vec<Fault> {
    let counts = swept.counts();
    let late = if swept.replays { REDUCED_CHECKPOINT } else { 2 };
    let calls = if swept.replays { 2 } else { 1 };
    let mut faults = faults(&counts, (!in_full).then_some(calls), late);
    if swept.replays {
        faults.extend(faults_of_replays());
    }
    if in_full {
        return faults;
    }
    if swept.replays {
        // The sweep of the program without replays covers these faults.
        let is_covered = |place: &str| {
            !place.contains(',') && !place.contains("phase.") && !place.contains("thin.")
        };
        faults.retain(|fault| {
            fault.place == "calls" || fault.place.starts_with("re") || !is_covered(&fault.place)
        });
    }
    // Every second fault point is tested with one worker, which changes from point to point.
    let mut places: Vec<String> = faults.iter().map(|fault| fault.place.clone()).collect();
    places.sort();
    places.dedup();
    let number = |place: &str| places.iter().position(|other| other == place).unwrap_or(0) as u32;
    faults.retain(|fault| {
        fault.place == "calls"
            || fault.place.starts_with("rehearse")
            || number(&fault.place) % 2 == 0
                && fault.worker == number(&fault.place) / 2 % swept.workers
    });
    faults
}

/// Runs a sweep and prints the table; in full if `FFI_TESTS_SWEEP` is set.
fn sweep(swept: &Swept) {
    let in_full = std::env::var_os("FFI_TESTS_SWEEP").is_some();
    let case = &swept.case;
    let undisturbed = native(case.job().workers(swept.workers));
    let faults = chosen(swept, in_full);
    let mut table: BTreeMap<(String, u32), BTreeMap<RunResult, u32>> = BTreeMap::new();
    let (mut wrong, mut pages) = (Vec::new(), 0);
    for (number, fault) in faults.iter().enumerate() {
        if number > 0 && number % 100 == 0 {
            println!(
                "{}: {number} of {} runs, {} wrong",
                case.name,
                faults.len(),
                wrong.len()
            );
        }
        let outcome = swept.job(&fault.text).run();
        let result = match run_result(&outcome, &undisturbed, case) {
            RunResult::Named if !fault.may_end => RunResult::Wrong,
            result => result,
        };
        if result == RunResult::Wrong {
            wrong.push(format!("{}\n{}", fault.text, outcome.describe()));
        }
        pages += (0..swept.workers + swept.spares)
            .map(|rank| rebuilt(&outcome, rank))
            .sum::<u64>();
        *table
            .entry((fault.place.clone(), fault.worker))
            .or_default()
            .entry(result)
            .or_default() += 1;
    }
    print_table(swept, &table);
    let missed = table
        .values()
        .filter_map(|row| row.get(&RunResult::NotMet))
        .sum::<u32>();
    assert!(
        wrong.is_empty(),
        "{} of {} runs are wrong:\n{}",
        wrong.len(),
        faults.len(),
        wrong.join("\n")
    );
    assert!(
        missed * 4 <= faults.len() as u32,
        "{missed} of {} faults were not met",
        faults.len()
    );
    assert!(pages > 0 || !swept.replays, "no run has rebuilt pages");
}

fn print_table(swept: &Swept, table: &BTreeMap<(String, u32), BTreeMap<RunResult, u32>>) {
    println!(
        "{}: survived / named loss / fault not met / wrong",
        swept.case.name
    );
    let mut places: Vec<&String> = table.keys().map(|(place, _)| place).collect();
    places.dedup();
    for place in places {
        let cell = |worker: u32| {
            let row = table.get(&(place.clone(), worker));
            let count = |result| row.and_then(|row| row.get(&result)).copied().unwrap_or(0);
            let results = [
                RunResult::Survived,
                RunResult::Named,
                RunResult::NotMet,
                RunResult::Wrong,
            ];
            results.map(|result| count(result).to_string()).join("/")
        };
        let cells: Vec<String> = (0..swept.workers).map(cell).collect();
        println!("  {place:16} {}", cells.join("   "));
    }
}

fn short_heat2d() -> Job {
    heat2d_of(paths::example("heat2d"))
}

fn heat2d_of(program: PathBuf) -> Job {
    let output = ["heat.field", "--print-every", "5", "--log", "heat.log"];
    let arguments = [&["60", "60", "30"], &output[..]].concat();
    Job::new(program, &arguments).interval("7calls")
}

fn short_cg() -> Job {
    cg_of(paths::example("cg"))
}

fn cg_of(program: PathBuf) -> Job {
    let arguments = ["12", "12", "2", "cg.solution", "--max-iterations", "30"];
    Job::new(program, &arguments).interval("9calls")
}

fn short_sem() -> Job {
    Job::new(paths::example("sem"), &["2", "2", "3", "2", "sem.solution"]).interval("3calls")
}

#[test]
fn heat2d_survives_a_death_at_any_call() {
    sweep(&Swept::plain(programs::heat2d(), short_heat2d));
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_survives_a_death_at_any_call() {
    sweep(&Swept::plain(programs::cg(), short_cg));
}

#[test]
#[ignore = "a variant: make test-all"]
fn lammps_survives_a_death_at_any_call() {
    if let Some(case) = programs::lammps() {
        sweep(&Swept::plain(case, programs::short_lammps));
    }
}

/// Sweeps a program that MPICH's compiler has built.
///
/// The ABI, library and process-manager protocol of MPICH differ from those of Open MPI.
fn of_mpich(name: &'static str, program: Option<PathBuf>, case: TestProgram, make: fn() -> Job) {
    if program.is_some() {
        sweep(&Swept::of_mpich(TestProgram { name, ..case }, make));
    }
}

#[test]
#[ignore = "long: make sweep"]
fn heat2d_of_mpich_survives_a_death_at_any_call() {
    let make = || heat2d_of(paths::mpich_example("heat2d").expect("heat2d is compiled")).of_mpich();
    of_mpich(
        "heat2d of MPICH",
        paths::mpich_example("heat2d"),
        programs::heat2d(),
        make,
    );
}

#[test]
#[ignore = "long: make sweep"]
fn cg_of_mpich_survives_a_death_at_any_call() {
    let make = || cg_of(paths::mpich_example("cg").expect("cg is compiled")).of_mpich();
    of_mpich(
        "cg of MPICH",
        paths::mpich_example("cg"),
        programs::cg(),
        make,
    );
}

#[test]
#[ignore = "long: make sweep"]
fn heat2d_survives_a_death_at_any_call_when_its_static_data_are_rebuilt() {
    sweep(&Swept::replaying(programs::heat2d(), || {
        short_heat2d().interval("3calls")
    }));
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_survives_a_death_at_any_call_when_its_static_data_are_rebuilt() {
    // The set-up phase ends before the fourth call, and so before the cuts at which `WAITING`
    // delays the workers.
    let make = || {
        short_cg()
            .interval("4calls")
            .env("UNDERSTUDY_INIT_END", "MPI_Allreduce#2")
    };
    sweep(&Swept::replaying(programs::cg(), make));
}

#[test]
#[ignore = "long: make sweep"]
fn sem_survives_a_death_at_any_call_when_its_static_data_are_rebuilt() {
    sweep(&Swept::replaying(programs::sem(), short_sem));
}

#[test]
#[ignore = "long: make sweep"]
fn lammps_survives_a_death_at_any_call_when_its_static_data_are_rebuilt() {
    if let Some(case) = programs::lammps() {
        sweep(&Swept::replaying(case, programs::short_lammps));
    }
}
