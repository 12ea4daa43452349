//! Pools in simulated time, with their model.

use crate::pool_model::{JobModel, ModelSpare, SpareState};
use crate::step::Step;
use std::collections::BTreeMap;
use std::time::Duration;
use understudy_daemon::pool::{JobKey, PoolChange, Pools, Rules};
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_wire::spares::{
    Lease, LeaseToken, ProcessLocation, Refusal, Spare, SpareLimits, SpareNeed, SpareTicket,
};

/// Rules of the pools.
pub const RULES: Rules = Rules {
    silence: Duration::from_millis(1000),
    lease: Duration::from_millis(700),
    replenish: Duration::from_millis(1500),
    jobs: 3,
    needs: 16,
    spares: u32::MAX,
};
const DOMAINS: u32 = 3;

type Request = (JobKey, u64, Vec<SpareNeed>, Vec<Lease>);

pub struct World {
    pools: Pools,
    now: Duration,
    jobs: BTreeMap<JobKey, JobModel>,
    tickets: Vec<(JobKey, ProcessNumber, SpareTicket)>,
    leases: Vec<(JobKey, Lease)>,
    requests: Vec<Request>,
    tokens: Vec<LeaseToken>,
}

/// Returns one of five keys; two of them have the same name in different realms.
pub fn key(job: u8) -> JobKey {
    JobKey {
        realm: u32::from(job / 4),
        name: format!("job{}", job % 4),
    }
}

pub fn place(number: u32) -> ProcessLocation {
    ProcessLocation {
        host: format!("h{}", number % (2 * DOMAINS)),
        domain: format!("d{}", number % DOMAINS),
    }
}

/// Returns the item at `number` modulo the number of items.
fn pick<T: Clone>(items: &[T], number: u8) -> Option<T> {
    (!items.is_empty()).then(|| items[number as usize % items.len()].clone())
}

impl World {
    pub fn new() -> Self {
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
        let job = self.jobs.get_mut(key).expect("the model has the job");
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
                        "the pool does not report the death of a former spare"
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
                        "as many spares are requested as are missing"
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
            "leases are as many as workers or spares"
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

    /// Repeats a request.
    ///
    /// The answer is the same, or a refusal after a later round or the end of the job.
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
                "the deadline is in the past, so that a daemon would never sleep"
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

    pub fn take(&mut self, step: &Step) {
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
