//! Handling of messages, without sockets.

use super::metrics::{self, Counters};
use super::ring::{self, Rings};
use crate::pool::{JobKey, PoolChange, Pools, Rules};
use std::collections::BTreeMap;
use std::time::Duration;
use understudy_wire::spares::{Refusal, SpareTicket};
use understudy_wire::{Answer, Event, JobStatus, Request, SpareStatus, auth, encode};

/// Longest name of a job, host or domain, in bytes.
const MAX_NAME_LENGTH: usize = 512;
/// Time after which a job without spares is removed, if its launcher cannot be checked.
const LINGER: Duration = Duration::from_secs(60);

/// Identity of a client.
#[derive(Debug)]
pub(super) enum ClientIdentity {
    /// Client over TCP that has not authenticated.
    Unauthenticated {
        /// Nonce of its challenge.
        nonce: [u8; 32],
    },
    /// Client that belongs to this realm.
    Authenticated {
        realm: u32,
        /// Job and ticket, if the client is a spare.
        spare: Option<(JobKey, SpareTicket)>,
    },
}

impl ClientIdentity {
    /// A client of this user on this node.
    pub(super) const OWN: ClientIdentity = ClientIdentity::Authenticated {
        realm: 0,
        spare: None,
    };
}

/// Reply to a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Nothing,
    Send(Answer),
    /// Sends this reason, and ends the connection.
    End(String),
}

/// State of the daemon.
#[derive(Debug)]
pub(super) struct Service {
    pools: Pools,
    rings: Rings,
    pub(super) counters: Counters,
    tokens: Vec<Vec<u8>>,
    /// Jobs without spares, with the time at which each has lost its last spare.
    empty: BTreeMap<JobKey, Duration>,
}

impl Service {
    pub(super) fn new(rules: Rules, first_token: u64, tokens: Vec<Vec<u8>>) -> Self {
        Self {
            pools: Pools::new(rules, first_token),
            rings: Rings::default(),
            counters: Counters::default(),
            tokens,
            empty: BTreeMap::new(),
        }
    }

    /// Handles a message of a client.
    pub(super) fn handle(
        &mut self,
        now: Duration,
        identity: &mut ClientIdentity,
        request: Request,
    ) -> Reply {
        let (realm, spare) = match identity {
            ClientIdentity::Unauthenticated { nonce } => {
                let Request::Prove { proof } = request else {
                    return Reply::End("a proof of the token is needed first".into());
                };
                let Some(token) =
                    auth::verify(auth::ProofPurpose::Client, &self.tokens, nonce, &proof)
                else {
                    return Reply::End("wrong token".into());
                };
                let realm = token as u32 + 1;
                *identity = ClientIdentity::Authenticated { realm, spare: None };
                return Reply::Send(Answer::Welcome);
            }
            ClientIdentity::Authenticated { realm, spare } => (*realm, spare),
        };
        match request {
            Request::Prove { .. } => Reply::End("no proof is needed here".into()),
            Request::Register {
                job,
                spare: description,
                limits,
            } => {
                if [&job, &description.host, &description.domain]
                    .iter()
                    .any(|name| name.len() > MAX_NAME_LENGTH)
                {
                    return Reply::End("a name is too long".into());
                }
                let key = JobKey { realm, name: job };
                if spare.as_ref().is_some_and(|(known, _)| *known != key) {
                    return Reply::End("a connection belongs to one spare".into());
                }
                let registered = self.pools.register(now, &key, description, limits);
                let answer = registered.map(|(ticket, changes)| {
                    *spare = Some((key.clone(), ticket));
                    self.record(&key, &changes);
                    Answer::Welcome
                });
                self.answer(answer)
            }
            Request::Beat => self.answer_spare(spare, |pools, key, ticket| {
                pools.beat(now, key, ticket).map(|()| Vec::new())
            }),
            Request::Replaced { worker } => {
                let reply = self.answer_spare(spare, |pools, key, ticket| {
                    pools.took_over(now, key, ticket, worker)
                });
                *spare = None;
                reply
            }
            Request::Leave => {
                let reply =
                    self.answer_spare(spare, |pools, key, ticket| pools.leave(now, key, ticket));
                *spare = None;
                reply
            }
            Request::Lease { job, round, needs } => {
                let key = JobKey { realm, name: job };
                let leased = self.pools.lease(now, &key, round, &needs);
                let answer = leased.map(|(leases, changes)| {
                    self.record(&key, &changes);
                    Answer::Leased(leases)
                });
                self.answer(answer)
            }
            Request::Replenish { job, spares, aim } => {
                let key = JobKey { realm, name: job };
                let count = self.pools.may_start(&key, spares, aim);
                self.counters.started += u64::from(count);
                Reply::Send(Answer::Start { count })
            }
            Request::GiveBack { job, token } => {
                let key = JobKey { realm, name: job };
                match self.pools.give_back(&key, token) {
                    Ok(changes) => self.record(&key, &changes),
                    Err(_) => self.counters.refused += 1,
                }
                Reply::Nothing
            }
            Request::Status => Reply::Send(self.status(realm)),
        }
    }

