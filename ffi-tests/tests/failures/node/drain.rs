//! A host is drained: its ranks leave the job at a checkpoint.

use super::hosts::assert_good;
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::TestProgram;
use ffi_tests::{Job, Launcher, Outcome, Trigger, paths};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Returns the lines in ascending order: ranks print at the same time.
fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Ranks that append lines to files and print lines.
///
/// The only checkpoint is that of the drain.
fn diaries() -> TestProgram {
    TestProgram {
        name: "diaries",
        tail: 0,
        files: &["diary.0", "diary.1", "diary.2", "diary.3"],
        canonical: sorted,
        make: || {
            let job = Job::new(paths::test_program("diaries"), &["30", "15", "all"]);
            job.interval("60s").launched_by(Launcher::Ckptd)
        },
    }
}

/// Runs `understudy drain NAME` on the first host; returns its status and output.
fn drain(hosts: &Hosts, name: &str) -> (Option<i32>, String) {
    let command = paths::product("understudy");
    let output = hosts
        .on(0, &[&command.to_string_lossy(), "drain", name])
        .output();
    let output = output.expect("understudy can be executed");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code(), text)
}

/// Returns true if a process of the job is on this host.
fn has_processes(hosts: &Hosts, host: usize) -> bool {
    let output = hosts.on(host, &["cat", "/proc/[0-9]*/cmdline"]).output();
    let output = output.expect("a command runs on the host");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.contains("ckptd") || lines.contains("diaries")
}

/// Drains the last host of a job.
///
/// Returns the status and the text of the command, and the outcome.
fn run_drained(slots: &[u32], spares: u32) -> (Option<i32>, String, Outcome) {
    let case = diaries();
    let answer = Rc::new(RefCell::new((None, String::new())));
    let answered = Rc::clone(&answer);
    let last = slots.len() - 1;
    let disturb = move |hosts: &Hosts| {
        assert!(has_processes(hosts, last), "no process is found");
        let (status, text) = drain(hosts, &hosts.name(last));
        let is_left = status == Some(0) && has_processes(hosts, last);
        assert!(!is_left, "a process is left on the drained host");
        *answered.borrow_mut() = (status, text);
        true
    };
    let job = case.job().hosts(slots).spares(spares);
    let outcome = job.disturb_hosts(Trigger::Lines(20), disturb).run();
    let (status, text) = answer.take();
    (status, text, outcome)
}

#[test]
fn a_host_is_drained_under_load() {
    if !Hosts::are_possible() {
        return;
    }
    let case = diaries();
    let undisturbed = native(case.job().hosts(&[2, 3]));
    // The only spare is on the host that leaves, so two processes are started on the first host.
    let (status, text, outcome) = run_drained(&[2, 3], 1);
    assert_good(&outcome, &undisturbed, &case, &[2, 3]);
    assert!(status == Some(0) && text.lines().count() == 1, "{text}");
    outcome.assert_line(&["n2 leaves the job", "[host-drain-requested]"]);
    outcome.assert_line(&["n2 has left the job", "[host-drained]"]);
    let is_loss = |line: &&str| line.contains("[host-lost]") || line.contains("may appear twice");
    assert_eq!(outcome.own_lines().into_iter().find(is_loss), None);
    assert_eq!(outcome.takeovers().len(), 2, "{:?}", outcome.own_lines());
}

#[test]
fn a_host_with_spares_only_leaves_without_a_checkpoint() {
    if !Hosts::are_possible() {
        return;
    }
    let case = diaries();
    let undisturbed = native(case.job().hosts(&[2, 2, 2]));
    let (status, text, outcome) = run_drained(&[2, 2, 2], 2);
    assert_good(&outcome, &undisturbed, &case, &[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(outcome.wall < Duration::from_secs(60));
}

#[test]
fn a_host_with_too_many_ranks_stays() {
    if !Hosts::are_possible() {
        return;
    }
    let case = diaries();
    let undisturbed = native(case.job().hosts(&[1, 3]));
    let (status, text, outcome) = run_drained(&[1, 3], 0);
    assert_good(&outcome, &undisturbed, &case, &[]);
    assert!(status == Some(3) && text.contains("too many"), "{text}");
    outcome.assert_line(&["n2 stays in the job", "[host-not-drained]"]);
}

#[test]
fn hosts_that_cannot_leave_are_refused() {
    if !Hosts::are_possible() {
        return;
    }
    let case = diaries();
    let refused = |hosts: &Hosts| {
        for (name, why) in [
            (hosts.name(0), "cannot be drained"),
            ("nowhere".to_owned(), "its hosts are"),
        ] {
            let (status, text) = drain(hosts, &name);
            assert!(status == Some(3) && text.contains(why), "{text}");
        }
        true
    };
    let job = case.job().hosts(&[2, 2]).spares(0);
    let outcome = job.disturb_hosts(Trigger::Lines(8), refused).run();
    let undisturbed = native(case.job().hosts(&[2, 2]));
    assert_good(&outcome, &undisturbed, &case, &[]);
}
