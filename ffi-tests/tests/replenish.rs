//! New spares join the running job in place of those that are used up.

use ffi_tests::outcome::native;
use ffi_tests::programs::{Case, cg, longer_heat2d};
use ffi_tests::{Job, Outcome};
use std::time::Duration;

fn job(case: &Case) -> Job {
    case.job()
        .env("UNDERSTUDY_REPLENISH", "1")
        .tcp()
        .limit(Duration::from_secs(60))
}

fn joined(outcome: &Outcome) -> Vec<u32> {
    let rank = |line: &str| {
        let (_, rest) = line.split_once("spare rank ")?;
        rest.strip_suffix(" has joined the job")?.parse().ok()
    };
    outcome.own_lines().into_iter().filter_map(rank).collect()
}

#[test]
fn with_one_spare_five_failures_are_survived() {
    let case = longer_heat2d();
    // The second is the death of the first newcomer in its part; the third, of another worker; the last, of rank 0.
    let fault = "kill rank=1 at=cut.end epoch=3; kill rank=5 at=cut.end epoch=8; kill rank=2 at=ship.half epoch=12; \
                 kill rank=0 at=cut.end epoch=16";
    // Rank 4 plays worker 1; rank 5 is the first newcomer. It gets a part when rank 4 dies.
    let outcome = job(&case)
        .fault(&format!("{fault}; kill rank=4 at=cut.end epoch=6"))
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[1, 1, 1, 2, 0]);
    assert_eq!(joined(&outcome), [5, 6, 7, 8, 9]);
    outcome.assert_nothing_left();
}

#[test]
fn newcomers_take_parts_in_a_program_with_libraries() {
    let case = cg();
    let outcome = job(&case)
        .fault("kill rank=3 at=cut.end epoch=3; kill rank=1 at=cut.end epoch=6")
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[3, 1]);
    assert_eq!(joined(&outcome), [5, 6]);
    outcome.assert_nothing_left();
}

#[test]
fn a_newcomer_that_dies_on_its_way_is_done_without() {
    let case = longer_heat2d();
    let outcome = job(&case)
        .fault("kill rank=1 at=cut.end epoch=3; kill rank=5 at=join.begin")
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[1]);
    let told = outcome
        .own_lines()
        .iter()
        .any(|line| line.contains("no new spare can join the job"));
    outcome.check(told, "nobody says that no spare has joined");
    outcome.assert_nothing_left();
}

#[test]
fn without_tcp_no_spare_can_join_and_a_line_says_so() {
    let case = longer_heat2d();
    let outcome = case
        .job()
        .env("UNDERSTUDY_REPLENISH", "1")
        .fault("kill rank=1 at=cut.end epoch=3")
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[1]);
    let told = outcome.own_lines().iter().any(|line| line.contains("btl `tcp`"));
    outcome.check(told, "nobody says why no spare has joined");
}
