//! Children that the program forks, and that execute no other program.

use ffi_tests::native_runs::native;
use ffi_tests::paths::{self, Launcher};
use ffi_tests::{Job, run_directory};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds an MPI library with a device, which needs Open MPI's library by its path.
fn build_library(directory: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/devices/libmpi.c");
    let real = paths::libmpi();
    let compile = |arguments: &[&str], library: &str, source: &Path| {
        let mut command = Command::new("gcc");
        command.args(["-shared", "-fPIC", "-O1"]).args(arguments);
        command.arg("-o").arg(directory.join(library)).arg(source);
        if library == "libmpi.so.40" {
            command
                .arg("-Wl,--no-as-needed")
                .arg(directory.join("name.so"));
        }
        assert!(
            command.status().is_ok_and(|status| status.success()),
            "{library} cannot be compiled"
        );
    };
    // The linker stores the soname of a library that it links: a path in this case.
    let path = format!("-Wl,-soname,{}", real.display());
    compile(&[&path, "-x", "c"], "name.so", Path::new("/dev/null"));
    let define = format!("-DLIBMPI=\"{}\"", real.display());
    compile(
        &[&define, "-Wl,-soname,libmpi.so.40"],
        "libmpi.so.40",
        &source,
    );
}

/// Directory of the library, which is built once.
fn device_library() -> PathBuf {
    run_directory::filled_once("devices", build_library)
}

/// Children of survivors live before and after a failure.
///
/// No device can write after the MPI library has been reset, since no child keeps it open.
#[test]
fn a_child_keeps_no_descriptor_and_no_device_of_the_mpi_library() {
    let job = |mappings| {
        Job::new(paths::test_program("forked"), &["16", "0", mappings])
            .workers(3)
            .interval("5calls")
    };
    let library = device_library().display().to_string();
    // mpirun would put the directory of its own library first.
    let outcome = job("1")
        .launched_by(Launcher::Ckptd)
        .env("LD_LIBRARY_PATH", &library)
        .fault("kill rank=1 at=call:23")
        .run();
    outcome.assert_all_recovered(&native(job("0")), &[1]);
    outcome.assert_checks();
}
