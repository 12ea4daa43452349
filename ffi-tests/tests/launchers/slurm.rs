//! Jobs under Slurm's srun: the processes that srun starts are guardians.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, heat2d};
use ffi_tests::slurm_installation::Slurm;
use ffi_tests::{
    Job, Kill, KillScope, Outcome, Trigger, fault_at_commit, paths, plain_commands, variants,
};
use std::process::{Command, Output, Stdio};

fn job(slurm: &Slurm, mpi: &'static str) -> Job {
    heat2d().job().launched_by_srun(slurm.srun(mpi))
}

/// Fails unless the output is that of a native run and nothing is left behind.
#[track_caller]
fn assert_undisturbed(job: Job) -> Outcome {
    let case = heat2d();
    let outcome = job.run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_nothing_left();
    outcome
}

#[test]
fn a_worker_dies_under_srun() {
    let Some(slurm) = Slurm::start() else { return };
    for mpi in variants(["none", "pmi2"], 1) {
        let outcome = assert_undisturbed(job(&slurm, mpi).kill(Kill::at(2, Trigger::Lines(15))));
        outcome.check(outcome.takeovers() == [2], "not only worker 2 was replaced");
    }
}

#[test]
fn all_ranks_may_die_at_once_under_srun_and_there_need_be_no_spare() {
    let Some(slurm) = Slurm::start() else { return };
    let job = job(&slurm, "none").spares(0);
    let outcome = assert_undisturbed(job.killed_as_a_whole(Trigger::Lines(15), KillScope::Ranks));
    let taken = outcome.takeovers();
    outcome.check(
        taken.len() == 4,
        &format!("not all four workers were replaced: {taken:?}"),
    );
}

/// Two workers fail on two nodes, whose guardians exchange addresses by Slurm's PMI.
#[test]
fn workers_die_on_several_nodes_under_srun() {
    if !Slurm::is_there() || !Hosts::are_possible() {
        return;
    }
    let case = programs::short_heat2d();
    let spread = || case.job().hosts(&[2, 2]).launched_by_slurm("pmi2");
    let fault = "kill rank=1 at=cut.end epoch=4; kill rank=0 at=cut.end epoch=6";
    let outcome = spread().interval("60calls").fault(fault).run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[1, 0]);
    outcome.assert_nothing_left();
}

#[test]
fn ranks_on_several_nodes_are_bypassed_with_one_message() {
    let step = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "0"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
    ];
    let program = paths::example("heat2d");
    let ran = plain_commands::run(program, &["50", "50", "10"], &step, true);
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{text}");
    let own: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("understudy"))
        .collect();
    assert!(
        own.len() == 1
            && own[0].contains("ranks on several nodes")
            && own[0].contains("runs unprotected"),
        "{text}"
    );
}

/// Runs three tasks, of which one is a spare, with an option of the plug-in.
fn srun_with_plugin(slurm: &Slurm, option: &str) -> Output {
    let heat = paths::example("heat2d");
    slurm
        .srun("none")
        .command(3, None)
        .arg(option)
        .arg(heat)
        .args(["60", "60", "400"])
        .stdin(Stdio::null())
        .output()
        .expect("srun starts")
}

/// The site's plug-in protects tasks by an option of srun.
#[test]
fn a_plugin_of_slurm_protects_tasks() {
    let Some(slurm) = Slurm::start() else { return };
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let plugin = work.path().join("spank_understudy.so");
    let compiled = Command::new("gcc")
        .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(Slurm::headers())
        .arg("-o")
        .arg(&plugin)
        .arg(paths::workspace().join("packaging/spank_understudy.c"))
        .status();
    assert!(compiled.expect("gcc is there").success());
    let library = paths::product("libunderstudy.so");
    slurm.load_plugin(&format!(
        "required {} library={}\n",
        plugin.display(),
        library.display()
    ));
    let fault = fault_at_commit(1, 3);
    let output = srun_with_plugin(
        &slurm,
        &format!("--understudy=interval:40calls,fault:{fault}"),
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("[recovered]"), "{errors}");
    let job = Job::new(paths::example("heat2d"), &["60", "60", "400"]).workers(2);
    assert!(output.stdout == native(job).stdout, "{errors}");

    let output = srun_with_plugin(&slurm, "--understudy=interval");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("not NAME:VALUE"),
        "{errors}"
    );
}
