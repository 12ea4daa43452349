//! Scripts of the pages "On a cluster", "Time limits" and "Networks".
//!
//! The scripts run as they are printed there.
//!
//! `./solver` stands for an example program, and `module` has no effect.

use crate::launchers::run::work;
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::page_scripts::{self, Commands};
use ffi_tests::slurm_allocation::{Allocation, FIRST_NODE};
use ffi_tests::slurm_installation::Slurm;
use ffi_tests::{Job, Trigger, fault_at_commit, paths, programs};
use std::path::Path;
use std::process::{Command, Output};

const CLUSTER: &str = "docs/run/batch.md";
const TIME_LIMITS: &str = "docs/run/time-limits.md";
const NETWORKS: &str = "docs/run/networks.md";
/// Hosts of the scripts: three nodes with two tasks each, and the controller's host.
const HOSTS: [u32; 4] = [0, 2, 2, 2];
/// Command that ends the granted time after ten seconds.
const SHORT_TIME: &str = "scontrol update JobId=$SLURM_JOB_ID EndTime=now+10";

/// Lines of each worker, and the pause after a line in microseconds.
const CHATTER: [&str; 2] = ["2400", "2500"];

const SHORT_CHATTER: [&str; 2] = ["200", "1000"];

fn is_possible() -> bool {
    Slurm::is_there() && Hosts::are_possible()
}

/// Slurm would end the job, had understudy not taken the node out of the allocation.
#[test]
fn the_script_of_the_cluster_page_survives_the_loss_of_a_node() {
    if !is_possible() {
        return;
    }
    let script = page_scripts::below(CLUSTER, "## Slurm").remove(0);
    let commands = Commands::new();
    let case = programs::short_heat2d();
    let job = case.job().workers(4).spares(2).hosts(&HOSTS);
    let outcome = job
        .in_allocation(Allocation::of_script(&script, commands.path()), &[])
        .lose_host(Trigger::Lines(15), FIRST_NODE + 1)
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job().workers(4)), case.files);
    outcome.assert_replaced(&[2, 3]);
    outcome.assert_line(&["was taken out of Slurm's job"]);
    outcome.assert_line(&["[first-host-not-requeued]"]);
    outcome.assert_nothing_left();
}

/// The granted time ends several times before the program does.
#[test]
#[ignore = "a variant: make test-all"]
fn the_script_of_the_time_limits_page_continues_until_the_program_has_finished() {
    if !is_possible() {
        return;
    }
    let script = page_scripts::below(TIME_LIMITS, "# Time limits").remove(0);
    let commands = Commands::new();
    commands.add("module", SHORT_TIME);
    let job = chatter().spares(2).hosts(&HOSTS);
    let allocation = Allocation::of_script(&script, commands.path());
    let mut outcome = job.in_allocation(allocation, &[]).run();
    outcome.assert_success();
    outcome.assert_line(&["[stopped-with-checkpoint]", "time limit"]);
    outcome.check(outcome.stdout.is_empty(), "not all output is in the file");
    outcome.stdout = outcome.file("out.txt").unwrap_or_default();
    outcome.assert_same_lines(&native(chatter()));
    outcome.assert_nothing_left();
}

/// A program of six seconds, on any machine, in which all workers print.
fn chatter() -> Job {
    Job::new(paths::test_program("chatter"), &CHATTER).workers(4)
}

/// Runs a script with `./solver` in a directory, by bash as a batch system does.
fn run(script: &str, command: &mut Command) -> Output {
    paths::wait_for_turn();
    let output = command.args(["bash", "-c", script]).output();
    output.expect("there is bash")
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_loop_of_the_time_limits_page_runs_a_job_in_pieces() {
    let script = page_scripts::below(TIME_LIMITS, "## Without requeue").remove(0);
    let (work, commands) = (work(), Commands::new());
    let program = paths::test_program("chatter");
    page_scripts::substitute(&work.path().join("solver"), &program, &CHATTER);
    let mut command = Command::new("env");
    command.current_dir(work.path()).env("TMPDIR", work.path());
    command.env("PATH", commands.path()).env("LIMIT", "6s");
    let ran = run(&script, &mut command);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && errors.contains("[restarted]"),
        "{errors}"
    );
    let output = std::fs::read(work.path().join("out.txt")).unwrap_or_default();
    let undisturbed = native(chatter());
    assert!(sorted(&output) == sorted(&undisturbed.stdout), "{errors}");
}

/// Runs the script with the variables and commands of PBS on three hosts.
#[test]
#[ignore = "a variant: make test-all"]
fn the_script_for_pbs_runs_on_the_hosts_of_its_node_file() {
    if !Hosts::are_possible() {
        return;
    }
    let script = page_scripts::below(CLUSTER, "## PBS, LSF, Grid Engine, Flux").remove(0);
    let (work, commands) = (work(), Commands::new());
    let hosts = Hosts::new(&[2, 2, 2]).expect("there can be hosts");
    let nodes: String = (0..6).map(|slot| hosts.name(slot / 2) + "\n").collect();
    std::fs::write(work.path().join("nodes"), nodes).expect("the directory is writable");
    let mut command = on_hosts(&hosts, work.path(), &commands);
    let attached = work.path().join("attached");
    let attach = format!(
        "[ \"$1 $2\" = \"-j 7.server\" ] && echo $3 >>{} && shift 2 && exec \"$@\"",
        attached.display()
    );
    commands.add("pbs_attach", &attach);
    command
        .env("PBS_JOBID", "7.server")
        .env("PBS_O_WORKDIR", work.path());
    command.env("PBS_NODEFILE", work.path().join("nodes"));
    command.env("UNDERSTUDY_FAULT", fault_at_commit(2, 1));
    let ran = run(&script, &mut command);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && errors.contains("worker 2 failed"),
        "{errors}"
    );
    assert!(
        sorted(&ran.stdout) == sorted(&native(short_chatter()).stdout),
        "{errors}"
    );
    let attached = std::fs::read_to_string(work.path().join("attached"));
    assert_eq!(attached.unwrap_or_default(), "sh\nsh\n", "both other hosts");
}

