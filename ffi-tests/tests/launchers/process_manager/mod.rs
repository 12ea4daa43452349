//! MPI programs without mpirun: the test is the process manager of the ranks, like ckptd.
//!
//! The ranks are of Open MPI or MPICH; one server runs generation after generation. The tests count
//! descriptors and memory of their process, so each needs a process of its own.

mod bench;
mod nodes;

use bench::{Bench, LIMIT};
use ffi_tests::{Random, Requirement, paths, skip};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use understudy_pmi::{MpiKind, MpiLibrary, Rank, RankAction, adopt};

const SIGKILL: i32 = 9;

/// Full name of a test of this module, as the test program expects it.
fn test_name(function: &str) -> String {
    let (_, module) = module_path!()
        .split_once("::")
        .expect("a module of the crate");
    format!("{module}::{function}")
}

/// Runs a test with MPICH's program, if MPICH is installed.
fn with_mpich(test: impl FnOnce(&Path)) {
    if let Some(program) = paths::mpich_program("world") {
        paths::wait_for_turn();
        test(&program);
    }
}

/// Runs all scenarios in one server, as in a daemon.
fn all_scenarios(bench: &mut Bench) {
    bench.undisturbed();
    a_rank_is_killed_in_its_work(bench);
    a_rank_is_killed_before_mpi_init(bench);
    a_rank_is_killed_in_mpi_init(bench);
    ranks_are_killed_at_random_moments(bench);
    an_abort_is_reported(bench);
    if bench.kind() == MpiKind::OpenMpi {
        two_ranks_are_killed_together(bench);
        the_survivors_begin_anew(bench);
    }
    nothing_grows(bench);
    bench.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn ranks_of_open_mpi_start_fail_and_restart() {
    let program = paths::test_program("world");
    paths::wait_for_turn();
    all_scenarios(&mut Bench::start(&program, 4));
}

/// MPICH's ranks spin while they wait, so there are only two.
#[test]
#[ignore = "a variant: make test-all"]
fn ranks_of_mpich_start_fail_and_restart() {
    // Only files of MPICH are compared: other jobs may create or remove other files meanwhile.
    let of_mpich = || {
        let names = paths::shared_memory()
            .into_iter()
            .map(|entry| entry.file_name());
        let is_its = |name: &OsString| {
            name.as_bytes().starts_with(b"mpich_") || name.as_bytes().starts_with(b"ucx_")
        };
        names.filter(is_its).collect::<BTreeSet<_>>()
    };
    with_mpich(|program| {
        let before = of_mpich();
        all_scenarios(&mut Bench::start(program, 2));
        let after = of_mpich();
        assert_eq!(
            after.difference(&before).collect::<Vec<_>>(),
            Vec::<&OsString>::new()
        );
    });
}

#[test]
#[ignore = "a variant: make test-all"]
fn open_mpis_ranks_of_two_nodes_meet_and_a_lost_node_is_noticed() {
    let program = paths::test_program("world");
    paths::wait_for_turn();
    nodes::two(&program, &[0, 1, 0, 1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn mpichs_ranks_of_two_nodes_meet_and_a_lost_node_is_noticed() {
    with_mpich(|program| nodes::two(program, &[0, 1]));
}

#[test]
#[ignore = "a part of other tests, which start it in a process for each node"]
fn as_one_of_two_nodes() {
    nodes::one();
}

fn a_rank_is_killed_in_its_work(bench: &mut Bench) {
    let mut run = bench.run(&["stay"]);
    run.wait_for_lines(bench.size() as usize);
    run.world.kill(Rank(1));
    assert!(!run.world.wait(LIMIT));
    let ended = bench.end(run);
    assert_eq!(ended[&Rank(1)].signal(), Some(SIGKILL));
    bench.undisturbed();
}

/// Runs another version of Open MPI and of libpmix: those of the distribution.
///
/// The programs were compiled for the project's version, which has an equal ABI.
#[test]
#[ignore = "a variant: make test-all"]
fn open_mpis_ranks_of_another_version_start_and_die() {
    let program = paths::test_program("world");
    let own = MpiLibrary::of(&program)
        .unwrap()
        .library
        .canonicalize()
        .unwrap();
    let others = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64/openmpi/lib",
        "/usr/lib64",
    ]
    .map(|place| Path::new(place).join("libmpi.so.40"));
    let other = others
        .iter()
        .find(|other| other.canonicalize().is_ok_and(|other| other != own));
    let Some(other) = other else {
        return skip(
            Requirement::Fortran,
            "the distribution's Open MPI is not installed, or is the one of the other tests",
        );
    };
    paths::wait_for_turn();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        &test_name("as_one_with_another_version"),
        "--ignored",
        "--nocapture",
    ]);
    command
        .env(ANOTHER, &program)
        .env("LD_LIBRARY_PATH", other.parent().unwrap());
    assert!(command.status().unwrap().success());
}

const ANOTHER: &str = "LAUNCH_TEST_ANOTHER";

#[test]
#[ignore = "a part of another test, which starts it with another version of Open MPI"]
fn as_one_with_another_version() {
    let Some(program) = std::env::var_os(ANOTHER) else {
        return;
    };
    let mut bench = Bench::start(Path::new(&program), 3);
    // Before Open MPI 5.0, the transport by shared memory was called "vader".
    bench
        .variables
        .push(("OMPI_MCA_btl", "self,vader,tcp".to_owned()));
    bench.undisturbed();
    a_rank_is_killed_in_its_work(&mut bench);
    a_rank_is_killed_before_mpi_init(&mut bench);
    two_ranks_are_killed_together(&mut bench);
    an_abort_is_reported(&mut bench);
    bench.assert_nothing_left();
}

fn is_connected(what: &RankAction) -> bool {
    *what == RankAction::Connected
}

/// The other ranks wait in MPI_Init for the killed rank.
fn a_rank_is_killed_before_mpi_init(bench: &mut Bench) {
    let mut run = bench.run(&["late", "1"]);
    for _ in 1..bench.size() {
        assert_ne!(bench.wait_for(&run.generation, is_connected), 1);
    }
    run.world.kill(Rank(1));
    assert!(!run.world.wait(LIMIT));
    assert_eq!(run.printed(), "");
    bench.end(run);
    bench.undisturbed();
}

/// The killed rank waits in MPI_Init for a rank that starts late.
fn a_rank_is_killed_in_mpi_init(bench: &mut Bench) {
    let mut run = bench.run(&["late", "1"]);
    for _ in 1..bench.size() {
        bench.wait_for(&run.generation, is_connected);
    }
    run.world.kill(Rank(0));
    assert!(!run.world.wait(LIMIT));
    let ended = bench.end(run);
    assert_eq!(ended[&Rank(0)].signal(), Some(SIGKILL));
    bench.undisturbed();
}

fn ranks_are_killed_at_random_moments(bench: &mut Bench) {
    let mut random = Random::announced("ranks_are_killed_at_random_moments");
    for _ in 0..15 {
        let mut run = bench.run(&["stay"]);
        std::thread::sleep(Duration::from_millis(random.below(150)));
        run.world
            .kill(Rank(random.below(u64::from(bench.size())) as u32));
        assert!(!run.world.wait(LIMIT));
        bench.end(run);
    }
    bench.undisturbed();
}

/// Kills two ranks, one of which waits for the other one in MPI_Finalize.
///
/// Libpmix is busy, so that it detects both failures at once.
fn two_ranks_are_killed_together(bench: &mut Bench) {
    let mut run = bench.run(&["stay", "1"]);
    run.wait_for_lines(bench.size() as usize);
    std::thread::sleep(Duration::from_millis(200));
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let busy = move |_| assert!(may_go_on.recv().is_err());
    bench.server.modex(&run.generation.name, Rank(0), busy);
    for rank in [0, 1] {
        run.world.kill(Rank(rank));
    }
    assert!(!run.world.wait(LIMIT));
    drop(go_on);
    bench.end(run);
    bench.undisturbed();
}

fn an_abort_is_reported(bench: &mut Bench) {
    let run = bench.run(&["abort"]);
    let is_abort = |what: &RankAction| matches!(what, RankAction::Abort { status: 7, .. });
    assert_eq!(bench.wait_for(&run.generation, is_abort), 1);
    bench.end(run);
    bench.undisturbed();
}

/// After a failure, the survivors join the next generation.
///
/// The survivors close their connections without PMIx_Finalize, and initialise MPI with a new
/// connection.
fn the_survivors_begin_anew(bench: &mut Bench) {
    let variables = tempfile::tempdir().unwrap();
    let mut old = bench.run(&["again", variables.path().to_str().unwrap()]);
    old.wait_for_lines(bench.size() as usize);
    old.world.kill(Rank(1));
    let new = bench.begin();
    // The old generation ends while its processes still have connections.
    bench.server.end(&old.generation.name).unwrap();
    let output = bench.output(&old.generation);
    let mut command = bench.command(&output, &[]);
    let mut joining = bench.command(&output, &[]);
    adopt(
        &mut joining,
        bench.server.identity(&new.name, Rank(1)).unwrap(),
    );
    let mut joining = joining.spawn().unwrap();
    for rank in (0..bench.size()).filter(|&rank| rank != 1) {
        adopt(
            &mut command,
            bench.server.identity(&new.name, Rank(rank)).unwrap(),
        );
        let own = command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let home = std::env::var_os("HOME").unwrap();
        let own = own.chain([(OsStr::new("HOME"), home.as_os_str())]);
        let own = own.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
        let path = variables.path().join(rank.to_string());
        std::fs::write(path.with_extension("new"), own.collect::<Vec<_>>().join(&0)).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    }
    old.wait_for_lines(2 * bench.size() as usize);
    assert!(joining.wait().unwrap().success());
    let mut left = bench.size() as usize;
    while left > 0 {
        std::thread::sleep(Duration::from_millis(5));
        left = bench.size() as usize - old.world.poll().len();
    }
    let printed = old.printed();
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    // Each line occurs twice: once in each generation.
    assert!(lines.chunks(2).all(|pair| pair[0] == pair[1]), "{printed}");
    let ended = old.world.poll();
    assert!(
        ended
            .iter()
            .all(|(&rank, status)| status.success() == (rank != Rank(1))),
        "{ended:?}"
    );
    std::fs::remove_file(output).unwrap();
    bench.server.end(&new.name).unwrap();
    bench.undisturbed();
}

/// Returns the open descriptors and resident memory in KiB (proc_pid_status(5)) of this process.
fn used() -> (usize, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kibibytes = line.split_whitespace().next().unwrap().parse().unwrap();
    (
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
        kibibytes,
    )
}

fn nothing_grows(bench: &mut Bench) {
    for _ in 0..10 {
        bench.undisturbed();
    }
    let before = used();
    for _ in 0..50 {
        bench.undisturbed();
    }
    let after = used();
    println!("descriptors and KiB before 50 generations {before:?}, after {after:?}");
    assert_eq!(after.0, before.0);
    assert!(
        after.1 <= before.1 + 512,
        "{} KiB more after 50 generations",
        after.1 - before.1
    );
}
