//! Detection of the end of the set-up phase, by the rule of `UNDERSTUDY_INIT_END`.

use super::breakpoint::{Breakpoint, BreakpointError};
use crate::arch::Frame;
use crate::generated::Proc;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_job::Runtime;
use understudy_settings::InitEndRule;

/// Least number of calls without a new call site that make a pattern.
const MIN_PATTERN_CALLS: u64 = 100;
/// Length in bytes from which a journal is long.
///
/// A long journal probably contains time steps already, which a replay need not repeat. Fewer calls
/// then make a pattern.
const LONG_JOURNAL_BYTES: usize = 1 << 20;
/// Equivalent of [`MIN_PATTERN_CALLS`] for a long journal.
const MIN_PATTERN_CALLS_OF_LONG_JOURNAL: u64 = 32;

/// Reports that a function is not watched.
///
/// Only the first worker reports: the error is equal in all workers.
fn report_not_watched(rt: &Runtime, name: &str, why: &BreakpointError) {
    if crate::world::is_initialised() && crate::world::is_first_worker(rt) {
        crate::system_calls::print_message(message::init_end_not_watched(name, why));
    }
}

/// Detector of the program's main loop by its call sites.
///
/// A program sets up its data with calls from ever new call sites, and then repeats the calls of
/// one time step. The pattern is complete when the calls without a new call site are many, and a
/// large part of all calls of the phase.
#[derive(Default)]
struct CallSitePattern {
    calls: u64,
    /// Call sites of the program: return addresses.
    call_sites: HashSet<u64>,
    /// Calls since the last new call site.
    calls_since_new_site: u64,
}

impl CallSitePattern {
    /// Counts a call from a call site.
    fn call(&mut self, call_site: u64) {
        self.calls += 1;
        self.calls_since_new_site += 1;
        if self.call_sites.insert(call_site) {
            self.calls_since_new_site = 0;
        }
    }

    /// True if the pattern is complete, for a journal of `journal_bytes`.
    ///
    /// The calls without a new call site must be half of all calls, or a quarter if the journal is
    /// long.
    fn is_complete(&self, journal_bytes: usize) -> bool {
        let (min_calls, divisor) = if journal_bytes < LONG_JOURNAL_BYTES {
            (MIN_PATTERN_CALLS, 2)
        } else {
            (MIN_PATTERN_CALLS_OF_LONG_JOURNAL, 4)
        };
        self.calls_since_new_site >= min_calls && divisor * self.calls_since_new_site >= self.calls
    }
}

/// Detector of the end of the phase.
pub struct PhaseEndDetector {
    rule: InitEndRule,
    began: Instant,
    pattern: CallSitePattern,
    /// Procedure that the rule names.
    procedure: Option<Proc>,
    /// Number of calls of that procedure.
    calls: u64,
    /// Breakpoint on the function that the rule names.
    breakpoint: Option<Breakpoint>,
    is_satisfied: bool,
    /// True after a cut was requested.
    has_requested_cut: bool,
}

impl PhaseEndDetector {
    /// Starts at the beginning of a phase.
    pub fn new(rt: &Runtime, rule: &InitEndRule) -> PhaseEndDetector {
        let breakpoint = match rule {
            InitEndRule::Function(name) => Breakpoint::on_function(name)
                .inspect_err(|why| report_not_watched(rt, name, why))
                .ok(),
            _ => None,
        };
        let rule = match rule {
            InitEndRule::Function(_) if breakpoint.is_none() => InitEndRule::Auto,
            rule => rule.clone(),
        };
        let procedure = match &rule {
            InitEndRule::Calls(name, _) => Proc::from_name(name),
            _ => None,
        };
        PhaseEndDetector {
            rule,
            began: Instant::now(),
            pattern: CallSitePattern::default(),
            procedure,
            calls: 0,
            breakpoint,
            is_satisfied: false,
            has_requested_cut: false,
        }
    }

    /// Returns the time since the beginning of the phase.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Counts a call.
    pub fn call(&mut self, frame: &Frame, call_site: u64, journal_bytes: usize) {
        match self.rule {
            InitEndRule::Auto => {
                self.pattern.call(call_site);
                self.is_satisfied |= self.pattern.is_complete(journal_bytes);
            }
            InitEndRule::Calls(_, times)
                if self
                    .procedure
                    .is_some_and(|procedure| frame.slot as u32 == procedure.slot()) =>
            {
                self.calls += 1;
                self.is_satisfied |= self.calls >= times;
            }
            InitEndRule::Pcontrol(level) if frame.slot as u32 == Proc::MPI_Pcontrol.slot() => {
                self.is_satisfied |= frame.arguments[0] as i32 == level;
            }
            _ => {}
        }
    }

    /// Returns true if the rule lets this worker's phase end.
    pub fn is_over(&mut self) -> bool {
        self.is_satisfied |= match self.rule {
            InitEndRule::Time(time) => self.elapsed() >= time,
            InitEndRule::Function(_) => self.breakpoint.as_ref().is_some_and(Breakpoint::was_hit),
            _ => false,
        };
        self.is_satisfied
    }

    /// True if a regular cut may end the phase although the rule is not satisfied.
    ///
    /// A regular cut is taken when a checkpoint is due, at the earliest after one interval.
    pub fn is_over_by_default(&self) -> bool {
        self.rule == InitEndRule::Auto
    }

    /// Returns true once, if a cut should be taken soon.
    pub fn take_cut_request(&mut self) -> bool {
        !self.has_requested_cut
            && self.is_over()
            && !std::mem::replace(&mut self.has_requested_cut, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(detector: &mut PhaseEndDetector, procedure: Proc, argument: u64, call_site: u64) {
        let frame = Frame {
            slot: u64::from(procedure.slot()),
            arguments: [argument, 0, 0, 0, 0, 0],
            ..Frame::default()
        };
        detector.call(&frame, call_site, 0);
    }

    #[test]
    fn a_pattern_is_complete_when_call_sites_repeat() {
        let mut detector = PhaseEndDetector::new(&Runtime::new(), &InitEndRule::Auto);
        for call_site in 0..300 {
            call(&mut detector, Proc::MPI_Send, 0, call_site);
        }
        assert!(!detector.is_over());
        for call_site in 0..299 {
            call(&mut detector, Proc::MPI_Allreduce, 0, call_site % 3);
        }
        assert!(!detector.is_over(), "less than half of the calls");
        call(&mut detector, Proc::MPI_Allreduce, 0, 1);
        assert!(detector.is_over());
        assert!(detector.take_cut_request());
        assert!(!detector.take_cut_request(), "requested once");
    }

    #[test]
    fn calls_are_counted_by_procedure() {
        let mut detector = PhaseEndDetector::new(
            &Runtime::new(),
            &InitEndRule::Calls("MPI_Allreduce".into(), 2),
        );
        call(&mut detector, Proc::MPI_Allreduce, 0, 1);
        call(&mut detector, Proc::MPI_Bcast, 0, 1);
        assert!(!detector.is_over());
        call(&mut detector, Proc::MPI_Allreduce, 0, 1);
        assert!(detector.is_over());
    }

    #[test]
    fn pcontrol_ends_the_phase() {
        let mut detector = PhaseEndDetector::new(&Runtime::new(), &InitEndRule::Pcontrol(3));
        call(&mut detector, Proc::MPI_Pcontrol, 2, 1);
        assert!(!detector.is_over());
        call(&mut detector, Proc::MPI_Pcontrol, 3, 1);
        assert!(detector.is_over());
    }
}
