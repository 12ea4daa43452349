//! Libraries that wrap MPI's procedures keep their place between the program and the layer.

use ffi_tests::shared::native;
use ffi_tests::{Job, Kill, Trigger};
use std::process::Command;

#[test]
fn a_profiling_library_sees_the_calls_of_the_program() {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/profiler.c");
    let (library, program) = (
        directory.path().join("libcounting.so"),
        directory.path().join("counted"),
    );
    let compile = |arguments: &[&str]| {
        let status = Command::new("mpicc").arg("-O1").args(arguments).status();
        assert!(status.expect("there is an mpicc on the PATH").success(), "mpicc fails");
    };
    let (library, program) = (library.to_string_lossy(), program.to_string_lossy());
    let there = directory.path().to_string_lossy();
    let search = format!("-Wl,-rpath,{there}");
    compile(&["-DLIBRARY", "-shared", "-fPIC", "-o", &library, source]);
    compile(&[
        "-o",
        &program,
        source,
        "-L",
        &there,
        "-Wl,--no-as-needed",
        "-lcounting",
        &search,
    ]);

    let job = || Job::new(&*program, &[]);
    let undisturbed = native(job());
    undisturbed.check(
        String::from_utf8_lossy(&undisturbed.stdout).contains("profile of rank 3: 60 calls"),
        "it is profiled without the layer",
    );
    let layered = job().run();
    layered.assert_success();
    layered.assert_same_lines(&undisturbed);
    let killed = job().kill(Kill::at(1, Trigger::Lines(25))).run();
    killed.assert_success();
    killed.assert_same_lines(&undisturbed);
    killed.assert_taken_over(&[1]);
}
