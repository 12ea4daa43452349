//! Verdicts on a job, from the states of its inactive processes.

#[cfg(test)]
mod job_watch_tests;

use super::HangLimits;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_messages::Activity;
use understudy_numbers::ProcessNumber;

/// Number of ranks of a class that are named one by one.
const MAX_NAMED: usize = 2;
/// Limit of replacements of a rank that is inactive in the same place.
const MAX_REPLACEMENTS: u32 = 2;
/// Largest part of all ranks in an odd class of several ranks.
const ODD_PART: usize = 100;

/// Reaction to a hang.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HangAction {
    Print(String),
    /// Kills a process, which is then replaced.
    Replace(ProcessNumber),
    /// Ends the job: a rank hangs at the same place again and again.
    GiveUp,
}

/// Inactive processes of a job.
///
/// The job is judged one sampling period after a report, when other guardians have reported
/// processes that have become inactive at the same time.
#[derive(Debug)]
pub struct JobWatch {
    limits: HangLimits,
    /// Time of the next judgement.
    judgement_at: Option<Duration>,
    /// Start of the generation that runs.
    generation_began: Option<Duration>,
    /// True if processes that cause a hang are replaced.
    replaces: bool,
    inactive: BTreeMap<ProcessNumber, Activity>,
    /// Stopped and blocked processes that were reported.
    reported: BTreeSet<ProcessNumber>,
    /// Crawling processes that were reported, each once.
    crawled: BTreeSet<ProcessNumber>,
    /// True if the user was notified that nothing moves.
    has_reported_job: bool,
    /// Numbers of replacements by rank and state.
    replacements: BTreeMap<(usize, Activity), u32>,
}

impl JobWatch {
    /// Returns the watch of a job; `replaces` is true with UNDERSTUDY_ON_HANG=replace.
    pub fn new(limits: HangLimits, replaces: bool) -> JobWatch {
        JobWatch {
            limits,
            judgement_at: None,
            generation_began: None,
            replaces,
            inactive: BTreeMap::new(),
            reported: BTreeSet::new(),
            crawled: BTreeSet::new(),
            has_reported_job: false,
            replacements: BTreeMap::new(),
        }
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, number: ProcessNumber) {
        self.inactive.remove(&number);
        self.reported.remove(&number);
        self.has_reported_job = false;
    }

    /// Forgets all processes that do not live any more.
    pub fn retain(&mut self, lives: impl Fn(ProcessNumber) -> bool) {
        self.inactive.retain(|&number, _| lives(number));
        self.reported.retain(|&number| lives(number));
    }

    /// Records that a process has become inactive, or is active again (`None`).
    pub fn record(&mut self, now: Duration, number: ProcessNumber, state: Option<Activity>) {
        match state {
            Some(state) => drop(self.inactive.insert(number, state)),
            None => return self.forget(number),
        }
        let judgement_at = now + self.limits.period();
        self.judgement_at.get_or_insert(judgement_at);
    }

    /// Records that a generation has begun.
    ///
    /// States of its processes may be older: they are reported when the next samples are taken.
    pub fn note_generation(&mut self, now: Duration) {
        self.generation_began = Some(now);
    }

    /// Returns the time at which [`JobWatch::judge`] must be called.
    pub fn deadline(&self) -> Option<Duration> {
        self.judgement_at
    }

    /// Judges the job if it is time.
    ///
    /// `ranks` has the process of each rank of the generation that runs, and is empty if none runs.
    /// `host` returns the name of a process's host.
    pub fn judge(
        &mut self,
        now: Duration,
        ranks: &[ProcessNumber],
        host: impl Fn(ProcessNumber) -> String,
    ) -> Vec<HangAction> {
        if self.judgement_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.judgement_at = None;
        let is_stopped =
            |number: &ProcessNumber| matches!(self.inactive.get(number), Some(Activity::Stopped));
        // The user, a terminal or a batch system has suspended the job.
        if !ranks.is_empty() && ranks.iter().all(is_stopped) {
            self.reported.extend(ranks);
            return Vec::new();
        }
        let mut actions = self.report_halted(&host);
        if self.replaces && !actions.is_empty() {
            return actions;
        }
        actions.extend(self.report_crawling(ranks, &host));
        let is_inactive = |number: &ProcessNumber| {
            let state = self.inactive.get(number);
            let moves =
                |state: &Activity| matches!(state, Activity::Traced | Activity::Crawling { .. });
            state.is_some_and(|state| !moves(state))
        };
        if !ranks.is_empty() && ranks.iter().all(is_inactive) && !self.has_reported_job {
            let due = self
                .generation_began
                .map_or(now, |began| began + self.limits.any);
            if now < due {
                self.judgement_at = Some(due);
                return actions;
            }
            self.has_reported_job = true;
            actions.extend(self.report_job(ranks, &host));
        }
        actions
    }

