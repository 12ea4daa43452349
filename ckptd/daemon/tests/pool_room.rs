//! Jobs that start new spares share the limit of their node.

use std::time::Duration;
use understudy_daemon::pool::{JobKey, Pools, Rules};
use understudy_formats::events::ProcessNumber;
use understudy_wire::spares::{Limits, Spare};

fn key(job: u8) -> JobKey {
    JobKey {
        realm: 0,
        name: format!("job {job}"),
    }
}

#[test]
fn jobs_share_the_room_for_new_spares() {
    let rules = Rules {
        spares: 3,
        ..Rules::default()
    };
    let mut pools = Pools::new(rules, 0);
    let limits = Limits {
        minimum: 0,
        maximum: 4,
    };
    for (job, rank) in [(0, 4), (0, 5), (1, 4)] {
        let spare = Spare {
            rank: ProcessNumber(rank),
            pid: 10 + rank,
            launcher: 0,
            host: "h".into(),
            domain: "d".into(),
            workers: 0,
        };
        pools
            .register(Duration::ZERO, &key(job), spare, limits)
            .expect("registered");
    }
    // The number that the job reports counts, because one of its spares may just have taken over.
    assert_eq!(pools.may_start(&key(0), 1, 4), 1);
    assert_eq!(pools.may_start(&key(0), 2, 4), 0);
    assert_eq!(pools.may_start(&key(1), 0, 1), 1);
    assert_eq!(pools.may_start(&key(1), 0, 4), 1);
    assert_eq!(
        pools.may_start(&key(2), 0, 2),
        0,
        "an unknown job finds no room"
    );
    assert_eq!(
        pools.may_start(&key(1), 5, 4),
        0,
        "it has more than it wants"
    );
    assert_eq!(Pools::new(Rules::default(), 0).may_start(&key(0), 1, 3), 2);
}
