//! Replicas that outlive their process, under ckptd's own launcher.
//!
//! On one node, any set of workers may fail together.

use ffi_tests::living_processes::{living_and_lines, manager};
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::paths;
use ffi_tests::processes::{self, ResourceUse};
use ffi_tests::programs::{self, TestProgram, heat2d};
use ffi_tests::reduced_replicas::{self, ALL_REDUCED, LOST};
use ffi_tests::{
    Job, Kill, KillScope, Launcher, Outcome, Trigger, fault_at_commit, is_thorough, variants,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use understudy_formats::events::Kind;

fn job() -> Job {
    under_ckptd(&heat2d())
}

fn under_ckptd(case: &TestProgram) -> Job {
    case.job().launched_by(Launcher::Ckptd)
}

/// Kills the processes that `choose` selects, all at once, `times` times.
///
/// Before each kill, `lines` lines are printed, and at least one of them after the previous kill:
/// only then has a new process taken over as a worker.
fn killed(
    job: Job,
    times: usize,
    lines: usize,
    choose: impl Fn(&BTreeMap<u32, u32>) -> Vec<u32> + 'static,
) -> Job {
    /// Lines that may be in flight when their process is killed.
    const LATE: usize = 2;
    let (mut done, mut least) = (0, 0);
    job.watch(move |first| {
        let (living, printed) = living_and_lines(first, "heat2d");
        if printed < least.max(lines * (done + 1)) || choose(&living).is_empty() {
            return false;
        }
        least = printed + LATE;
        let victims = choose(&living);
        assert!(
            victims.into_iter().all(processes::kill),
            "a process has failed before the kill"
        );
        done += 1;
        done == times
    })
}

/// Selects the processes with these ranks, if all of them live.
fn these(ranks: &'static [u32]) -> impl Fn(&BTreeMap<u32, u32>) -> Vec<u32> {
    move |living| {
        let found: Vec<u32> = ranks
            .iter()
            .filter_map(|rank| living.get(rank).copied())
            .collect();
        if found.len() == ranks.len() {
            found
        } else {
            Vec::new()
        }
    }
}

/// Selects all living processes, if there are `count`.
fn all(count: usize) -> impl Fn(&BTreeMap<u32, u32>) -> Vec<u32> {
    move |living| match living.len() == count {
        true => living.values().copied().collect(),
        false => Vec::new(),
    }
}

#[test]
fn a_worker_and_its_buddy_may_fail_together() {
    // Three of four workers fail, so that the buddy is among them; there is one spare.
    let outcome = heat2d().assert_undisturbed(killed(job(), 1, 15, these(&[1, 2, 3])));
    outcome.assert_replaced(&[1, 2, 3]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_and_its_buddy_may_fail_together_without_a_spare() {
    let job = job().spares(0);
    let outcome = heat2d().assert_undisturbed(killed(job, 1, 15, these(&[1, 2, 3])));
    outcome.assert_replaced(&[1, 2, 3]);
}

#[test]
fn all_processes_may_die_at_once() {
    if is_thorough() {
        let job = job().killed_as_a_whole(Trigger::Lines(15), KillScope::Ranks);
        heat2d().assert_undisturbed(job);
    }
    heat2d().assert_undisturbed(killed(job().spares(0), 3, 9, all(4)));
}

#[test]
fn a_job_of_one_worker_is_protected() {
    let one = |case: &TestProgram| under_ckptd(case).workers(1).spares(0);
    // A kill follows only after further lines, so the program must print enough lines after the
    // third kill, on a fast machine, too.
    let lasting = TestProgram {
        name: "heat2d, lasting",
        make: || programs::heat2d_of("240", "6000", "30").interval("50calls"),
        ..heat2d()
    };
    let outcome = lasting.assert_undisturbed(killed(one(&lasting), 4, 4, all(1)));
    outcome.check(outcome.recoveries() >= 4, "it was not recovered");
    let one = || one(&heat2d());
    heat2d().assert_undisturbed(one().spares(1).fault("kill rank=0 at=commit.end epoch=2"));
}

#[test]
fn a_worker_may_fail_at_any_moment_of_a_checkpoint_together_with_its_buddy() {
    for point in variants(
        ["commit.begin", "ship.begin", "capture.end", "commit.end"],
        1,
    ) {
        let fault = format!(
            "kill rank=1 at={point} epoch=3 delay=40ms; kill rank=2 at={point} epoch=3 delay=40ms"
        );
        heat2d().assert_undisturbed(job().fault(&fault));
        let fault =
            [0, 1, 2, 3].map(|rank| format!("kill rank={rank} at={point} epoch=3 delay=40ms"));
        heat2d().assert_undisturbed(job().spares(0).fault(&fault.join("; ")));
    }
}

#[test]
fn a_replacement_may_fail_before_it_has_taken_over() {
    for stage in variants(
        ["load", "agree", "fetch", "replace", "rebuild", "reprotect"],
        1,
    ) {
        // The spare replaces a worker and fails; a new process replaces the spare. Both take over
        // the same persistent replica store, one after the other.
        let fault = format!(
            "kill rank=1 at=commit.end epoch=3 delay=40ms; kill rank=2 at=commit.end epoch=3 \
             delay=40ms; kill rank=4 at={stage}.end"
        );
        heat2d().assert_undisturbed(job().fault(&fault));
    }
}

/// Returns the number of replicas at buddies that the job of an outcome has chosen.
fn chosen_copies(outcome: &Outcome) -> String {
    let records = outcome.events(0);
    let settings = records.iter().find_map(|record| match &record.kind {
        Kind::Config { settings } => Some(settings),
        _ => None,
    });
    let settings = settings.expect("rank 0 writes its settings");
    let copies = settings
        .iter()
        .find(|(name, _)| name == "copies of each worker");
    copies.expect("the number is recorded").1.clone()
}

/// Own replicas suffice on one node by default, unless they end with their processes.
#[test]
fn workers_on_one_node_store_no_replicas_for_each_other() {
    let fault = [1, 2].map(|rank| fault_at_commit(rank, 3)).join("; ");
    let outcome = heat2d().assert_undisturbed(job().fault(&fault));
    outcome.assert_taken_over(&[1, 2]);
    assert_eq!(chosen_copies(&outcome), "0");
    let unnamed = heat2d().assert_undisturbed(job().fault("pretend no-memfd"));
    assert_eq!(chosen_copies(&unnamed), "1");
    let replayed = heat2d().assert_undisturbed(job().env("UNDERSTUDY_STATIC", "replay"));
    assert_eq!(chosen_copies(&replayed), "1");
}

#[test]
fn workers_on_several_nodes_store_replicas_for_each_other() {
    if !Hosts::are_possible() {
        return;
    }
    let outcome = heat2d().assert_undisturbed(job().hosts(&[3, 2]));
    assert_eq!(chosen_copies(&outcome), "1");
}

#[test]
fn a_damaged_copy_of_a_dead_process_is_replaced_by_its_buddys() {
    let fault = "corrupt rank=1 at=commit.end epoch=3 copy=own; kill rank=1 at=cut.begin epoch=4";
    let outcome = heat2d().assert_undisturbed(job().env("UNDERSTUDY_COPIES", "1").fault(fault));
    outcome.check(
        outcome
            .stderr
            .contains("the replica of worker 1 at rank 4 is not used"),
        "the damaged replica was used",
    );
    outcome.check(
        outcome.takeovers() == [1],
        "not exactly worker 1 was replaced",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn copies_without_static_data_are_fetched_as_ever() {
    let case = programs::sem();
    let job = reduced_replicas::job(&case).launched_by(Launcher::Ckptd);
    let outcome = case.assert_undisturbed(job.kill(Kill::at(1, ALL_REDUCED)));
    outcome.check(
        outcome.takeovers() == [1],
        "not exactly worker 1 was replaced",
    );
}

/// All workers are killed when their replicas are reduced: the job ends.
///
/// A replacement cannot take over a replica without static data.
#[test]
fn without_static_data_in_the_copies_the_death_of_all_ends_the_job() {
    let job = reduced_replicas::job(&heat2d()).launched_by(Launcher::Ckptd);
    let at_once = |job: Job, worker| job.kill(Kill::at(worker, ALL_REDUCED));
    let outcome = (0..4).fold(job, at_once).run();
    outcome.assert_status(LOST);
    outcome.assert_single_line(&["the job cannot be recovered"]);
    outcome.assert_nothing_left();
}

/// Arguments for a field that is printed in a short time.
const SMALL: [&str; 8] = [
    "100",
    "100",
    "5000",
    "heat.field",
    "--print-every",
    "50",
    "--log",
    "heat.log",
];
/// Number of failures, and number of failures after which resource use may no longer grow.
const DEATHS: [usize; 2] = [26, 6];
/// Number of successive failures over which the number of descriptors is sampled.
const SAMPLES: usize = 6;
/// Permitted growth: KiB of memory, number of mappings.
const LIMITS: (u64, usize) = (2048, 6);

#[test]
#[ignore = "a variant: make test-all"]
fn nothing_grows_from_death_to_death() {
    let case = TestProgram {
        name: "heat2d, small",
        make: || Job::new(paths::example("heat2d"), &SMALL).interval("20calls"),
        ..heat2d()
    };
    let seen: Arc<Mutex<Vec<[ResourceUse; 2]>>> = Arc::default();
    let seen_too = Arc::clone(&seen);
    let [deaths, early] = DEATHS;
    // Worker 0 survives; the oldest of the other processes is killed.
    let job = under_ckptd(&case)
        .workers(3)
        .spares(0)
        .limit(Duration::from_secs(200));
    let mut done = 0;
    let job = job.watch(move |first| {
        let (living, printed) = living_and_lines(first, "heat2d");
        if living.len() < 3 || printed < 3 * (done + 1) {
            return false;
        }
        let Some(manager) = manager(first) else {
            return false;
        };
        let uses =
            [manager, living[&0]].map(|pid| processes::resource_use(pid).unwrap_or_default());
        seen_too.lock().expect("no thread has failed").push(uses);
        let oldest_but_first = living.values().nth(1).copied();
        assert!(
            oldest_but_first.is_some_and(processes::kill),
            "the process has failed before the kill"
        );
        done += 1;
        done == deaths
    });
    let outcome = case.assert_undisturbed(job);
    let seen = seen.lock().expect("no thread has failed");
    outcome.check(seen.len() == deaths, "there were fewer failures");
    for (at, who) in ["the node manager", "worker 0"].into_iter().enumerate() {
        let (first, last) = (seen[early][at], seen[deaths - 1][at]);
        println!(
            "{who}: {first:?}, {} deaths later {last:?}",
            deaths - 1 - early
        );
        let all: Vec<usize> = seen.iter().map(|uses| uses[at].descriptors).collect();
        println!("{who}: descriptors {all:?}");
        // A sample may be taken while one more descriptor is open for a file, or while most are
        // closed for a recovery.
        let usual = |samples: &[usize]| {
            let mut samples = samples.to_vec();
            samples.sort_unstable();
            samples[SAMPLES / 2]
        };
        let [before, after] = [&all[early..][..SAMPLES], &all[deaths - SAMPLES..]].map(usual);
        assert!(after <= before, "{who}: descriptors");
        assert!(last.memory <= first.memory + LIMITS.0, "{who}: memory");
        assert!(
            last.mappings <= first.mappings + LIMITS.1,
            "{who}: mappings"
        );
    }
}
