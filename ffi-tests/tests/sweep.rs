//! A rank dies at every place that an undisturbed run passes: at each fault point, and at each of its MPI calls (every
//! k-th in the ordinary run, every single one in `make sweep`). Each run ends with the bytes of an undisturbed one, or
//! names what was lost; a table says how many did what.

use ckptd::events::Kind;
use ffi_tests::outcome::native;
use ffi_tests::programs::{self, Case};
use ffi_tests::{Job, Outcome, place};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const WORKERS: u32 = 4;

/// What became of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    /// The same bytes, and the fault was met.
    Survived,
    /// Another status than 0, and a line that says what was lost, before the end of MPI_Init.
    Named,
    /// The fault lay behind the run's end.
    NotMet,
    /// Anything else.
    Wrong,
}

/// Lines that name a loss.
const LOSSES: &[&str] = &["cannot be recovered", "during MPI_Init"];

fn fate(outcome: &Outcome, undisturbed: &Outcome, case: &Case) -> Fate {
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
            if outcome.faults().is_empty() {
                Fate::NotMet
            } else {
                Fate::Survived
            }
        }
        () if outcome.status.is_some() && !succeeded && names_loss() => Fate::Named,
        () => Fate::Wrong,
    }
}

/// How many MPI calls each worker makes, and how often it passes which points, in an undisturbed run.
fn counts(case: &Case) -> Vec<(u64, Vec<(String, u64)>)> {
    let outcome = case.job().fault("count").run();
    outcome.assert_success();
    let counted = |worker: u32| {
        let passed = outcome.events(worker).into_iter().find_map(|record| match record.kind {
            Kind::Passed { calls, points } => Some((calls, points)),
            _ => None,
        });
        passed.unwrap_or_default()
    };
    (0..WORKERS).map(counted).collect()
}

/// One run of a sweep.
struct Fault {
    /// Row of the table.
    place: String,
    worker: u32,
    text: String,
    /// Before the first checkpoint is committed, a job can only end.
    may_end: bool,
}

/// Behind it nobody takes a dead rank's part any more, and what lies in its buffers is lost.
const BEHIND_THE_END: &str = "finalize.end";
/// `MPI_Init` is among the first calls of every program.
const CALLS_BEFORE_THE_FIRST_CHECKPOINT: u64 = 4;

/// The faults of a sweep: each point for each worker, in the first epoch and, if it is passed again, in the second one;
/// and `calls_per_worker` calls, or every single one.
fn faults(counts: &[(u64, Vec<(String, u64)>)], calls_per_worker: Option<u64>) -> Vec<Fault> {
    let mut found = Vec::new();
    for (worker, (calls, points)) in (0..).zip(counts) {
        let kill = |at: &str| format!("kill rank={worker} at={at}");
        for (place, times) in points.iter().filter(|(_, times)| *times > 0) {
            if place == BEHIND_THE_END {
                continue;
            }
            let survives = ["init.end", "finalize.begin"].contains(&place.as_str());
            found.push(Fault {
                place: place.clone(),
                worker,
                text: kill(place),
                may_end: !survives,
            });
            if *times > 1 {
                let text = format!("{} epoch=2", kill(place));
                found.push(Fault {
                    place: format!("{place}, 2"),
                    worker,
                    text,
                    may_end: false,
                });
            }
        }
        let stride = calls_per_worker.map_or(1, |wanted| (calls / wanted).max(1));
        // Another phase for each worker, so that together they see more kinds of calls.
        let mut call = 1 + u64::from(worker) * stride / u64::from(WORKERS);
        while call <= *calls {
            let may_end = call <= CALLS_BEFORE_THE_FIRST_CHECKPOINT;
            found.push(Fault {
                place: "calls".into(),
                worker,
                text: kill(&format!("call:{call}")),
                may_end,
            });
            call += stride;
        }
    }
    found
}

/// Runs them all and prints the table; the sweep in full if `FFI_TESTS_SWEEP` is set.
fn sweep(case: &Case) {
    let in_full = std::env::var_os("FFI_TESTS_SWEEP").is_some();
    let undisturbed = native(case.job());
    let counts = counts(case);
    let mut faults = faults(&counts, (!in_full).then_some(3));
    if !in_full {
        // Each point for one of the workers, another one each time.
        let mut places: Vec<String> = faults.iter().map(|fault| fault.place.clone()).collect();
        places.sort();
        places.dedup();
        let turn = |place: &str| places.iter().position(|known| known == place).unwrap_or(0) as u32 % WORKERS;
        faults.retain(|fault| fault.place == "calls" || fault.worker == turn(&fault.place));
    }
    let mut table: BTreeMap<(String, u32), BTreeMap<Fate, u32>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for fault in &faults {
        let outcome = case.job().fault(&fault.text).limit(Duration::from_secs(40)).run();
        let fate = match fate(&outcome, &undisturbed, case) {
            Fate::Named if !fault.may_end => Fate::Wrong,
            fate => fate,
        };
        if fate == Fate::Wrong {
            wrong.push(format!("{}\n{}", fault.text, outcome.describe()));
        }
        *table
            .entry((fault.place.clone(), fault.worker))
            .or_default()
            .entry(fate)
            .or_default() += 1;
    }
    print_table(case, &table);
    let missed = table.values().filter_map(|row| row.get(&Fate::NotMet)).sum::<u32>();
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
}

fn print_table(case: &Case, table: &BTreeMap<(String, u32), BTreeMap<Fate, u32>>) {
    println!("{}: survived / named loss / fault not met / wrong", case.name);
    let mut places: Vec<&String> = table.keys().map(|(place, _)| place).collect();
    places.dedup();
    for place in places {
        let cell = |worker: u32| {
            let row = table.get(&(place.clone(), worker));
            let count = |fate| row.and_then(|row| row.get(&fate)).copied().unwrap_or(0);
            let fates = [Fate::Survived, Fate::Named, Fate::NotMet, Fate::Wrong];
            fates.map(|fate| count(fate).to_string()).join("/")
        };
        let cells: Vec<String> = (0..WORKERS).map(cell).collect();
        println!("  {place:16} {}", cells.join("   "));
    }
}

fn short(case: Case, make: fn() -> Job) -> Case {
    Case { make, ..case }
}

#[test]
fn heat2d_survives_a_death_at_any_call() {
    let make = || {
        let arguments = [
            "60",
            "60",
            "30",
            "heat.field",
            "--print-every",
            "5",
            "--log",
            "heat.log",
        ];
        Job::new(place::example("heat2d"), &arguments).interval("7calls")
    };
    sweep(&short(programs::heat2d(), make));
}

#[test]
fn cg_survives_a_death_at_any_call() {
    let make = || {
        let arguments = ["12", "12", "2", "cg.solution", "--max-iterations", "30"];
        Job::new(place::example("cg"), &arguments).interval("9calls")
    };
    sweep(&short(programs::cg(), make));
}

#[test]
fn lammps_survives_a_death_at_any_call() {
    if let Some(case) = programs::lammps() {
        sweep(&short(case, programs::short_lammps));
    }
}
