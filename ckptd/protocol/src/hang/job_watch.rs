//! Verdicts on a job, from the states of its inactive processes.

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
    /// True if processes that cause a hang are replaced.
    replaces: bool,
    inactive: BTreeMap<ProcessNumber, Activity>,
    /// Stopped and blocked processes that were reported.
    reported: BTreeSet<ProcessNumber>,
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
            replaces,
            inactive: BTreeMap::new(),
            reported: BTreeSet::new(),
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
        let is_inactive = |number: &ProcessNumber| {
            let state = self.inactive.get(number);
            state.is_some_and(|state| *state != Activity::Traced)
        };
        if !ranks.is_empty() && ranks.iter().all(is_inactive) && !self.has_reported_job {
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

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_messages::CallPlace;

    const RANKS: [ProcessNumber; 4] = [
        ProcessNumber(0),
        ProcessNumber(5),
        ProcessNumber(2),
        ProcessNumber(3),
    ];

    fn in_call(procedure: &str) -> Activity {
        Activity::InCall(CallPlace {
            procedure: procedure.into(),
            address: "solver+0x4f2c".into(),
        })
    }

    fn idle() -> Activity {
        Activity::Idle {
            after: CallPlace::default(),
            kernel_function: String::new(),
        }
    }

    fn watch(replaces: bool) -> JobWatch {
        JobWatch::new(HangLimits::new(Duration::from_secs(300)), replaces)
    }

    /// Reports states of some ranks, and returns the judgement.
    fn judge(
        watch: &mut JobWatch,
        reports: impl IntoIterator<Item = (ProcessNumber, Option<Activity>)>,
    ) -> Vec<HangAction> {
        for (number, state) in reports {
            watch.record(Duration::ZERO, number, state);
        }
        let host = |number| format!("n{number}");
        assert_eq!(watch.judge(Duration::ZERO, &RANKS, host), []);
        watch.judge(Duration::from_secs(10), &RANKS, host)
    }

    /// Reports these states of the ranks, in order, and returns the judgement.
    fn report(watch: &mut JobWatch, states: [Activity; 4]) -> Vec<HangAction> {
        judge(watch, RANKS.into_iter().zip(states.map(Some)))
    }

    fn printed(actions: &[HangAction]) -> Vec<&str> {
        let texts = actions.iter().filter_map(|action| match action {
            HangAction::Print(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    #[test]
    fn a_stopped_rank_is_reported_before_the_job() {
        let waits = || in_call("MPI_Allreduce");
        let mut watch = watch(false);
        let actions = report(&mut watch, [waits(), Activity::Stopped, waits(), waits()]);
        let texts = printed(&actions);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(
            texts[0].contains("rank 5 on n5 is stopped (SIGSTOP)"),
            "{texts:?}"
        );
        assert!(
            texts[1].contains(
                "for 5 min: 3 ranks are in MPI_Allreduce at solver+0x4f2c; rank 5 on n5 is stopped \
                 (SIGSTOP)"
            ),
            "{texts:?}"
        );
        // Repeated reports are not printed again.
        assert_eq!(
            report(&mut watch, [waits(), Activity::Stopped, waits(), waits()]),
            []
        );
        // The job moves, and stands again.
        let again = judge(&mut watch, [(RANKS[0], None), (RANKS[0], Some(waits()))]);
        assert_eq!(printed(&again).len(), 1);
    }

    #[test]
    fn a_job_that_is_suspended_as_a_whole_is_not_reported() {
        let mut watch = watch(true);
        assert_eq!(report(&mut watch, [const { Activity::Stopped }; 4]), []);
        // The ranks continue one after the other.
        assert_eq!(judge(&mut watch, [(RANKS[0], None)]), []);
        assert_eq!(
            report(
                &mut watch,
                [
                    in_call("MPI_Recv"),
                    Activity::Stopped,
                    Activity::Stopped,
                    Activity::Stopped
                ]
            )
            .len(),
            1
        );
    }

    /// The leader would poll without a pause if a deadline remained.
    #[test]
    fn a_judgement_is_made_once_and_not_of_dead_processes() {
        let mut watch = watch(true);
        watch.record(Duration::ZERO, RANKS[1], Some(Activity::Stopped));
        let deadline = watch.deadline().expect("a judgement is due");
        watch.retain(|number| number != RANKS[1]);
        assert_eq!(watch.judge(deadline, &RANKS, |_| String::new()), []);
        assert_eq!(watch.deadline(), None);
    }

    #[test]
    fn a_debugged_rank_is_neither_reported_nor_replaced() {
        let waits = || in_call("MPI_Barrier");
        let states = [waits(), waits(), Activity::Traced, waits()];
        assert_eq!(report(&mut watch(true), states), []);
    }

    #[test]
    fn stopped_ranks_and_odd_ones_out_are_replaced_on_request() {
        let (some, other) = (|| in_call("MPI_Barrier"), || in_call("MPI_Recv"));
        for (states, replaced) in [
            ([some(), Activity::Stopped, some(), some()], vec![5]),
            ([some(), some(), other(), some()], vec![2]),
            ([some(), some(), idle(), some()], vec![2]),
            ([some(), other(), idle(), some()], vec![2]),
            ([some(), some(), other(), other()], vec![]),
            ([idle(), idle(), idle(), some()], vec![]),
            ([some(), some(), some(), some()], vec![]),
        ] {
            let actions = report(&mut watch(true), states.clone());
            let found: Vec<u32> = actions
                .iter()
                .filter_map(|action| match action {
                    HangAction::Replace(number) => Some(number.0),
                    _ => None,
                })
                .collect();
            assert_eq!(found, replaced, "{states:?}");
            let actions = report(&mut watch(false), states);
            assert!(
                actions
                    .iter()
                    .all(|action| matches!(action, HangAction::Print(_)))
            );
        }
    }

    #[test]
    fn a_rank_that_hangs_repeatedly_at_one_place_ends_the_job() {
        let mut watch = watch(true);
        let mut hang = || {
            let waits = || in_call("MPI_Barrier");
            watch.forget(RANKS[1]);
            report(&mut watch, [waits(), in_call("MPI_Recv"), waits(), waits()])
        };
        for _ in 0..MAX_REPLACEMENTS {
            assert_eq!(hang().last(), Some(&HangAction::Replace(RANKS[1])));
        }
        assert_eq!(hang().last(), Some(&HangAction::GiveUp));
    }

    #[test]
    fn large_classes_are_counted() {
        let members: Vec<_> = (0..1023).map(ProcessNumber).collect();
        assert_eq!(
            describe(&in_call("MPI_Recv"), &members, |_| String::new()),
            "1023 ranks are in MPI_Recv at solver+0x4f2c"
        );
        assert_eq!(in_words(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(in_words(Duration::from_secs(30)), "30 s");
    }
}
