//! Hangs on several hosts, and the replacement of a host.

use ffi_tests::living_processes::{has_printed, living_and_lines};
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Launcher, Outcome, Trigger, paths, processes};
use rustix::process::Signal;
use std::time::Duration;

/// Two workers on each of two hosts, and the spare on the second.
const SLOTS: [u32; 2] = [2, 3];
/// Workers of the second host.
const REMOTE: [u32; 2] = [2, 3];

fn job(case: &TestProgram) -> Job {
    case.job().hosts(&SLOTS).launched_by(Launcher::Ckptd)
}

fn assert_good(outcome: &Outcome, case: &TestProgram, replaced: &[u32]) {
    outcome.assert_success();
    outcome.assert_like_after(&native(job(case)), case.files, case.canonical);
    outcome.assert_replaced(replaced);
    outcome.assert_nothing_left();
}

#[test]
fn a_stopped_rank_of_another_host_is_reported_and_replaced() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let job = job(&case).env("UNDERSTUDY_HANG_AFTER", "2s");
    let mut is_stopped = false;
    let job = job
        .env("UNDERSTUDY_ON_HANG", "replace")
        .watch(move |ranks| {
            if !is_stopped && living_and_lines(ranks, "heat2d").1 >= 4 {
                is_stopped = processes::send(ranks[&REMOTE[1]].pid, Signal::STOP);
            }
            has_printed(ranks, "[recovered]")
        });
    let outcome = job.run();
    assert_good(&outcome, &case, &REMOTE[1..]);
    let words = ["rank 3 on ", "n2 is stopped (SIGSTOP)", "[rank-inactive]"];
    outcome.assert_line(&words);
}

#[test]
fn a_host_is_replaced_on_request() {
    if !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let replace = |hosts: &Hosts| {
        let command = paths::product("understudy");
        let request = |name: &str| {
            let words = [&*command.to_string_lossy(), "replace", name].map(str::to_owned);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = hosts.on(0, &words).output();
            let output = output.expect("understudy can be executed");
            let text = [output.stdout, output.stderr].concat();
            (
                output.status.code(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        };
        let (status, why) = request(&hosts.name(0));
        assert!(
            status == Some(3) && why.contains("cannot be replaced"),
            "{why}"
        );
        let (status, text) = request(&hosts.name(1));
        assert!(
            status == Some(0) && text.ends_with("is being replaced\n"),
            "{text}"
        );
        true
    };
    let outcome = job(&case).disturb_hosts(Trigger::Lines(15), replace).run();
    assert_good(&outcome, &case, &REMOTE);
    outcome.assert_line(&["n2 are killed", "[host-replacement-requested]"]);
    outcome.assert_line(&["n2 is lost", "[host-lost]"]);
}

/// The manager of the first host contains the leader, which no other host replaces.
#[test]
#[ignore = "a variant: make test-all"]
fn a_stopped_manager_of_the_first_host_ends_the_job() {
    if !Hosts::are_possible() {
        return;
    }
    let job = job(&programs::short_heat2d()).env("UNDERSTUDY_NODE_TIMEOUT", "5s");
    let stop = |hosts: &Hosts| hosts.stall_manager(0, Duration::from_secs(600));
    let outcome = job.disturb_hosts(Trigger::Lines(15), stop).run();
    outcome.assert_line(&["the job ends after 5 s", "[manager-silent]"]);
    let has_failed = outcome.status.is_some_and(|status| !status.success());
    outcome.check(has_failed, "the job hangs, or has ended with status 0");
    let is_gone = |line: &&str| line.contains("[manager-gone]");
    assert_eq!(outcome.own_lines().into_iter().filter(is_gone).count(), 1);
}
