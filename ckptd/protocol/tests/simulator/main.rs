//! The protocol with simulated processes and random failures, by seed.
//!
//! A simulated process passes through its stages by itself. Its messages arrive late, and guardians
//! report deaths late. In each run some processes or managers are killed at random moments, or
//! whole nodes are lost. The job must end. Each generation must have all workers, and a replica of
//! each worker as long as one is left on a node that is not lost.

mod copies;
mod departure;
mod follow;
mod random;
mod simulated_process;
mod world;

use understudy_catalogue::exit_status;
use understudy_protocol::Guardian;
use world::World;

/// A job that was not completed.
#[derive(PartialEq, Eq, Debug)]
struct Lost {
    printed: Vec<String>,
    /// True if there was a checkpoint.
    had_copies: bool,
}

/// Simulates a job to its end; returns a job that was not completed.
///
/// `deaths` are the numbers of processes and of managers that are killed; `nodes` are the numbers
/// of nodes and of lost nodes.
fn play(seed: u64, [workers, spares]: [u32; 2], deaths: [u32; 2], nodes: [u32; 2]) -> Option<Lost> {
    play_world(
        &mut World::new(seed, [workers, spares], deaths, nodes),
        seed,
    )
}

fn play_world(world: &mut World, seed: u64) -> Option<Lost> {
    let mut turns = 0;
    while world.turn() {
        turns += 1;
        assert!(
            turns < 100_000,
            "seed {seed}: the job hangs: {:?}",
            world.job
        );
    }
    let left = (0..world.size).filter(|&it| !world.lost.contains(&world.node(Guardian(it))));
    let has_exited = |it: u32| world.statuses.contains_key(&Guardian(it));
    assert!(
        left.into_iter().all(has_exited),
        "seed {seed}: every guardian exits"
    );
    let status = world.statuses.values().copied().max().unwrap_or_default();
    // The death of a process by SIGKILL (137) after the end of the program only sets the status.
    assert!(
        [0, exit_status::RECOVERY_FAILED, 137].contains(&status),
        "seed {seed}: status {status}"
    );
    assert!(
        status != exit_status::RECOVERY_FAILED || !world.printed.is_empty(),
        "seed {seed}: a message states why the job is lost"
    );
    (status == exit_status::RECOVERY_FAILED).then_some(Lost {
        printed: std::mem::take(&mut world.printed),
        had_copies: !world.kept.is_empty(),
    })
}

#[test]
fn a_job_without_deaths_has_one_generation() {
    for seed in 0..100 {
        let mut world = World::new(seed, [4, 1], [0, 0], [1, 0]);
        while world.turn() {}
        assert_eq!(world.begun.len(), 1, "seed {seed}");
    }
}

#[test]
fn the_job_completes_after_any_failure() {
    for seed in 0..20_000 {
        let (spares, kills) = ((seed % 3) as u32, (seed % 6) as u32);
        let lost = play(seed, [4, spares], [kills, 0], [1, 0]);
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

/// A node is drained at a random moment, and processes die.
#[test]
fn a_drained_node_gets_no_process_and_the_job_completes() {
    let mut drained = 0;
    for seed in 0..20_000 {
        let (spares, kills, nodes) = ((seed % 3) as u32, (seed % 4) as u32, 2 + (seed % 2) as u32);
        let mut world = World::new(seed, [4, spares], [kills, 0], [nodes, 0]);
        world.drains = 1;
        let lost = play_world(&mut world, seed);
        assert_eq!(lost, None, "seed {seed}: the job is lost");
        drained += u32::from(world.drained.is_some());
    }
    assert!(drained > 5_000, "only {drained} nodes were drained");
}

#[test]
fn managers_may_die_at_any_moment_and_processes_with_them() {
    for seed in 0..40_000 {
        let (spares, kills, managers) =
            ((seed % 3) as u32, (seed % 5) as u32, 1 + (seed % 4) as u32);
        let lost = play(
            seed,
            [1 + (seed / 8 % 4) as u32, spares],
            [kills, managers],
            [1, 0],
        );
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

#[test]
fn the_job_completes_after_any_failure_on_several_nodes() {
    for seed in 0..20_000 {
        let (spares, kills, nodes) = ((seed % 3) as u32, (seed % 6) as u32, 2 + (seed % 2) as u32);
        let lost = play(seed, [4, spares], [kills, 0], [nodes, 0]);
        assert_eq!(lost, None, "seed {seed}: the job is lost");
    }
}

/// Managers of nodes without the leader die, and processes and a node with them.
#[test]
fn managers_of_other_nodes_may_die_at_any_moment() {
    let mut survived = 0;
    for seed in 0..40_000 {
        let (spares, kills, managers) =
            ((seed % 3) as u32, (seed % 5) as u32, 1 + (seed % 4) as u32);
        let (nodes, losses) = (2 + (seed / 8 % 3) as u32, (seed / 32 % 2) as u32);
        match play(seed, [4, spares], [kills, managers], [nodes, losses]) {
            None => survived += 1,
            Some(lost) => assert!(losses > 0 && !lost.had_copies, "seed {seed}: {lost:?}"),
        }
    }
    assert!(survived > 30_000, "only {survived} jobs have survived");
}

/// All workers may be on the lost node.
///
/// The job ends then, and is never restarted.
#[test]
fn workers_lost_together_with_a_manager_are_not_restarted() {
    let mut lost = 0;
    for seed in 0..40_000 {
        let (workers, managers) = (1 + (seed % 2) as u32, 1 + (seed / 2 % 3) as u32);
        let end = play(
            seed,
            [workers, 2],
            [0, managers],
            [2 + (seed / 8 % 2) as u32, 2],
        );
        lost += u32::from(end.is_some_and(|lost| lost.had_copies));
    }
    assert!(
        lost > 1_000,
        "only {lost} jobs were lost after a checkpoint"
    );
}

/// A job with a checkpoint survives the loss of a node at a random moment.
///
/// Without a checkpoint the job may end, because the output of the lost processes is unknown, and
/// a restart could print it twice.
#[test]
fn the_loss_of_a_node_is_survived_once_there_are_copies() {
    let mut survived = 0;
    for seed in 0..20_000 {
        let (spares, kills) = ((seed % 3) as u32, (seed % 4) as u32);
        let (nodes, losses) = (2 + (seed / 4 % 3) as u32, 1 + (seed / 16 % 2) as u32);
        match play(seed, [4, spares], [kills, 0], [nodes, losses]) {
            None => survived += 1,
            Some(lost) => assert!(losses > 1 || !lost.had_copies, "seed {seed}: {lost:?}"),
        }
    }
    assert!(survived > 10_000, "only {survived} jobs have survived");
}
