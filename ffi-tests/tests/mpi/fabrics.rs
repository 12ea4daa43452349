//! Nodes with a network device that writes into memory by itself.
//!
//! The device is a description in a mount of a fake `/sys/class`; libraries find no such hardware
//! and choose what they choose on this machine.

use ffi_tests::kill::fault_at_commit;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Requirement, paths, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ARGUMENTS: [&str; 3] = ["60", "60", "400"];

/// Describes an active port of InfiniBand, beside the network devices of this machine.
fn describe_device(class: &Path) {
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

/// Runs a program that loses a worker on a node with a device.
///
/// Checks the output. `job` completes the job of the undisturbed run. Returns what understudy has
/// printed; `None` if mounts are not permitted.
fn run_with_device(program: &Path, job: fn(Job) -> Job, options: &[&str]) -> Option<String> {
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
    let fault = fault_at_commit(1, 3);
    let program = program.to_string_lossy();
    let start = ["run", "-n", "2", "--interval", "40calls", "--fault", &fault];
    let words = [&start, options, &["--", &program], &ARGUMENTS].concat();
    let output = command(&words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert!(errors.contains("[recovered]"), "{errors}");
    let undisturbed = native(job(Job::new(&*program, &ARGUMENTS).workers(2)));
    assert!(output.stdout == undisturbed.stdout, "{errors}");
    Some(errors)
}

fn assert_lines(errors: &str, expected: &[&str]) {
    for id in ["[fabric-not-used]", "[fabric-compared]"] {
        let count = errors.matches(id).count();
        let wanted = usize::from(expected.contains(&id));
        assert_eq!(count, wanted, "{id}: {errors}");
    }
    if !expected.is_empty() {
        let device = "mlx5_0 (InfiniBand, 200 Gb/sec (4X HDR))";
        assert!(errors.contains(device), "{errors}");
    }
}

#[test]
fn tcp_is_not_used_silently() {
    if let Some(errors) = run_with_device(&paths::example("heat2d"), |job| job, &[]) {
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
#[test]
#[ignore = "a variant: make test-all"]
fn with_landings_not_all_memory_is_compared() {
    let options = ["--fabric", "native", "--tracking", "landings"];
    if let Some(errors) = run_with_device(&paths::example("heat2d"), |job| job, &options) {
        assert_lines(&errors, &[]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn tcp_that_is_set_is_used_without_a_line() {
    let options = ["--fabric", "tcp"];
    if let Some(errors) = run_with_device(&paths::example("heat2d"), |job| job, &options) {
        assert_lines(&errors, &[]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn mpich_uses_tcp_unless_the_native_fabric_is_chosen() {
    let Some(heat) = paths::mpich_example("heat2d") else {
        return;
    };
    let Some(errors) = run_with_device(&heat, Job::of_mpich, &[]) else {
        return;
    };
    assert_lines(&errors, &["[fabric-not-used]"]);
    let options = ["--fabric", "native"];
    let errors = run_with_device(&heat, Job::of_mpich, &options).expect("mounts are permitted");
    assert_lines(&errors, &["[fabric-compared]"]);
}
