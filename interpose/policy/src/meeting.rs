//! Meeting of the living processes after a failure: they agree on one plan.
//!
//! ```text
//!   reports of all ─► spares named by a daemon ─► plan ─► checkpoint on disk ─► causes of deaths
//!                       if any process has asked            if replicas in memory are lost
//! ```
//!
//! Every process has the reports of all processes, and each further exchange is collective. So all
//! processes that finish a meeting have equal results. A failure meanwhile ends the meeting: the
//! next attempt begins another one.

use crate::plan_input::PlanInput;
use crate::process_report::ProcessReport;
use crate::recovery_plan::{
    Plan, PlanFailure, RequestedSpare, Verdict, make_plan, make_plan_from_disk,
};
use crate::redundancy::Redundancy;
use understudy_numbers::{Epoch, ProcessNumber, Worker};

/// Facts about the job that all processes know before they meet.
#[derive(Clone, Copy, Debug)]
pub struct MeetingContext<'a> {
    pub redundancy: &'a Redundancy,
    pub workers: u32,
    /// True if the job writes checkpoints to disk.
    pub has_disk_level: bool,
}

/// Next action of a process, together with all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingAction {
    /// Exchange the spares that the daemon has named; [`Meeting::dead`] need replacements.
    ExchangeHints,
    /// Choose a checkpoint on disk.
    ///
    /// Each process acts as the worker that the plan assigns to the process.
    ChooseCheckpoint(Plan),
    /// Exchange the causes of the deaths, and judge whether the program is at fault.
    ///
    /// `epoch` is the one to which the workers would return.
    ExchangeDeaths { epoch: Epoch },
    /// The meeting is over.
    End(Result<Plan, PlanFailure>),
}

/// Result of an action.
#[derive(Clone, Debug)]
pub enum MeetingEvent {
    Hints(Vec<RequestedSpare>),
    /// Chosen checkpoint; `None` if no checkpoint on disk is usable.
    Checkpoint(Option<Epoch>),
    /// Verdict if the program is at fault.
    Deaths(Option<Verdict>),
}

/// State of a process in a meeting.
#[derive(Debug)]
pub struct Meeting<'a> {
    context: MeetingContext<'a>,
    reports: &'a [ProcessReport],
    dead: Vec<Worker>,
    hints: Vec<RequestedSpare>,
    /// Plan for a return to a checkpoint on disk, until the checkpoint is chosen.
    from_disk: Option<Plan>,
    verdict: Result<Plan, PlanFailure>,
}

impl<'a> Meeting<'a> {
    /// Begins a meeting with the reports of all living processes; returns the first action.
    pub fn begin(
        context: MeetingContext<'a>,
        reports: &'a [ProcessReport],
    ) -> (Meeting<'a>, MeetingAction) {
        let MeetingContext {
            redundancy,
            workers,
            ..
        } = context;
        let mut meeting = Meeting {
            context,
            reports,
            dead: PlanInput::new(reports, redundancy, workers, &[]).dead(),
            hints: Vec::new(),
            from_disk: None,
            verdict: Err(PlanFailure::Everyone),
        };
        let has_hints = reports.iter().any(|report| report.has_requested_spares);
        let action = if has_hints && !meeting.dead.is_empty() {
            MeetingAction::ExchangeHints
        } else {
            meeting.plan()
        };
        (meeting, action)
    }

    /// Returns the workers without a living process, in ascending order.
    pub fn dead(&self) -> &[Worker] {
        &self.dead
    }

    /// Returns the living processes, in ascending order.
    pub fn living(&self) -> Vec<ProcessNumber> {
        let mut living: Vec<ProcessNumber> =
            self.reports.iter().map(|report| report.process).collect();
        living.sort_unstable();
        living
    }

    /// Ends an action with its result; returns the next action.
    pub fn step(&mut self, event: MeetingEvent) -> MeetingAction {
        match event {
            MeetingEvent::Hints(hints) => {
                self.hints = hints;
                self.plan()
            }
            MeetingEvent::Checkpoint(chosen) => {
                self.take_checkpoint(chosen);
                self.exchange_deaths()
            }
            MeetingEvent::Deaths(verdict) => {
                let failure = verdict.map(PlanFailure::Program);
                let agreed = std::mem::replace(&mut self.verdict, Err(PlanFailure::Everyone));
                MeetingAction::End(failure.map_or(agreed, Err))
            }
        }
    }

    fn plan(&mut self) -> MeetingAction {
        let MeetingContext {
            redundancy,
            workers,
            has_disk_level,
        } = self.context;
        self.verdict = make_plan(self.reports, redundancy, workers, &self.hints);
        match &self.verdict {
            Err(lost) if has_disk_level && lost.is_loss_of_replicas() => {
                let (reports, hints, lost) = (self.reports, &self.hints, lost.clone());
                let plan = make_plan_from_disk(reports, redundancy, workers, hints, lost);
                MeetingAction::ChooseCheckpoint(self.from_disk.insert(plan).clone())
            }
            _ => self.exchange_deaths(),
        }
    }

