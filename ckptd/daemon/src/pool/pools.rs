//! The pools of all jobs that a daemon serves.

use super::job_pool::JobPool;
use super::pool_change::PoolChange;
use super::rules::{JobKey, Rules};
use std::collections::BTreeMap;
use std::time::Duration;
use understudy_numbers::Worker;
use understudy_wire::spares::{
    Lease, LeaseToken, Refusal, Spare, SpareLimits, SpareNeed, SpareTicket,
};

/// The pools of all jobs.
#[derive(Debug)]
pub struct Pools {
    rules: Rules,
    jobs: BTreeMap<JobKey, JobPool>,
    last_token: u64,
}

impl Pools {
    /// Returns pools without jobs.
    ///
    /// Tokens are numbered from `first_token + 1`. `first_token` must differ between starts of the
    /// daemon, so that tokens of a former daemon are refused.
    pub fn new(rules: Rules, first_token: u64) -> Self {
        Self {
            rules,
            jobs: BTreeMap::new(),
            last_token: first_token,
        }
    }

    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &JobPool)> {
        self.jobs.iter()
    }

    pub fn job(&self, key: &JobKey) -> Option<&JobPool> {
        self.jobs.get(key)
    }

    /// Adds a spare to the pool of its job, which is created if necessary.
    ///
    /// A repeated registration with the same process id replaces the ticket, because only the
    /// connection was lost.
    pub fn register(
        &mut self,
        now: Duration,
        key: &JobKey,
        spare: Spare,
        limits: SpareLimits,
    ) -> Result<(SpareTicket, Vec<PoolChange>), Refusal> {
        limits.check()?;
        if !self.jobs.contains_key(key) && self.jobs.len() >= self.rules.jobs {
            return Err(Refusal::TooManyJobs);
        }
        let token = self.token();
        let job = self
            .jobs
            .entry(key.clone())
            .or_insert_with(|| JobPool::new(limits));
        let changes = job.register(now, &self.rules, spare, limits, token)?;
        Ok((SpareTicket { token }, changes))
    }

    /// Extends the time limit of a spare in the pool, idle or leased.
    pub fn beat(
        &mut self,
        now: Duration,
        key: &JobKey,
        ticket: SpareTicket,
    ) -> Result<(), Refusal> {
        let deadline = now + self.rules.silence;
        self.job_mut(key)?.member(ticket)?.deadline = deadline;
        Ok(())
    }

    /// Removes a spare that has taken over from a worker.
    pub fn took_over(
        &mut self,
        now: Duration,
        key: &JobKey,
        ticket: SpareTicket,
        worker: Worker,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rules = self.rules;
        self.job_mut(key)?.took_over(now, &rules, ticket, worker)
    }

    /// Removes a spare that leaves by itself.
    pub fn leave(
        &mut self,
        now: Duration,
        key: &JobKey,
        ticket: SpareTicket,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rules = self.rules;
        self.job_mut(key)?.leave(now, &rules, ticket)
    }

    /// Removes a spare that is dead, as its connection or node shows.
    ///
    /// A ticket that was replaced is refused.
    pub fn lost(
        &mut self,
        now: Duration,
        key: &JobKey,
        ticket: SpareTicket,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rules = self.rules;
        self.job_mut(key)?.lost(now, &rules, ticket)
    }

    /// Leases the available spares for failed workers, in the order of `needs`.
    ///
    /// The numbers of a job's rounds increase.
    pub fn lease(
        &mut self,
        now: Duration,
        key: &JobKey,
        round: u64,
        needs: &[SpareNeed],
    ) -> Result<(Vec<Lease>, Vec<PoolChange>), Refusal> {
        if needs.len() > self.rules.needs {
            return Err(Refusal::TooManyNeeds);
        }
        let load = self.load();
        let rules = self.rules;
        let mut last_token = self.last_token;
        let answer = self
            .job_mut(key)?
            .lease(now, &rules, round, needs, &load, || {
                last_token = last_token.wrapping_add(1);
                LeaseToken(last_token)
            });
        self.last_token = last_token;
        answer
    }

    /// Ends an unused lease; a lease that is no longer in force is refused.
    pub fn give_back(
        &mut self,
        key: &JobKey,
        token: LeaseToken,
    ) -> Result<Vec<PoolChange>, Refusal> {
        self.job_mut(key)?.give_back(token)
    }

    /// Returns the number of spares that a job may start.
    ///
    /// The job has `spares` idle spares and wants `aim`. The limit of idle spares applies to all
    /// jobs together, and also to a job of which no spare has registered.
    pub fn may_start(&self, key: &JobKey, spares: u32, aim: u32) -> u32 {
        let others = self.jobs.iter().filter(|(other, _)| *other != key);
        let idle: usize = others.map(|(_, job)| job.spares().count()).sum();
        let remaining = self
            .rules
            .spares
            .saturating_sub(idle as u32)
            .saturating_sub(spares);
        aim.saturating_sub(spares).min(remaining)
    }

    /// Removes the pool of a job that has ended; returns false if there was none.
    pub fn close(&mut self, key: &JobKey) -> bool {
        self.jobs.remove(key).is_some()
    }

    /// Performs all actions that are due.
    ///
    /// Silent spares become dead, unconfirmed leases end, and missing spares are requested.
    pub fn tick(&mut self, now: Duration) -> Vec<(JobKey, Vec<PoolChange>)> {
        let rules = self.rules;
        let due = self
            .jobs
            .iter_mut()
            .map(|(key, job)| (key.clone(), job.tick(now, &rules)));
        due.filter(|(_, changes)| !changes.is_empty()).collect()
    }

    /// Returns the time at which [`Pools::tick`] must be called at the latest.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.jobs.values().filter_map(JobPool::next_deadline).min()
    }

    /// Returns the load of each host, over all jobs.
    ///
    /// The load is the sum of [`JobPool::load`].
    fn load(&self) -> BTreeMap<String, u32> {
        let mut load = BTreeMap::new();
        for job in self.jobs.values() {
            for (host, count) in job.load() {
                *load.entry(host).or_insert(0) += count;
            }
        }
        load
    }

    fn job_mut(&mut self, key: &JobKey) -> Result<&mut JobPool, Refusal> {
        self.jobs.get_mut(key).ok_or(Refusal::NoJob)
    }

    fn token(&mut self) -> LeaseToken {
        self.last_token = self.last_token.wrapping_add(1);
        LeaseToken(self.last_token)
    }
}
