//! Random histories of pools in simulated time.
//!
//! A failure shows the shortest history that leads to it; `POOL_SEED=N` repeats a run.

mod pool_model;
mod step;
mod world;

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::Duration;
use step::step;
use understudy_daemon::pool::{PoolChange, Pools};
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_wire::spares::{Refusal, Spare, SpareLimits, SpareNeed};
use world::{RULES, World, key, place};

const HISTORIES: u32 = 3000;

#[test]
fn no_history_breaks_a_promise() {
    let seed = std::env::var("POOL_SEED").map_or_else(
        |_| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .expect("after 1970")
                .as_nanos() as u64
        },
        |text| text.parse().expect("POOL_SEED is a number"),
    );
    println!("POOL_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: HISTORIES,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&vec(step(), 1..120), |steps| {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("POOL_SEED={seed}: {failure}"));
}

#[test]
fn an_unconfirmed_lease_ends_and_its_token_is_invalid() {
    let (mut pools, job) = (Pools::new(RULES, 0), key(0));
    let spare = Spare {
        rank: ProcessNumber(4),
        pid: 1,
        launcher: 0,
        host: "h".into(),
        domain: "d".into(),
        workers: 0,
    };
    let limits = SpareLimits {
        minimum: 0,
        maximum: 1,
    };
    let (ticket, _) = pools
        .register(Duration::ZERO, &job, spare, limits)
        .expect("registered");
    let needs = [SpareNeed {
        worker: Worker(2),
        failed: place(0),
        copies: Vec::new(),
    }];
    let (first, _) = pools
        .lease(Duration::ZERO, &job, 1, &needs)
        .expect("leased");
    pools.beat(RULES.lease, &job, ticket).expect("alive");
    let (rank, worker) = (ProcessNumber(4), Worker(2));
    let changes = pools.tick(RULES.lease);
    assert_eq!(
        changes,
        [(job.clone(), vec![PoolChange::Returned { rank, worker }])]
    );
    assert_eq!(pools.give_back(&job, first[0].token), Err(Refusal::Stale));
    let (second, _) = pools
        .lease(RULES.lease, &job, 2, &needs)
        .expect("leased again");
    assert_ne!(first[0].token, second[0].token);
    let changes = pools
        .took_over(RULES.lease, &job, ticket, worker)
        .expect("in force");
    assert_eq!(changes, [PoolChange::TookOver { rank, worker }]);
    assert_eq!(pools.beat(RULES.lease, &job, ticket), Err(Refusal::Stale));
    assert!(
        pools
            .job(&job)
            .is_some_and(|job| job.active_spares().eq([rank]))
    );
}