    fn answer(&mut self, answer: Result<Answer, Refusal>) -> Reply {
        Reply::Send(answer.unwrap_or_else(|refusal| {
            self.counters.refused += 1;
            Answer::Refused(refusal)
        }))
    }

    /// Answers a registered spare.
    ///
    /// A spare whose ticket is not in force any more (silent for too long) is disconnected, and
    /// must connect again.
    fn answer_spare(
        &mut self,
        spare: &Option<(JobKey, SpareTicket)>,
        act: impl FnOnce(&mut Pools, &JobKey, SpareTicket) -> Result<Vec<PoolChange>, Refusal>,
    ) -> Reply {
        let Some((key, ticket)) = spare else {
            return Reply::End("this connection does not belong to a spare".into());
        };
        match act(&mut self.pools, key, *ticket) {
            Ok(changes) => {
                self.record(key, &changes);
                Reply::Nothing
            }
            Err(refusal) => {
                self.counters.refused += 1;
                Reply::End(refusal.to_string())
            }
        }
    }

    /// Handles the end of a connection; a spare that has not left normally is dead.
    pub(super) fn connection_ended(&mut self, now: Duration, identity: &ClientIdentity) {
        if let ClientIdentity::Authenticated {
            spare: Some((key, ticket)),
            ..
        } = identity
            && let Ok(changes) = self.pools.lost(now, key, *ticket)
        {
            self.record(key, &changes);
        }
    }

    /// Performs all actions that are due; returns true if a job has ended.
    pub(super) fn tick(&mut self, now: Duration, is_alive: impl Fn(u32) -> bool) -> bool {
        for (key, changes) in self.pools.tick(now) {
            self.record(&key, &changes);
        }
        let without_spares = self
            .pools
            .jobs()
            .filter(|(_, job)| job.spares().next().is_none());
        let empty: Vec<JobKey> = without_spares.map(|(key, _)| key.clone()).collect();
        self.empty.retain(|key, _| empty.contains(key));
        let mut has_a_job_ended = false;
        for key in empty {
            let since = *self.empty.entry(key.clone()).or_insert(now);
            let launcher = self.pools.job(&key).map_or(0, |job| job.launcher());
            let has_ended = match (key.realm, launcher) {
                // The launcher of a job on another node cannot be checked.
                (1.., _) | (_, 0) => since + LINGER <= now,
                (0, launcher) => !is_alive(launcher),
            };
            if has_ended {
                self.pools.close(&key);
                self.empty.remove(&key);
                self.rings.end(&key);
                has_a_job_ended = true;
            }
        }
        has_a_job_ended
    }

    /// Returns the time at which [`Service::tick`] must be called at the latest.
    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        // The launcher of a job without spares does not report its end, so it is polled.
        let launcher_poll = (!self.empty.is_empty()).then(|| now + Duration::from_secs(1));
        [self.pools.next_deadline(), launcher_poll]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn metrics(&self, connections: usize) -> String {
        metrics::text(&self.pools, &self.counters, connections)
    }

    /// Returns the status of all jobs of a realm.
    ///
    /// The status has fewer events, or else fewer jobs, if the message would be too long.
    fn status(&self, realm: u32) -> Answer {
        let of_realm = self.rings.jobs().filter(|(key, _)| key.realm == realm);
        let mut status: Vec<JobStatus> = of_realm
            .map(|(key, events)| self.job_status(key, events))
            .collect();
        loop {
            let answer = Answer::Status(status.clone());
            if encode(&answer).is_some() {
                return answer;
            }
            match status.iter().map(|job| job.events.len()).max() {
                None | Some(0) => status.truncate(status.len() / 2),
                Some(longest) => {
                    for job in &mut status {
                        let excess = job.events.len().saturating_sub(longest / 2);
                        job.events.drain(..excess);
                    }
                }
            }
        }
    }

    fn job_status(&self, key: &JobKey, events: Vec<Event>) -> JobStatus {
        let job = self.pools.job(key);
        let spares = job.into_iter().flat_map(|job| job.spares());
        JobStatus {
            job: key.name.clone(),
            spares: spares
                .map(|view| SpareStatus {
                    spare: view.spare.clone(),
                    leased: view.leased,
                })
                .collect(),
            replacements: job
                .into_iter()
                .flat_map(|job| job.active_spares())
                .collect(),
            wanted: job.map_or(0, |job| job.wanted()),
            events,
        }
    }

    fn record(&mut self, key: &JobKey, changes: &[PoolChange]) {
        for change in changes {
            let count = &mut self.counters;
            match change {
                PoolChange::Registered { .. } => count.registered += 1,
                PoolChange::Left { .. } => {}
                PoolChange::Died { .. } => count.died += 1,
                PoolChange::Leased { .. } => count.leased += 1,
                PoolChange::Returned { .. } => count.returned += 1,
                PoolChange::TookOver { .. } => count.took_over += 1,
                PoolChange::Wanted { count: wanted } => count.wanted += u64::from(*wanted),
            }
            self.rings.note(key, ring::text(change));
        }
    }
}