    /// Reports processes that signals have stopped or that are blocked in the kernel.
    fn report_halted(&mut self, host: impl Fn(ProcessNumber) -> String) -> Vec<HangAction> {
        let mut actions = Vec::new();
        for (&number, state) in &self.inactive {
            let is_halted = matches!(state, Activity::Stopped | Activity::Blocked { .. });
            if !is_halted || !self.reported.insert(number) {
                continue;
            }
            let advice = match (self.replaces, state) {
                (true, _) => "it is killed and replaced (--on-hang)".to_owned(),
                (false, Activity::Stopped) => {
                    format!("`kill -CONT` continues it, `understudy replace {number}` replaces it")
                }
                (false, _) => format!("`understudy replace {number}` replaces it"),
            };
            let text = message::rank_inactive(number, host(number), state, advice);
            actions.push(HangAction::Print(text.to_string()));
            if self.replaces {
                actions.push(HangAction::Replace(number));
            }
        }
        actions
    }

    /// Reports ranks that are much slower than most; they are never replaced without a request.
    ///
    /// Most ranks crawl only if the nodes have fewer processors than ranks.
    fn report_crawling(
        &mut self,
        ranks: &[ProcessNumber],
        host: impl Fn(ProcessNumber) -> String,
    ) -> Vec<HangAction> {
        let crawls = |number: &&ProcessNumber| {
            matches!(self.inactive.get(number), Some(Activity::Crawling { .. }))
        };
        let crawling: Vec<ProcessNumber> = ranks.iter().filter(crawls).copied().collect();
        if 2 * crawling.len() > ranks.len() {
            return Vec::new();
        }
        let new = crawling
            .into_iter()
            .filter(|&number| self.crawled.insert(number));
        let report = |number| {
            let advice = format!("`understudy replace {number}` replaces it");
            let state = &self.inactive[&number];
            let text = message::rank_inactive(number, host(number), state, advice);
            HangAction::Print(text.to_string())
        };
        new.map(report).collect()
    }

    fn report_job(
        &mut self,
        ranks: &[ProcessNumber],
        host: impl Fn(ProcessNumber) -> String,
    ) -> Vec<HangAction> {
        let classes = classes(ranks, &self.inactive);
        let parts: Vec<String> = classes
            .iter()
            .map(|(state, members)| describe(state, members, &host))
            .collect();
        let text = message::job_inactive(in_words(self.limits.any), parts.join("; "));
        let mut actions = vec![HangAction::Print(text.to_string())];
        if !self.replaces {
            return actions;
        }
        for &number in odd_ranks(&classes, ranks.len()) {
            // The process was reported and replaced already.
            if self.reported.contains(&number) {
                continue;
            }
            let rank = ranks.iter().position(|&rank| rank == number);
            let state = self.inactive[&number].clone();
            let count = self
                .replacements
                .entry((rank.unwrap_or_default(), state))
                .or_default();
            *count += 1;
            if *count > MAX_REPLACEMENTS {
                let text = message::hang_repeats(number, host(number), *count);
                actions.extend([HangAction::Print(text.to_string()), HangAction::GiveUp]);
                return actions;
            }
            actions.push(HangAction::Replace(number));
        }
        actions
    }
}

type Class = (Activity, Vec<ProcessNumber>);

/// Returns the classes of ranks in equal states, the largest first.
fn classes(ranks: &[ProcessNumber], inactive: &BTreeMap<ProcessNumber, Activity>) -> Vec<Class> {
    let mut by_state: BTreeMap<&Activity, Vec<ProcessNumber>> = BTreeMap::new();
    for number in ranks {
        by_state.entry(&inactive[number]).or_default().push(*number);
    }
    let mut classes: Vec<Class> = by_state
        .into_iter()
        .map(|(state, members)| (state.clone(), members))
        .collect();
    classes.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    classes
}

/// Returns the ranks for which the other ranks probably wait.
///
/// Ranks outside of MPI are odd if they are at most half of all. Without such ranks, the ranks of
/// small classes are odd if most ranks are in one class.
fn odd_ranks(classes: &[Class], count: usize) -> Vec<&ProcessNumber> {
    let is_outside = |state: &Activity| !matches!(state, Activity::InCall(_));
    let members = |is_odd: &dyn Fn(&Class) -> bool| {
        let odd = classes.iter().filter(|class| is_odd(class));
        odd.flat_map(|(_, members)| members).collect::<Vec<_>>()
    };
    let outside = members(&|(state, _)| is_outside(state));
    if !outside.is_empty() {
        return if 2 * outside.len() <= count {
            outside
        } else {
            Vec::new()
        };
    }
    let largest = classes.first().map_or(0, |(_, members)| members.len());
    if 2 * largest <= count {
        return Vec::new();
    }
    members(&|(_, members)| members.len() <= (count / ODD_PART).max(1))
}

fn describe(
    state: &Activity,
    members: &[ProcessNumber],
    host: impl Fn(ProcessNumber) -> String,
) -> String {
    let named: Vec<String> = members
        .iter()
        .map(|&number| format!("rank {number} on {}", host(number)))
        .collect();
    match named.as_slice() {
        [one] => format!("{one} is {state}"),
        [first @ .., last] if named.len() <= MAX_NAMED => {
            format!("{} and {last} are {state}", first.join(", "))
        }
        _ => format!("{} ranks are {state}", members.len()),
    }
}

/// Returns a time as the user would write it.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        120.. => format!("{} min", time.as_secs() / 60),
        seconds @ 10.. => format!("{seconds} s"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
