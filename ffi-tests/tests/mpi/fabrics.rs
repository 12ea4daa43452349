//! Nodes with a network device that writes into memory by itself.
//!
//! The device is a description in a mount of a fake `/sys/class`; libraries find no such hardware
//! and choose what they choose on this machine.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Launcher, Requirement, fault_at_commit, paths, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use understudy_formats::events::{Kind, NETWORK};

/// Description of the device in messages.
const DEVICE: &str = "mlx5_0 (InfiniBand, 200 Gb/sec (4X HDR))";
const ARGUMENTS: [&str; 3] = ["60", "60", "400"];

/// Describes an active port of InfiniBand, beside the network devices of this machine.
pub fn describe_device(class: &Path) {
    let port = class.join("infiniband/mlx5_0/ports/1");
    fs::create_dir_all(&port).expect("writable");
    for (file, text) in [
        ("state", "4: ACTIVE\n"),
        ("link_layer", "InfiniBand\n"),
        ("rate", "200 Gb/sec (4X HDR)\n"),
    ] {
        fs::write(port.join(file), text).expect("writable");
    }
    fs::create_dir(class.join("net")).expect("writable");
    for device in fs::read_dir("/sys/class/net").expect("sysfs").flatten() {
        let target = fs::read_link(device.path()).expect("a link");
        symlink(target, class.join("net").join(device.file_name())).expect("writable");
    }
}

/// A program that loses a worker.
struct LosingProgram<'a> {
    program: &'a Path,
    arguments: &'a [&'a str],
    workers: u32,
    interval: &'a str,
    fault: &'a str,
    /// Completes the job of the undisturbed run.
    job: fn(Job) -> Job,
}

/// Runs `heat2d` of an MPI library, which loses a worker, like [`run_program_with_device`].
fn run_with_device(program: &Path, job: fn(Job) -> Job, options: &[&str]) -> Option<String> {
    let heat = LosingProgram {
        program,
        arguments: &ARGUMENTS,
        workers: 2,
        interval: "40calls",
        fault: &fault_at_commit(1, 3),
        job,
    };
    run_program_with_device(&heat, options)
}

/// Runs a program on a node with a device, and checks the output.
///
/// Returns what understudy has printed; `None` if mounts are not permitted.
fn run_program_with_device(losing: &LosingProgram<'_>, options: &[&str]) -> Option<String> {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let class = work.path().join("class");
    describe_device(&class);
    let command = |words: &[&str]| -> Output {
        Command::new("unshare")
            .args(["--mount", "sh", "-c"])
            .arg("mount --bind \"$0\" /sys/class && exec \"$@\"")
            .arg(&class)
            .arg(paths::product("understudy"))
            .args(words)
            .current_dir(work.path())
            .stdin(Stdio::null())
            .output()
            .expect("unshare(1) is there")
    };
    if !command(&["--version"]).status.success() {
        skip(Requirement::Namespaces, "mounts are not permitted");
        return None;
    }
    let program = losing.program.to_string_lossy();
    let (workers, interval) = (losing.workers.to_string(), losing.interval);
    let start = ["run", "-n", &workers, "--interval", interval, "--fault"];
    let program_words = [&["--", &*program], losing.arguments].concat();
    let words = [&start, &[losing.fault][..], options, &program_words].concat();
    let output = command(&words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert!(errors.contains("[recovered]"), "{errors}");
    let job = Job::new(&*program, losing.arguments).workers(losing.workers);
    let undisturbed = native((losing.job)(job));
    assert!(output.stdout == undisturbed.stdout, "{errors}");
    Some(errors)
}

/// Fails unless the lines of the network are those `expected` by their identifiers.
fn assert_lines(errors: &str, expected: &[&str]) {
    for id in ["[fabric-not-used]", "[fabric-compared]"] {
        let count = errors.matches(id).count();
        let wanted = usize::from(expected.contains(&id));
        assert_eq!(count, wanted, "{id}: {errors}");
    }
    if !expected.is_empty() {
        assert!(errors.contains(DEVICE), "{errors}");
    }
}

/// Runs a program that loses a worker on two hosts with a device each.
///
/// Checks the output and the recorded network.
///
/// Returns what understudy has printed; `None` if hosts are not possible.
fn run_on_hosts(fabric: &str) -> Option<String> {
    if !Hosts::are_possible() {
        return None;
    }
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let class = directory.path().join("class");
    describe_device(&class);
    let script = directory.path().join("start");
    let class = class.display();
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {class} /sys/class && exec \"$@\"' \
         sh \"$@\"\n"
    );
    paths::script(&script, &text);
    let job = || Job::new(paths::example("heat2d"), &ARGUMENTS).workers(2);
    let on_hosts = job()
        .launched_by(Launcher::Ckptd)
        .hosts(&[1, 2])
        .interval("40calls")
        .env("UNDERSTUDY_FABRIC", fabric)
        .fault(&fault_at_commit(1, 3))
        .started_by(&script);
    let outcome = on_hosts.run();
    outcome.assert_recovered(&native(job()), &[], &[1]);
    let is_network = |kind: &Kind| match kind {
        Kind::Config { settings } => settings.iter().any(|(name, value)| {
            name == NETWORK && *value == format!("TCP by ob1, instead of {DEVICE}")
        }),
        _ => false,
    };
    let is_recorded = outcome.events(0).iter().any(|it| is_network(&it.kind));
    outcome.check(is_recorded, "the network is not recorded");
    Some(outcome.stderr.clone())
}

#[test]
fn tcp_is_not_used_silently() {
    if let Some(errors) = run_on_hosts("auto") {
        assert_lines(&errors, &["[fabric-not-used]"]);
    }
}

#[test]
fn with_the_native_fabric_all_memory_is_compared() {
    let options = ["--fabric", "native"];
    if let Some(errors) = run_with_device(&paths::example("heat2d"), |job| job, &options) {
        assert_lines(&errors, &["[fabric-compared]"]);
    }
}

/// A site that has accepted its network may choose this tracking.
///
/// The device hides what the library writes, so the output is right only if memory is compared that
/// MPI calls receive to. The comparison of all memory would print a line.
#[test]
#[ignore = "a variant: make test-all"]
fn with_landings_not_all_memory_is_compared() {
    let options = ["--fabric", "native", "--tracking", "landings"];
    let landings = LosingProgram {
        program: &paths::test_program("landings"),
        arguments: &["20", "1"],
        workers: 3,
        interval: "17calls",
        fault: &format!("blind; {}", fault_at_commit(1, 9)),
        job: |job| job,
    };
    if let Some(errors) = run_program_with_device(&landings, &options) {
        assert_lines(&errors, &[]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn tcp_that_is_set_is_used_without_a_line() {
    if let Some(errors) = run_on_hosts("tcp") {
        assert_lines(&errors, &[]);
    }
}

/// Ranks of one node exchange messages through its memory.
#[test]
#[ignore = "a variant: make test-all"]
fn mpich_uses_tcp_unless_the_native_fabric_is_chosen() {
    let Some(heat) = paths::mpich_example("heat2d") else {
        return;
    };
    let Some(errors) = run_with_device(&heat, Job::of_mpich, &[]) else {
        return;
    };
    assert_lines(&errors, &[]);
    let options = ["--fabric", "native"];
    let errors = run_with_device(&heat, Job::of_mpich, &options).expect("mounts are permitted");
    assert_lines(&errors, &["[fabric-compared]"]);
}