    /// Replaces the loss of replicas by a return to the chosen checkpoint, if any.
    fn take_checkpoint(&mut self, chosen: Option<Epoch>) {
        if let (Some(epoch), Some(plan)) = (chosen, self.from_disk.take()) {
            self.verdict = Ok(Plan { epoch, ..plan });
        }
    }

    fn exchange_deaths(&self) -> MeetingAction {
        let newest = || self.reports.iter().map(|report| report.committed).max();
        let epoch = match &self.verdict {
            Ok(plan) => plan.epoch,
            Err(_) => newest().unwrap_or_default(),
        };
        MeetingAction::ExchangeDeaths { epoch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_settings::Scheme;

    fn report(process: u32, worker: Option<u32>, committed: u64) -> ProcessReport {
        ProcessReport {
            process: ProcessNumber(process),
            worker: worker.map(Worker),
            committed: Epoch(committed),
            ..ProcessReport::default()
        }
    }

    /// Returns the reports of two workers of three, and of joining processes.
    fn one_dead(joining: &[u32]) -> Vec<ProcessReport> {
        let mut reports = vec![report(0, Some(0), 3), report(2, Some(2), 3)];
        reports.extend(joining.iter().map(|&process| report(process, None, 0)));
        reports
    }

    /// Returns reports of different checkpoints, which no plan can join.
    fn behind() -> Vec<ProcessReport> {
        vec![report(0, Some(0), 3), report(1, Some(1), 5)]
    }

    fn context(redundancy: &Redundancy, workers: u32, has_disk_level: bool) -> MeetingContext<'_> {
        MeetingContext {
            redundancy,
            workers,
            has_disk_level,
        }
    }

    fn place(workers: usize) -> Redundancy {
        let nodes: Vec<u32> = (0..).take(workers).collect();
        Redundancy::place(&nodes, 1, Scheme::Copies(1))
    }

    #[test]
    fn hints_are_exchanged_if_a_worker_is_dead_and_then_used() {
        let redundancy = place(3);
        let context = context(&redundancy, 3, false);
        let mut reports = one_dead(&[3, 4]);
        reports[0].has_requested_spares = true;
        let (mut meeting, action) = Meeting::begin(context, &reports);
        assert_eq!(action, MeetingAction::ExchangeHints);
        assert_eq!(meeting.dead(), [Worker(1)]);
        assert_eq!(meeting.living(), [0, 2, 3, 4].map(ProcessNumber));
        let hint = RequestedSpare {
            worker: Worker(1),
            spare: ProcessNumber(4),
        };
        let action = meeting.step(MeetingEvent::Hints(vec![hint]));
        assert_eq!(action, MeetingAction::ExchangeDeaths { epoch: Epoch(3) });
        let MeetingAction::End(Ok(plan)) = meeting.step(MeetingEvent::Deaths(None)) else {
            panic!("no plan");
        };
        assert_eq!(plan.takeovers[0].process, ProcessNumber(4));
    }

    #[test]
    fn no_hints_are_exchanged_if_all_workers_live() {
        let redundancy = place(2);
        let mut reports = vec![report(0, Some(0), 3), report(1, Some(1), 3)];
        reports[0].has_requested_spares = true;
        let (_, action) = Meeting::begin(context(&redundancy, 2, false), &reports);
        assert_eq!(action, MeetingAction::ExchangeDeaths { epoch: Epoch(3) });
    }

    #[test]
    fn a_program_at_fault_ends_the_job_although_there_is_a_plan() {
        let redundancy = place(3);
        let reports = one_dead(&[3]);
        let (mut meeting, _) = Meeting::begin(context(&redundancy, 3, false), &reports);
        let verdict = Verdict {
            why: "it fails".into(),
            status: 1,
        };
        let action = meeting.step(MeetingEvent::Deaths(Some(verdict.clone())));
        assert_eq!(
            action,
            MeetingAction::End(Err(PlanFailure::Program(verdict)))
        );
    }

    #[test]
    fn a_checkpoint_on_disk_replaces_lost_replicas() {
        let (redundancy, reports) = (place(2), behind());
        let begin =
            |has_disk_level| Meeting::begin(context(&redundancy, 2, has_disk_level), &reports);
        let (_, without_disk) = begin(false);
        assert_eq!(
            without_disk,
            MeetingAction::ExchangeDeaths { epoch: Epoch(5) }
        );
        for chosen in [Some(Epoch(2)), None] {
            let (mut meeting, action) = begin(true);
            assert!(
                matches!(action, MeetingAction::ChooseCheckpoint(_)),
                "{action:?}"
            );
            let epoch = chosen.unwrap_or(Epoch(5));
            assert_eq!(
                meeting.step(MeetingEvent::Checkpoint(chosen)),
                MeetingAction::ExchangeDeaths { epoch }
            );
            let MeetingAction::End(verdict) = meeting.step(MeetingEvent::Deaths(None)) else {
                panic!("the meeting continues");
            };
            match chosen {
                Some(epoch) => assert_eq!(verdict.map(|plan| plan.epoch), Ok(epoch)),
                None => assert!(matches!(verdict, Err(PlanFailure::Behind { .. }))),
            }
        }
    }
}
