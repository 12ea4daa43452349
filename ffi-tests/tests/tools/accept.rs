//! `understudy accept` on nodes of a toy cluster, and with defects that it must find.

use crate::mpi::fabrics::describe_device;
use ffi_tests::command::UnderstudyCommand;
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::slurm_installation::Slurm;
use ffi_tests::{page_scripts, paths};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Page whose batch script the tests run.
const PAGE: &str = "docs/operate/administrators.md";

fn verdicts(report: &str, jobs: &str) -> Vec<String> {
    let rows = report.lines().filter(|line| line.contains(jobs));
    rows.map(str::to_owned).collect()
}

/// Result of the page's script in an allocation of two nodes.
struct Run {
    is_success: bool,
    /// The report, and the messages.
    report: String,
    page: String,
    /// Number of files and directories that are left.
    left: usize,
}

/// Runs the page's script in an allocation of two nodes, of which one is lost.
///
/// `faults` act in jobs over the native network. Returns `None` if there is no Slurm.
fn acceptance(prepare: impl FnOnce(&Hosts), faults: &str) -> Option<Run> {
    if !Slurm::is_there() || !Hosts::are_possible() {
        return None;
    }
    paths::wait_for_turn();
    let hosts = Hosts::new(&[0, 3, 3]).expect("hosts are possible");
    prepare(&hosts);
    let slurm = Slurm::on(&hosts, &[]);
    let work = hosts.directory().join("work");
    std::fs::create_dir(&work).expect("the directory is writable");
    let yields = ("OMPI_MCA_mpi_yield_when_idle", "1");
    let variables = [yields, ("UNDERSTUDY_FAULT", faults)];
    let variables = match faults {
        "" => &variables[..1],
        _ => &variables[..],
    };
    let script = page_scripts::below(PAGE, "## Acceptance").remove(0);
    let result = slurm.run_script(&hosts, &work, &script, variables);
    let report = format!("{}\n{}", result.stdout, result.stderr);
    println!("{report}");
    assert!(report.contains("Slurm has granted 2 hosts"), "{report}");
    assert_eq!(hosts.shared_memory(), Vec::<String>::new());
    Some(Run {
        is_success: result.is_success,
        page: std::fs::read_to_string(work.join("acceptance.html")).expect("a page"),
        left: std::fs::read_dir(&work).expect("readable").count(),
        report,
    })
}

/// Runs the page's script.
///
/// Fails unless the site is accepted, and nothing is left behind. Returns the report.
fn accepted(prepare: impl FnOnce(&Hosts), faults: &str) -> Option<String> {
    let Run {
        is_success,
        report,
        page,
        left,
    } = acceptance(prepare, faults)?;
    assert!(is_success, "{report}");
    assert!(
        report.contains("Accepted: every byte was right"),
        "{report}"
    );
    assert!(page.contains("Accepted: every byte was right"), "{page}");
    let lost = verdicts(&report, "all processes of a node are killed: ");
    assert!(!lost.is_empty(), "{report}");
    assert!(lost.iter().all(|row| row.starts_with("ok ")), "{report}");
    assert_eq!(left, 4, "the page, the script and its two outputs");
    Some(report)
}

/// Describes an RDMA device on all nodes.
///
/// MPI finds no such hardware, and uses the networks of this machine.
fn give_devices(hosts: &Hosts) {
    let class = hosts.directory().join("class");
    describe_device(&class);
    for node in 1..hosts.count() {
        let mount = ["mount", "--bind", &class.to_string_lossy(), "/sys/class"];
        let mounted = hosts.on(node, &mount).status();
        assert!(mounted.is_ok_and(|status| status.success()), "mount(8)");
    }
}

/// Returns the number of rows that begin with a word.
fn count_of(word: &str, rows: &[String]) -> usize {
    rows.iter().filter(|row| row.starts_with(word)).count()
}

#[test]
fn the_script_for_administrators_accepts_a_sound_site() {
    if let Some(report) = accepted(|_| {}, "") {
        assert!(!report.contains("fabric = native"), "{report}");
    }
}

