//! The pool of one job.

use super::lease;
use super::pool_change::PoolChange;
use super::rules::Rules;
use std::collections::BTreeMap;
use std::time::Duration;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::spares::{
    Lease, LeaseToken, Refusal, Spare, SpareLimits, SpareNeed, SpareTicket,
};

/// State of a spare in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LeaseState {
    Idle,
    Leased {
        worker: Worker,
        token: LeaseToken,
        until: Duration,
    },
}

/// A spare in the pool.
#[derive(Debug, Clone)]
pub(super) struct Member {
    spare: Spare,
    ticket: SpareTicket,
    /// Time at which the spare counts as dead if it sends no beat.
    pub(super) deadline: Duration,
    state: LeaseState,
}

/// A spare, as reported to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpareView<'a> {
    /// Description that the spare has sent.
    pub spare: &'a Spare,
    /// Worker for which the spare is leased.
    pub leased: Option<Worker>,
}

/// Spares that were requested and have not registered.
#[derive(Debug, Default)]
struct ExpectedSpares {
    count: u32,
    /// Time after which missing spares are requested again.
    until: Duration,
}

/// The last round of leases.
#[derive(Debug)]
struct LeaseRound {
    number: u64,
    needs: Vec<SpareNeed>,
    leases: Vec<Lease>,
}

/// The spares of a job, their leases, and requests for new spares.
#[derive(Debug)]
pub struct JobPool {
    limits: SpareLimits,
    /// Process that has started the job's ranks, if it is on this node; otherwise 0.
    launcher: u32,
    members: BTreeMap<ProcessNumber, Member>,
    round: Option<LeaseRound>,
    /// Hosts of the spares that have taken over from workers.
    active_spares: BTreeMap<ProcessNumber, String>,
    expected: ExpectedSpares,
    /// Time before which no spares are requested.
    no_request_before: Duration,
}

impl JobPool {
    pub(super) fn new(limits: SpareLimits) -> Self {
        Self {
            limits,
            launcher: 0,
            members: BTreeMap::new(),
            round: None,
            active_spares: BTreeMap::new(),
            expected: ExpectedSpares::default(),
            no_request_before: Duration::ZERO,
        }
    }

    pub fn limits(&self) -> SpareLimits {
        self.limits
    }

    /// Returns the process that has started the job's ranks; 0 if unknown.
    ///
    /// The spare that has registered last has reported the process id.
    pub fn launcher(&self) -> u32 {
        self.launcher
    }

