//! Ports, names, and connections between processes of a job.
//!
//! MPI libraries differ in their results for a port that does not exist, and in their name servers.
//! So the program checks the results itself, and runs with failures are compared with an
//! undisturbed run under understudy.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::{Job, Outcome, Verdicts, is_thorough, paths, variants};
use std::path::Path;

const ARGUMENTS: [&str; 2] = ["4", "4"];

fn job(program: &Path) -> Job {
    Job::new(program, &ARGUMENTS).interval("5calls")
}

fn undisturbed(job: Job) -> Outcome {
    let outcome = job.run();
    outcome.assert_success();
    let text = String::from_utf8_lossy(&outcome.stdout);
    outcome.check(
        text.contains("together") && !text.contains("FAILED"),
        "a check of the program has failed",
    );
    outcome.assert_nothing_left();
    outcome
}

/// Workers on both sides of a connection fail, in the calls that connect and later.
#[test]
fn a_worker_of_a_connecting_program_fails() {
    let make = || job(&paths::test_program("ports"));
    let expected = undisturbed(make());
    let mut verdicts = Verdicts::default();
    let epochs = [
        (1, 2),
        (3, 3),
        (2, 4),
        (0, 5),
        (1, 3),
        (3, 6),
        (0, 2),
        (2, 7),
    ];
    for (rank, epoch) in variants(epochs, 1) {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = make().fault(&fault).run();
        verdicts.judge(&fault, || outcome.assert_recovered(&expected, &[], &[rank]));
    }
    verdicts.assert_all_good();
}

/// Cuts can occur only in calls that wait to connect, a probe, and a receive.
#[test]
fn a_cut_falls_while_workers_wait_to_connect() {
    let arguments = ["3", "2", "120"];
    let make = || Job::new(paths::test_program("ports"), &arguments).interval("8ms");
    let expected = undisturbed(make());
    let mut verdicts = Verdicts::default();
    for (rank, epoch) in variants([(0, 6), (1, 9), (2, 7), (1, 5), (0, 11), (3, 8)], 1) {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = make().fault(&fault).run();
        verdicts.judge(&fault, || outcome.assert_recovered(&expected, &[], &[rank]));
    }
    verdicts.assert_all_good();
}

/// Ranks 0 and 2 are on the first host, 1 and 3 on the second.
///
/// Each rank connects to ranks of its own host and of the other host.
fn spread(job: Job) -> Job {
    job.hosts(&[3, 3]).map_by("node")
}

#[test]
fn workers_of_a_connecting_program_fail_on_several_hosts() {
    if !Hosts::are_possible() {
        return;
    }
    let make = || job(&paths::test_program("ports"));
    // The output does not depend on the hosts.
    let expected = undisturbed(make());
    let mut verdicts = Verdicts::default();
    if is_thorough() {
        verdicts.judge("undisturbed", || {
            undisturbed(spread(make())).assert_like(&expected, &[]);
        });
    }
    for (rank, epoch) in variants([(1, 3), (0, 4), (3, 2), (2, 6), (1, 7), (3, 5)], 1) {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = spread(make()).fault(&fault).run();
        verdicts.judge(&fault, || outcome.assert_recovered(&expected, &[], &[rank]));
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_cut_falls_while_workers_of_several_hosts_wait_to_connect() {
    if !Hosts::are_possible() {
        return;
    }
    let arguments = ["3", "2", "120"];
    let make = || Job::new(paths::test_program("ports"), &arguments).interval("20ms");
    let expected = undisturbed(make());
    let mut verdicts = Verdicts::default();
    for (rank, epoch) in variants([(1, 6), (0, 9), (3, 5), (2, 7)], 1) {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = spread(make()).fault(&fault).run();
        verdicts.judge(&fault, || outcome.assert_recovered(&expected, &[], &[rank]));
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_of_mpich_dies() {
    let Some(program) = paths::mpich_program("ports") else {
        return;
    };
    let make = || job(&program).workers(2).of_mpich();
    let expected = undisturbed(make());
    let outcome = make().fault("kill rank=1 at=cut.end epoch=4").run();
    outcome.assert_recovered(&expected, &[], &[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_mpich_on_one_of_several_hosts_dies() {
    let Some(program) = paths::mpich_program("ports").filter(|_| Hosts::are_possible()) else {
        return;
    };
    let make = || job(&program).workers(2).of_mpich();
    let spread = || make().hosts(&[1, 2]).ucx_by_tcp();
    let expected = undisturbed(make());
    for rank in variants([1, 0], 1) {
        let outcome = spread()
            .fault(&format!("kill rank={rank} at=cut.end epoch=4"))
            .run();
        outcome.assert_recovered(&expected, &[], &[rank]);
    }
}
