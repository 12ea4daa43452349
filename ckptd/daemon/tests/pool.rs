//! Random histories of pools in simulated time.
//!
//! A failure shows the shortest history that leads to it; `POOL_SEED=N` repeats a run.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::time::Duration;
use understudy_daemon::pool::{JobKey, PoolChange, Pools, Rules};
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_wire::spares::{
    Lease, LeaseToken, ProcessLocation, Refusal, Spare, SpareLimits, SpareNeed, SpareTicket,
};

const RULES: Rules = Rules {
    silence: Duration::from_millis(1000),
    lease: Duration::from_millis(700),
    replenish: Duration::from_millis(1500),
    jobs: 3,
    needs: 16,
    spares: u32::MAX,
};
const HISTORIES: u32 = 3000;
const DOMAINS: u32 = 3;

/// A step of a client or of time.
///
/// Numbers are taken modulo the number of objects.
#[derive(Debug, Clone)]
enum Step {
    Register {
        job: u8,
        rank: u8,
        maximum: u8,
        minimum: u8,
    },
    Beat {
        ticket: u8,
    },
    Lease {
        job: u8,
        workers: Vec<u8>,
        failed: u8,
        copy: u8,
    },
    /// Repetition of an earlier request.
    Repeat {
        request: u8,
    },
    GiveBack {
        lease: u8,
    },
    Play {
        ticket: u8,
    },
    Leave {
        ticket: u8,
    },
    Lost {
        ticket: u8,
    },
    Close {
        job: u8,
    },
    Pass {
        millis: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5u8, 0..12u8, 1..8u8, 0..5u8).prop_map(|(job, rank, maximum, minimum)| Step::Register { job, rank, maximum, minimum }),
        6 => any::<u8>().prop_map(|ticket| Step::Beat { ticket }),
        3 => (0..5u8, vec(0..8u8, 0..4), any::<u8>(), any::<u8>())
            .prop_map(|(job, workers, failed, copy)| Step::Lease { job, workers, failed, copy }),
        2 => any::<u8>().prop_map(|request| Step::Repeat { request }),
        1 => any::<u8>().prop_map(|lease| Step::GiveBack { lease }),
        1 => any::<u8>().prop_map(|ticket| Step::Play { ticket }),
        1 => any::<u8>().prop_map(|ticket| Step::Leave { ticket }),
        1 => any::<u8>().prop_map(|ticket| Step::Lost { ticket }),
        1 => (0..5u8).prop_map(|job| Step::Close { job }),
        5 => (0..900u16).prop_map(|millis| Step::Pass { millis }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SpareState {
    Idle,
    Leased(Worker),
    Plays,
}

/// State of a spare in the model.
#[derive(Debug)]
struct ModelSpare {
    does: SpareState,
    last_beat: Duration,
    domain: String,
}

#[derive(Debug, Default)]
struct JobModel {
    spares: BTreeMap<ProcessNumber, ModelSpare>,
    limits: Option<SpareLimits>,
    expected: u32,
    last_request: Duration,
    left: Option<Duration>,
    round: u64,
}

impl JobModel {
    fn in_pool(&self) -> impl Iterator<Item = (&ProcessNumber, &ModelSpare)> {
        self.spares
            .iter()
            .filter(|(_, known)| known.does != SpareState::Plays)
    }
}

type Request = (JobKey, u64, Vec<SpareNeed>, Vec<Lease>);

struct World {
    pools: Pools,
    now: Duration,
    jobs: BTreeMap<JobKey, JobModel>,
    tickets: Vec<(JobKey, ProcessNumber, SpareTicket)>,
    leases: Vec<(JobKey, Lease)>,
    requests: Vec<Request>,
    tokens: Vec<LeaseToken>,
}

/// Returns one of five keys; two of them have the same name in different realms.
fn key(job: u8) -> JobKey {
    JobKey {
        realm: u32::from(job / 4),
        name: format!("job{}", job % 4),
    }
}

fn place(number: u32) -> ProcessLocation {
    ProcessLocation {
        host: format!("h{}", number % (2 * DOMAINS)),
        domain: format!("d{}", number % DOMAINS),
    }
}

fn pick<T: Clone>(of: &[T], at: u8) -> Option<T> {
    (!of.is_empty()).then(|| of[at as usize % of.len()].clone())
}

impl World {
    fn new() -> Self {
        World {
            pools: Pools::new(RULES, 7),
            now: Duration::ZERO,
            jobs: BTreeMap::new(),
            tickets: Vec::new(),
            leases: Vec::new(),
            requests: Vec::new(),
            tokens: Vec::new(),
        }
    }

    fn record_new(&mut self, token: LeaseToken) {
        assert!(
            !self.tokens.contains(&token),
            "{token:?} is given out twice"
        );
        self.tokens.push(token);
    }

    /// Checks that each change is possible, and applies it to the model.
    fn follow(&mut self, key: &JobKey, happened: &[PoolChange]) {
        let now = self.now;
        let job = self.jobs.get_mut(key).expect("of a job that there is");
        for what in happened {
            match *what {
                PoolChange::Registered { .. } => job.expected = job.expected.saturating_sub(1),
                PoolChange::Left { rank } => {
                    assert!(
                        job.spares
                            .remove(&rank)
                            .is_some_and(|known| known.does != SpareState::Plays)
                    );
                    job.left = Some(now);
                }
                PoolChange::Died { rank, silent } => {
                    let known = job.spares.remove(&rank).expect("it was there");
                    assert_ne!(
                        known.does,
                        SpareState::Plays,
                        "former spares send no heartbeats"
                    );
                    if silent {
                        assert_eq!(
                            now,
                            known.last_beat + RULES.silence,
                            "rank {rank} is noticed when its time is up"
                        );
                    }
                }
                PoolChange::Leased {
                    rank,
                    worker,
                    round,
                } => {
                    let known = job.spares.get_mut(&rank).expect("a living spare");
                    assert_eq!(known.does, SpareState::Idle, "rank {rank} is leased twice");
                    known.does = SpareState::Leased(worker);
                    assert_eq!(round, job.round);
                }
                PoolChange::Returned { rank, worker } => {
                    let known = job.spares.get_mut(&rank).expect("a living spare");
                    assert_eq!(known.does, SpareState::Leased(worker));
                    known.does = SpareState::Idle;
                }
                PoolChange::TookOver { rank, .. } => {
                    let known = job.spares.get_mut(&rank).expect("a living spare");
                    assert_ne!(known.does, SpareState::Plays);
                    known.does = SpareState::Plays;
                }
                PoolChange::Wanted { count } => {
                    if job.last_request + RULES.replenish <= now {
                        job.expected = 0;
                    }
                    (job.expected, job.last_request) = (job.expected + count, now);
                    let minimum = job.limits.expect("registered").minimum;
                    assert_eq!(
                        job.in_pool().count() as u32 + job.expected,
                        minimum,
                        "just as many as needed"
                    );
                }
            }
        }
    }

    fn register(&mut self, key: JobKey, rank: ProcessNumber, limits: SpareLimits) {
        let ProcessLocation { host, domain } = place(rank.0);
        let spare = Spare {
            rank,
            pid: 1000 + rank.0,
            launcher: 0,
            host,
            domain: domain.clone(),
            workers: rank.0 % 3,
        };
        let is_known = self.jobs.contains_key(&key);
        match self.pools.register(self.now, &key, spare, limits) {
            Ok((ticket, happened)) => {
                assert!(limits.minimum <= limits.maximum);
                self.record_new(ticket.token);
                let job = self.jobs.entry(key.clone()).or_default();
                let (does, last_beat) = match job.spares.get(&rank) {
                    Some(known) => (known.does, self.now),
                    None => (SpareState::Idle, self.now),
                };
                assert_ne!(does, SpareState::Plays);
                if !happened.is_empty() {
                    job.limits = Some(limits);
                }
                job.spares.insert(
                    rank,
                    ModelSpare {
                        does,
                        last_beat,
                        domain,
                    },
                );
                assert!(job.in_pool().count() <= job.limits.expect("registered").maximum as usize);
                self.follow(&key, &happened);
                self.tickets
                    .retain(|(other, of, _)| (other, *of) != (&key, rank));
                self.tickets.push((key, rank, ticket));
            }
            Err(Refusal::TooManyJobs) => assert!(!is_known && self.jobs.len() == RULES.jobs),
            Err(Refusal::Full) => {
                assert!(self.jobs[&key].in_pool().count() >= limits.maximum as usize)
            }
            Err(Refusal::RankTaken) => {
                assert_eq!(self.jobs[&key].spares[&rank].does, SpareState::Plays)
            }
            Err(Refusal::BadLimits) => assert!(limits.minimum > limits.maximum),
            Err(other) => panic!("{other}"),
        }
    }

    fn lease(&mut self, key: JobKey, workers: &[u8], failed: u32, copy: u32) {
        let mut needs: Vec<SpareNeed> = Vec::new();
        for &worker in workers {
            let worker = Worker(u32::from(worker));
            if needs.iter().all(|need| need.worker != worker) {
                let (failed, copies) = (place(failed + worker.0 % 2), vec![place(copy)]);
                needs.push(SpareNeed {
                    worker,
                    failed,
                    copies,
                });
            }
        }
        let Some(job) = self.jobs.get_mut(&key) else {
            assert_eq!(
                self.pools.lease(self.now, &key, 1, &needs),
                Err(Refusal::NoJob)
            );
            return;
        };
        job.round += 1;
        let (round, in_pool) = (job.round, job.in_pool().count());
        let (leases, happened) = self
            .pools
            .lease(self.now, &key, round, &needs)
            .expect("a new round");
        self.follow(&key, &happened);
        assert_eq!(
            leases.len(),
            in_pool.min(needs.len()),
            "as many as there are"
        );
        let job = &self.jobs[&key];
        let has_failed = |rank: ProcessNumber| {
            needs
                .iter()
                .any(|need| need.failed.domain == job.spares[&rank].domain)
        };
        let others = job
            .in_pool()
            .filter(|(_, known)| known.does == SpareState::Idle);
        let is_another = others.map(|(&rank, _)| rank).any(|rank| !has_failed(rank));
        let in_failed = leases.iter().any(|lease| has_failed(lease.rank));
        assert!(
            !(in_failed && is_another),
            "a spare in a failed domain, although there are others"
        );
        for &lease in &leases {
            assert!(needs.iter().any(|need| need.worker == lease.worker));
            self.record_new(lease.token);
            self.leases.push((key.clone(), lease));
        }
        self.requests.push((key, round, needs, leases));
    }

    /// Repeats a request: the answer is the same, or a refusal after a later round.
    fn repeat(&mut self, (key, round, needs, leases): Request) {
        let answer = self.pools.lease(self.now, &key, round, &needs);
        match self.jobs.get(&key) {
            None => assert_eq!(answer, Err(Refusal::NoJob)),
            Some(job) if job.round > round => assert_eq!(answer, Err(Refusal::LateRound)),
            Some(_) => assert_eq!(answer, Ok((leases, Vec::new()))),
        }
    }

    fn with_ticket(
        &mut self,
        at: u8,
        act: impl Fn(&mut Pools, Duration, &JobKey, SpareTicket) -> Result<Vec<PoolChange>, Refusal>,
    ) {
        let Some((key, rank, ticket)) = pick(&self.tickets, at) else {
            return;
        };
        let spare = self.jobs.get(&key).and_then(|job| job.spares.get(&rank));
        let is_in_force = spare.is_some_and(|known| known.does != SpareState::Plays);
        match act(&mut self.pools, self.now, &key, ticket) {
            Ok(happened) => {
                assert!(is_in_force);
                self.follow(&key, &happened);
            }
            Err(refusal) => assert!(!is_in_force, "{refusal}"),
        }
    }

    fn beat(&mut self, at: u8) {
        let now = self.now;
        self.with_ticket(at, |pools, now, key, ticket| {
            pools.beat(now, key, ticket).map(|()| Vec::new())
        });
        if let Some((key, rank, _)) = pick(&self.tickets, at)
            && let Some(known) = self
                .jobs
                .get_mut(&key)
                .and_then(|job| job.spares.get_mut(&rank))
        {
            known.last_beat = now;
        }
    }

    /// Advances time, with a tick at every deadline that the pools return.
    fn pass(&mut self, until: Duration) {
        while let Some(deadline) = self
            .pools
            .next_deadline()
            .filter(|deadline| *deadline <= until)
        {
            self.now = self.now.max(deadline);
            for (key, happened) in self.pools.tick(self.now) {
                self.follow(&key, &happened);
            }
            let next = self.pools.next_deadline();
            assert!(
                next.is_none_or(|next| next > self.now),
                "it would wake for ever"
            );
        }
        self.now = until;
        for job in self.jobs.values() {
            for (rank, known) in job.in_pool() {
                assert!(
                    known.last_beat + RULES.silence > until,
                    "rank {rank} has failed, and was not detected"
                );
            }
        }
        self.check_minimum();
    }

    fn check_minimum(&self) {
        for (key, job) in &self.jobs {
            let Some(limits) = job.limits else { continue };
            let there = job.in_pool().count() as u32 + self.pools.job(key).expect("there").wanted();
            let is_leaving = job
                .left
                .is_some_and(|left| left + RULES.replenish > self.now);
            assert!(
                there >= limits.minimum || is_leaving,
                "{key:?} wants more spares, and none were requested"
            );
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Register {
                job,
                rank,
                maximum,
                minimum,
            } => {
                let (minimum, maximum) = (u32::from(*minimum), u32::from(*maximum));
                self.register(
                    key(*job),
                    ProcessNumber(u32::from(*rank)),
                    SpareLimits { minimum, maximum },
                );
            }
            Step::Beat { ticket } => self.beat(*ticket),
            Step::Lease {
                job,
                workers,
                failed,
                copy,
            } => {
                self.lease(key(*job), workers, u32::from(*failed), u32::from(*copy));
            }
            Step::Repeat { request } => {
                if let Some(request) = pick(&self.requests, *request) {
                    self.repeat(request);
                }
            }
            Step::GiveBack { lease } => self.give_back(*lease),
            Step::Play { ticket } => self.with_ticket(*ticket, |pools, now, key, ticket| {
                pools.took_over(now, key, ticket, Worker(0))
            }),
            Step::Leave { ticket } => self.with_ticket(*ticket, |pools, now, key, ticket| {
                pools.leave(now, key, ticket)
            }),
            Step::Lost { ticket } => self.with_ticket(*ticket, |pools, now, key, ticket| {
                pools.lost(now, key, ticket)
            }),
            Step::Close { job } => {
                assert_eq!(
                    self.pools.close(&key(*job)),
                    self.jobs.remove(&key(*job)).is_some()
                );
                // A later job with this name has none of these requests.
                self.requests.retain(|request| request.0 != key(*job));
            }
            Step::Pass { millis } => {
                self.pass(self.now + Duration::from_millis(u64::from(*millis)))
            }
        }
        self.compare();
    }

    fn give_back(&mut self, at: u8) {
        let Some((key, lease)) = pick(&self.leases, at) else {
            return;
        };
        if let Ok(happened) = self.pools.give_back(&key, lease.token) {
            assert_eq!(
                happened,
                [PoolChange::Returned {
                    rank: lease.rank,
                    worker: lease.worker
                }]
            );
            self.follow(&key, &happened);
        }
    }

    /// Compares the pools with the model.
    fn compare(&self) {
        assert_eq!(self.pools.jobs().count(), self.jobs.len());
        for (key, model) in &self.jobs {
            let job = self.pools.job(key).expect("there");
            let pool: Vec<(ProcessNumber, Option<Worker>)> = job
                .spares()
                .map(|view| (view.spare.rank, view.leased))
                .collect();
            let expected = model.in_pool().map(|(&rank, known)| match known.does {
                SpareState::Leased(worker) => (rank, Some(worker)),
                _ => (rank, None),
            });
            assert_eq!(pool, expected.collect::<Vec<_>>());
        }
    }
}

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