    pub fn spares(&self) -> impl Iterator<Item = SpareView<'_>> {
        self.members.values().map(|member| SpareView {
            spare: &member.spare,
            leased: match member.state {
                LeaseState::Idle => None,
                LeaseState::Leased { worker, .. } => Some(worker),
            },
        })
    }

    /// Returns the ranks of spares that have taken over from workers.
    pub fn active_spares(&self) -> impl Iterator<Item = ProcessNumber> + '_ {
        self.active_spares.keys().copied()
    }

    /// Returns the number of spares that were requested and have not registered.
    pub fn wanted(&self) -> u32 {
        self.expected.count
    }

    /// Returns the member with a ticket that is in force.
    pub(super) fn member(&mut self, ticket: SpareTicket) -> Result<&mut Member, Refusal> {
        let mut members = self.members.values_mut();
        members
            .find(|member| member.ticket == ticket)
            .ok_or(Refusal::Stale)
    }

    pub(super) fn register(
        &mut self,
        now: Duration,
        rules: &Rules,
        spare: Spare,
        limits: SpareLimits,
        token: LeaseToken,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let (ticket, deadline) = (SpareTicket { token }, now + rules.silence);
        if let Some(member) = self.members.get_mut(&spare.rank) {
            if member.spare.pid != spare.pid {
                return Err(Refusal::RankTaken);
            }
            (member.ticket, member.deadline, member.spare) = (ticket, deadline, spare);
            return Ok(Vec::new());
        }
        if self.active_spares.contains_key(&spare.rank) {
            return Err(Refusal::RankTaken);
        }
        if self.members.len() >= limits.maximum as usize {
            return Err(Refusal::Full);
        }
        (self.limits, self.launcher) = (limits, spare.launcher);
        self.expected.count = self.expected.count.saturating_sub(1);
        let rank = spare.rank;
        let state = LeaseState::Idle;
        let member = Member {
            spare,
            ticket,
            deadline,
            state,
        };
        self.members.insert(rank, member);
        Ok(vec![PoolChange::Registered { rank }])
    }

    pub(super) fn took_over(
        &mut self,
        now: Duration,
        rules: &Rules,
        ticket: SpareTicket,
        worker: Worker,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rank = self.member(ticket)?.spare.rank;
        if let Some(member) = self.members.remove(&rank) {
            self.active_spares.insert(rank, member.spare.host);
        }
        let mut changes = vec![PoolChange::TookOver { rank, worker }];
        changes.extend(self.replenish(now, rules));
        Ok(changes)
    }

    pub(super) fn leave(
        &mut self,
        now: Duration,
        rules: &Rules,
        ticket: SpareTicket,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rank = self.member(ticket)?.spare.rank;
        self.members.remove(&rank);
        // A spare leaves normally when the job ends. Requesting another one for a job that ends
        // would be in vain, so none is requested for a while.
        self.no_request_before = now + rules.replenish;
        Ok(vec![PoolChange::Left { rank }])
    }

    pub(super) fn lost(
        &mut self,
        now: Duration,
        rules: &Rules,
        ticket: SpareTicket,
    ) -> Result<Vec<PoolChange>, Refusal> {
        let rank = self.member(ticket)?.spare.rank;
        self.members.remove(&rank);
        let mut changes = vec![PoolChange::Died {
            rank,
            silent: false,
        }];
        changes.extend(self.replenish(now, rules));
        Ok(changes)
    }

    pub(super) fn lease(
        &mut self,
        now: Duration,
        rules: &Rules,
        number: u64,
        needs: &[SpareNeed],
        load: &BTreeMap<String, u32>,
        mut token: impl FnMut() -> LeaseToken,
    ) -> Result<(Vec<Lease>, Vec<PoolChange>), Refusal> {
        match &self.round {
            Some(round) if number < round.number => return Err(Refusal::LateRound),
            Some(round) if number == round.number && round.needs != needs => {
                return Err(Refusal::OtherNeeds);
            }
            Some(round) if number == round.number => return Ok((round.leases.clone(), Vec::new())),
            _ => {}
        }
        // Unconfirmed leases of an earlier round belong to a recovery that was abandoned.
        let mut changes = self.end_leases(|_| true);
        let idle: Vec<&Spare> = self.members.values().map(|member| &member.spare).collect();
        let mut leases = Vec::new();
        for (worker, rank) in lease::choose(&idle, needs, load) {
            let token = token();
            leases.push(Lease {
                worker,
                rank,
                token,
            });
        }
        for &Lease {
            worker,
            rank,
            token,
        } in &leases
        {
            let until = now + rules.lease;
            if let Some(member) = self.members.get_mut(&rank) {
                member.state = LeaseState::Leased {
                    worker,
                    token,
                    until,
                };
            }
            let round = number;
            changes.push(PoolChange::Leased {
                rank,
                worker,
                round,
            });
        }
        self.round = Some(LeaseRound {
            number,
            needs: needs.to_vec(),
            leases: leases.clone(),
        });
        Ok((leases, changes))
    }

    pub(super) fn give_back(&mut self, token: LeaseToken) -> Result<Vec<PoolChange>, Refusal> {
        let changes = self.end_leases(
            |member| matches!(member.state, LeaseState::Leased { token: own, .. } if own == token),
        );
        match changes.is_empty() {
            true => Err(Refusal::Stale),
            false => Ok(changes),
        }
    }

    /// Ends the leases of the members for which `is_affected` returns true.
    fn end_leases(&mut self, is_affected: impl Fn(&Member) -> bool) -> Vec<PoolChange> {
        let mut changes = Vec::new();
        for member in self
            .members
            .values_mut()
            .filter(|member| is_affected(member))
        {
            if let LeaseState::Leased { worker, .. } = member.state {
                member.state = LeaseState::Idle;
                let rank = member.spare.rank;
                changes.push(PoolChange::Returned { rank, worker });
            }
        }
        changes
    }

    pub(super) fn tick(&mut self, now: Duration, rules: &Rules) -> Vec<PoolChange> {
        let mut changes = Vec::new();
        self.members.retain(|&rank, member| {
            let is_alive = member.deadline > now;
            if !is_alive {
                changes.push(PoolChange::Died { rank, silent: true });
            }
            is_alive
        });
        let has_expired = |member: &Member| match member.state {
            LeaseState::Leased { until, .. } => until <= now,
            _ => false,
        };
        changes.extend(self.end_leases(has_expired));
        changes.extend(self.replenish(now, rules));
        changes
    }

    /// Requests spares if the registered and the expected ones are fewer than the minimum.
    ///
    /// Requests none for a while after a spare has left.
    fn replenish(&mut self, now: Duration, rules: &Rules) -> Option<PoolChange> {
        if self.expected.until <= now {
            self.expected.count = 0;
        }
        let count = self.missing();
        if count == 0 || self.no_request_before > now {
            return None;
        }
        self.expected.count += count;
        self.expected.until = now + rules.replenish;
        Some(PoolChange::Wanted { count })
    }

    /// Returns the number of spares that are neither registered nor expected.
    fn missing(&self) -> u32 {
        let present_or_expected = self.members.len() as u32 + self.expected.count;
        self.limits.minimum.saturating_sub(present_or_expected)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let members = self.members.values().flat_map(|member| {
            let until = match member.state {
                LeaseState::Idle => None,
                LeaseState::Leased { until, .. } => Some(until),
            };
            [Some(member.deadline), until]
        });
        let is_short = (self.members.len() as u32) < self.limits.minimum;
        let wanted = is_short.then_some(match self.missing() {
            0 => self.expected.until,
            _ => self.no_request_before,
        });
        members.chain([wanted]).flatten().min()
    }

    /// Returns the load of each host.
    ///
    /// The load is the largest number of workers that a spare on the host has reported, plus the
    /// number of spares on the host that are leased or have taken over.
    pub(super) fn load(&self) -> BTreeMap<String, u32> {
        let mut load = BTreeMap::<String, u32>::new();
        for member in self.members.values() {
            let workers = load.entry(member.spare.host.clone()).or_insert(0);
            *workers = (*workers).max(member.spare.workers);
        }
        let leased = self
            .members
            .values()
            .filter(|member| member.state != LeaseState::Idle);
        let hosts = leased
            .map(|member| &member.spare.host)
            .chain(self.active_spares.values());
        for host in hosts {
            *load.entry(host.clone()).or_insert(0) += 1;
        }
        load
    }
}
