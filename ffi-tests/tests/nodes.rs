//! Jobs on several hosts (namespaces) that renew their MPI, started by `ckptd launch` or a plain mpirun: whoever dies, the same bytes; nothing is left on any host.

use ffi_tests::hosts::Hosts;
use ffi_tests::outcome::native;
use ffi_tests::programs::{self, Case};
use ffi_tests::{Job, Kill, Launcher, Outcome, Trigger, processes};
use std::time::Duration;

/// Two workers on each of three hosts; the last has room for spares too.
const SLOTS: [u32; 3] = [2, 2, 4];

fn spread(job: Job) -> Job {
    job.workers(6).spares(2).hosts(&SLOTS).launched_by(Launcher::Ckptd)
}

fn spread_by_mpirun(job: Job) -> Job {
    let job = job.workers(6).spares(2).hosts(&SLOTS);
    job.launched_by(Launcher::Mpirun)
}

/// The same output and files, and these parts taken over.
fn assert_good(outcome: &Outcome, undisturbed: &Outcome, case: &Case, mut taken_over: Vec<u32>) {
    println!("{:?}, recovery in {:?}", outcome.wall, outcome.slowest_recovery());
    outcome.assert_success();
    outcome.assert_like_after(undisturbed, case.files, case.canonical);
    let mut found = outcome.takeovers();
    found.sort_unstable();
    taken_over.sort_unstable();
    outcome.check(
        found == taken_over,
        &format!("parts taken over: {found:?} instead of {taken_over:?}"),
    );
}

/// What they have left is inherited on their host: their output does not come twice, and no buddy is needed.
#[test]
fn all_ranks_of_a_host_may_be_killed_at_once() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let outcome = spread(case.job())
        .kill(Kill::at(0, Trigger::Lines(15)))
        .kill(Kill::at(1, Trigger::Lines(15)))
        .run();
    assert_good(&outcome, &undisturbed, &case, vec![0, 1]);
    outcome.assert_nothing_left();
}

#[test]
fn a_worker_of_each_host_may_be_killed() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let fault = [1, 2, 4]
        .map(|rank| format!("kill rank={rank} at=cut.end epoch=4"))
        .join("; ");
    let outcome = spread(case.job()).interval("100calls").fault(&fault).run();
    assert_good(&outcome, &undisturbed, &case, vec![1, 2, 4]);
    outcome.assert_nothing_left();
}

/// The hosts' guardians find each other by mpirun.
#[test]
fn workers_die_under_a_plain_mpirun() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let fault = "kill rank=2 at=cut.end epoch=4; kill rank=0 at=cut.end epoch=6";
    let outcome = spread_by_mpirun(case.job()).interval("100calls").fault(fault).run();
    assert_good(&outcome, &undisturbed, &case, vec![0, 2]);
    outcome.assert_nothing_left();
}

/// Its workers did not print. Their copies are on other hosts.
#[test]
fn a_host_may_be_lost() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let undisturbed = native(spread(case.job()));
    let outcome = spread(case.job()).lose_host(Trigger::Lines(15), 1).run();
    assert_good(&outcome, &undisturbed, &case, vec![2, 3]);
    let told = |line: &&str| line.contains("is lost, with all of its processes");
    outcome.check(outcome.own_lines().iter().any(told), "the user is not told");
    outcome.assert_nothing_left();
}

/// Nobody would see how the job ends, so it does.
#[test]
fn a_launcher_that_is_killed_leaves_nothing_on_any_host() {
    if !Hosts::are_possible() {
        return;
    }
    let outcome = spread(programs::heat2d().job())
        .limit(Duration::from_secs(20))
        .watch(|ranks| {
            let guardian = ranks.get(&0).map(|rank| rank.parent);
            guardian.and_then(processes::parent).is_some_and(processes::kill)
        })
        .run();
    outcome.check(
        outcome.status.is_some_and(|status| !status.success()),
        "the job hangs, or is good",
    );
    outcome.assert_nothing_left();
}