/// Runs the scripts that are no batch jobs on the host of Slurm's controller.
#[test]
#[ignore = "a variant: make test-all"]
fn the_scripts_for_salloc_and_srun_survive_a_failure() {
    if !is_possible() {
        return;
    }
    let hosts = Hosts::new(&HOSTS).expect("there can be hosts");
    let (slurm, commands) = (Slurm::on(&hosts, &[]), Commands::new());
    for heading in ["## The first node", "## Slurm's srun"] {
        let work = work();
        let script = page_scripts::below(CLUSTER, heading).remove(0);
        // The PATH of the command has Slurm's programs in front.
        let path = commands.path().to_string_lossy().into_owned();
        let script = format!("cd {}\nPATH=$PATH:{path}\n{script}", work.path().display());
        drop(on_hosts(&hosts, work.path(), &commands));
        let mut command = slurm.commands().command(&hosts, &["bash", "-c", &script]);
        command.env("UNDERSTUDY_LIBRARY", paths::preload_library());
        command.env("UNDERSTUDY_FAULT", fault_at_commit(1, 1));
        command
            .env("OMPI_MCA_btl", "self,sm,tcp")
            .env("OMPI_MCA_mpi_yield_when_idle", "1");
        let ran = command.output().expect("there is bash");
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success() && errors.contains("worker 1 failed"),
            "{heading}: {errors}"
        );
        let undisturbed = native(short_chatter());
        assert!(
            sorted(&ran.stdout) == sorted(&undisturbed.stdout),
            "{heading}: {errors}"
        );
    }
}

/// `understudy doctor` in a batch job examines the granted nodes.
#[test]
#[ignore = "a variant: make test-all"]
fn the_doctor_finds_nothing_missing_on_granted_nodes() {
    if !is_possible() {
        return;
    }
    let script = "#!/bin/bash\n#SBATCH --nodes=3 --ntasks-per-node=2\nexec understudy doctor\n";
    let job = short_chatter().spares(2).hosts(&HOSTS);
    let commands = Commands::new();
    let allocation = Allocation::of_script(script, commands.path());
    let outcome = job.in_allocation(allocation, &[]).run();
    let text = String::from_utf8_lossy(&outcome.stdout);
    outcome.check(outcome.status.is_some_and(|it| it.success()), &text);
    for found in [
        "Slurm has granted 3 hosts with 6 slots",
        "3 of one kind",
        "n4 (Linux",
    ] {
        outcome.check(
            text.contains(found),
            &format!("`{found}` is missing: {text}"),
        );
    }
    outcome.assert_nothing_left();
}

/// Prepares a command on the first host; `ssh` leads to the other hosts.
fn on_hosts(hosts: &Hosts, work: &Path, commands: &Commands) -> Command {
    // `understudy run` starts processes on other hosts by `ssh -x HOST COMMAND`.
    commands.add(
        "ssh",
        &format!("shift\nexec {} \"$@\"", hosts.agent().display()),
    );
    let program = paths::test_program("chatter");
    page_scripts::substitute(&work.join("solver"), &program, &SHORT_CHATTER);
    let mut command = hosts.enter_at(work);
    command.env("PATH", commands.path());
    command
        .env("OMPI_MCA_btl", "self,sm,tcp")
        .env("OMPI_MCA_mpi_yield_when_idle", "1");
    command
}

fn short_chatter() -> Job {
    Job::new(paths::test_program("chatter"), &SHORT_CHATTER).workers(4)
}

/// Both choices are TCP here, and have equal output.
#[test]
#[ignore = "a variant: make test-all"]
fn the_script_of_the_networks_page_compares_both_choices() {
    if !Hosts::are_possible() {
        return;
    }
    let script = page_scripts::below(NETWORKS, "## What TCP costs").remove(0);
    let (work, commands) = (work(), Commands::new());
    let hosts = Hosts::new(&[2, 2, 2]).expect("there can be hosts");
    let line = |host| format!("{} slots=2\n", hosts.name(host));
    std::fs::write(
        work.path().join("hosts"),
        (0..3).map(line).collect::<String>(),
    )
    .expect("the directory is writable");
    let mut command = on_hosts(&hosts, work.path(), &commands);
    let ran = run(&script, &mut command);
    let errors = String::from_utf8_lossy(&ran.stderr);
    let undisturbed = native(short_chatter());
    for fabric in ["tcp", "native"] {
        let output = std::fs::read(work.path().join(format!("output-{fabric}")));
        let output = output.unwrap_or_default();
        assert!(
            sorted(&output) == sorted(&undisturbed.stdout),
            "{fabric}:\n{errors}"
        );
    }
    let times = String::from_utf8_lossy(&ran.stdout);
    assert!(
        times.contains("tcp: ") && times.contains("native: "),
        "{times}{errors}"
    );
}

fn sorted(output: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = output.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}