/// The fault `blind` makes the library's writes those of a device.
#[test]
#[ignore = "a variant: make test-all"]
fn a_native_network_without_wrong_bytes_is_accepted() {
    if let Some(report) = accepted(give_devices, "blind") {
        let native = verdicts(&report, "native, compare: ");
        assert_eq!(count_of("ok ", &native), 5, "{report}");
        let landings = verdicts(&report, "native, landings: ");
        assert_eq!(count_of("ok ", &landings), 4, "{report}");
        let lines = "    fabric = native\n    tracking = landings\n";
        assert!(report.contains(lines), "{report}");
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_build_that_loses_landings_is_found() {
    let Some(run) = acceptance(give_devices, "blind; lose-landings") else {
        return;
    };
    let Run { report, page, .. } = run;
    assert!(!run.is_success, "{report}");
    let native = verdicts(&report, "native, compare: ");
    assert_eq!(count_of("ok ", &native), 5, "{report}");
    let landings = verdicts(&report, "native, landings: ");
    assert_eq!(count_of("WRONG ", &landings), 4, "{report}");
    let conclusion = "Accepted without tracking = landings: ";
    assert!(report.contains(conclusion), "{report}");
    assert!(page.contains(conclusion), "{page}");
    assert!(report.contains("    fabric = native\n"), "{report}");
    assert!(!report.contains("    tracking = landings"), "{report}");
}

/// The MPI library uses TCP on nodes with an RDMA device.
#[test]
#[ignore = "a variant: make test-all"]
fn a_native_network_that_is_not_used_is_not_accepted() {
    let Some(run) = acceptance(give_devices, "") else {
        return;
    };
    let report = run.report;
    assert!(!run.is_success, "{report}");
    let native = verdicts(&report, "native, ");
    assert_eq!(count_of("not tried ", &native), 9, "{report}");
    assert!(
        report.contains("Not complete: nothing is wrong"),
        "{report}"
    );
    assert!(report.contains("    fabric = tcp\n"), "{report}");
}

/// The acceptance runs on a login node, for programs of MPICH that `srun` starts.
#[test]
#[ignore = "a variant: make test-all"]
fn a_login_node_and_srun_do_for_an_acceptance() {
    if !Slurm::is_there() || !Hosts::are_possible() {
        return;
    }
    paths::wait_for_turn();
    let hosts = Hosts::new(&[0, 4, 4]).expect("hosts are possible");
    let slurm = Slurm::on(&hosts, &[]);
    let work = hosts.directory().join("work");
    std::fs::create_dir(&work).expect("the directory is writable");
    let (place, mpicc) = (work.to_string_lossy(), paths::mpich().join("mpicc"));
    let understudy = paths::product("understudy");
    let words = ["env", "-C", &place, "salloc", "--quiet", "--nodes=2"];
    let understudy = &understudy.to_string_lossy();
    let accept = ["--ntasks-per-node=4", understudy, "accept", "--mpicc"];
    let srun = "srun --mpi=pmi2 --overlap --nodes=1";
    let options = [&mpicc.to_string_lossy(), "--mpirun", srun];
    let words = [&words[..], &accept, &options].concat();
    let mut command = slurm.commands().command(&hosts, &words);
    // The hosts are one machine for UCX.
    command.env("UCX_TLS", "tcp,self");
    command.env("UCX_TCP_BRIDGE_ENABLE", "y");
    let output = command.output().expect("the command can be executed");
    let [report, errors] = [output.stdout, output.stderr];
    let report = String::from_utf8_lossy(&report);
    let errors = String::from_utf8_lossy(&errors);
    println!("{report}\n{errors}");
    assert!(output.status.success(), "{report}\n{errors}");
    assert!(report.contains("(MPICH "), "{report}");
}

/// Library that gives a worker other bytes after another process has replaced it.
///
/// The bytes are wrong as if a checkpoint had missed a modified page.
const LOSES_BYTES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>
static long first_process;
int MPI_Sendrecv(const void *from, int count, MPI_Datatype type, int to, int tag, void *into,
                 int room, MPI_Datatype into_type, int source, int into_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    int result = PMPI_Sendrecv(from, count, type, to, tag, into, room, into_type, source, into_tag,
                               comm, status);
    long process = syscall(SYS_getpid);
    if (first_process == 0)
        first_process = process;
    if (first_process != process)
        *(char *)into ^= 1;
    return result;
}
"#;

fn faulty_library(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("faulty.c"), directory.join("libfaulty.so"));
    std::fs::write(&source, LOSES_BYTES).expect("the directory is writable");
    let mut mpicc = Command::new("mpicc");
    mpicc.args(["-shared", "-fPIC", "-O1", "-o"]);
    let compiled = mpicc.args([&library, &source]).status();
    assert!(compiled.expect("there is an mpicc on the PATH").success());
    library
}

#[test]
fn wrong_bytes_after_a_failure_are_found() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let library = faulty_library(work.path());
    let ran = UnderstudyCommand::new(work.path(), &["accept"])
        .env("LD_PRELOAD", &library.to_string_lossy())
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .run();
    let report = String::from_utf8_lossy(&ran.stdout).into_owned();
    println!("{report}");
    ran.assert(1, &[]);
    let row = verdicts(&report, "tcp, compare: a worker is killed:");
    assert!(
        row.len() == 1 && row[0].starts_with("WRONG ") && row[0].contains("differs from the run"),
        "{report}"
    );
    let (_, kept) = report
        .split_once("messages of the jobs are in ")
        .expect("the directory is kept");
    let kept = Path::new(
        kept.lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches('.'),
    );
    let messages = std::fs::read_to_string(kept.join("job-2/messages")).expect("kept");
    assert!(messages.contains("[recovered]"), "{messages}");
    assert!(
        !report.contains("Lines for /etc/understudy.conf"),
        "{report}"
    );
}

#[test]
fn an_acceptance_without_a_compiler_is_not_done() {
    let empty = tempfile::tempdir().expect("there is room for temporary files");
    let ran = UnderstudyCommand::new(empty.path(), &["accept"])
        .env("PATH", &empty.path().to_string_lossy())
        .run();
    ran.assert(3, &["there is no mpicc on the PATH", "--mpicc"]);
    let false_compiler = ["accept", "--mpicc", "false"];
    let ran = UnderstudyCommand::new(empty.path(), &false_compiler).run();
    ran.assert(3, &["cannot compile the program of the jobs"]);
    let page = ["accept", "--html", "nowhere/page.html"];
    let ran = UnderstudyCommand::new(empty.path(), &page).run();
    ran.assert(3, &["nowhere/page.html cannot be written"]);
    let left = std::fs::read_dir(empty.path()).expect("readable").count();
    assert_eq!(left, 0);
}
