//! Councils of simulated nodes with random failures, by seed.
//!
//! Machines have clocks of different speed. They stop for a while, lose their connections, and die.
//! Managers die and are replaced. Messages come late or never. At no moment may two nodes act as
//! the leader, and as long as a majority is connected, one must.

#[path = "../simulator/random.rs"]
mod random;
mod world;

use world::World;

const STEPS: u32 = 1_200;

/// Simulates a council in which every node may fail.
fn play(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.disturb();
        world.step();
    }
    world.heal();
    (0..400).for_each(|_| world.step());
    world
}

#[test]
fn two_nodes_never_act_at_the_same_time() {
    let (mut elections, mut deaths, mut without_end, mut joined) = (0, 0, 0, 0);
    let histories = std::env::var("COUNCIL_HISTORIES").ok();
    let histories = histories.and_then(|it| it.parse().ok()).unwrap_or(1_000);
    for seed in 0..histories {
        let world = play(seed);
        elections += u32::from(world.leaders_seen.len() > 1);
        deaths += world.count_dead();
        joined += world.joined;
        if world.count_dead() < world.count() {
            assert!(
                world.acting().is_some(),
                "seed {seed}: living nodes have a leader: {world:?}"
            );
            without_end += 1;
        }
    }
    println!(
        "{histories} histories: {elections} with elections, {deaths} deaths, {joined} joined, \
         {without_end} ended with a leader"
    );
    assert!(elections > histories as u32 / 4 && without_end > histories as u32 / 4);
}

/// A minority of the members suffers anything; the others are never lost.
#[test]
fn a_connected_majority_always_has_a_leader_soon() {
    for seed in 0..1_000 {
        let mut world = World::new(seed);
        let victims = world.choose_minority();
        for _ in 0..STEPS {
            world.disturb_only(&victims);
            world.step();
            assert!(
                world.leaderless_steps < world::LEADERLESS_LIMIT,
                "seed {seed}: {world:?}"
            );
        }
        assert!(
            !world.has_lost_other_than(&victims),
            "seed {seed}: {world:?}"
        );
    }
}
