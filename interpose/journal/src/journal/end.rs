//! End of the set-up phase: `UNDERSTUDY_INIT_END`.

use super::function::{Visit, VisitError};
use crate::arch::Frame;
use crate::generated::Proc;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_job::Runtime;
use understudy_settings::Rule;

/// Calls without a new call site that make a pattern.
const FEW_CALLS: u64 = 100;
/// Length in bytes from which a journal is long.
///
/// A long journal probably records time steps, which a replay does not need. So fewer calls make a
/// pattern.
const LONG: usize = 1 << 20;
const FEW_CALLS_OF_LONG: u64 = 32;

/// Reports that a function is not watched.
///
/// One worker reports: the error is equal in all workers.
fn tell_all_once(rt: &Runtime, name: &str, why: &VisitError) {
    if crate::world::is_initialised() && crate::world::is_first_worker(rt) {
        crate::sys::say(message::init_end_not_watched(name, why));
    }
}

/// Calls from known call sites since the last new call site.
#[derive(Default)]
struct Pattern {
    calls: u64,
    /// Call sites of the program: return addresses.
    places: HashSet<u64>,
    /// Calls since the last new call site.
    since_new: u64,
}

impl Pattern {
    /// Counts a call from a call site.
    fn call(&mut self, place: u64) {
        self.calls += 1;
        self.since_new += 1;
        if self.places.insert(place) {
            self.since_new = 0;
        }
    }

    /// True if the calls form a pattern, for a journal of this length.
    ///
    /// `journal` is in bytes.
    fn has_set_in(&self, journal: usize) -> bool {
        let (few, part) = if journal < LONG {
            (FEW_CALLS, 2)
        } else {
            (FEW_CALLS_OF_LONG, 4)
        };
        self.since_new >= few && part * self.since_new >= self.calls
    }
}

/// Detector of the end of the phase.
pub struct Watch {
    rule: Rule,
    began: Instant,
    pattern: Pattern,
    /// Procedure that the rule names.
    procedure: Option<Proc>,
    calls: u64,
    visit: Option<Visit>,
    is_satisfied: bool,
    /// True after a cut was requested.
    has_asked: bool,
}

impl Watch {
    /// Starts at the end of `MPI_Init`.
    pub fn new(rt: &Runtime, rule: &Rule) -> Watch {
        let visit = match rule {
            Rule::Function(name) => Visit::to(name)
                .inspect_err(|why| tell_all_once(rt, name, why))
                .ok(),
            _ => None,
        };
        let rule = match rule {
            Rule::Function(_) if visit.is_none() => Rule::Auto,
            rule => rule.clone(),
        };
        let procedure = match &rule {
            Rule::Calls(name, _) => Proc::from_name(name),
            _ => None,
        };
        Watch {
            rule,
            began: Instant::now(),
            pattern: Pattern::default(),
            procedure,
            calls: 0,
            visit,
            is_satisfied: false,
            has_asked: false,
        }
    }

    /// Returns the time since the begin of the phase.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Counts a call; `journal` is the length of the journal in bytes.
    pub fn call(&mut self, frame: &Frame, place: u64, journal: usize) {
        match self.rule {
            Rule::Auto => {
                self.pattern.call(place);
                self.is_satisfied |= self.pattern.has_set_in(journal);
            }
            Rule::Calls(_, times)
                if self
                    .procedure
                    .is_some_and(|procedure| frame.slot as u32 == procedure.slot()) =>
            {
                self.calls += 1;
                self.is_satisfied |= self.calls >= times;
            }
            Rule::Pcontrol(level) if frame.slot as u32 == Proc::MPI_Pcontrol.slot() => {
                self.is_satisfied |= frame.arguments[0] as i32 == level;
            }
            _ => {}
        }
    }

    /// Returns true if the rule lets this worker's phase end.
    pub fn is_over(&mut self) -> bool {
        self.is_satisfied |= match self.rule {
            Rule::Time(time) => self.elapsed() >= time,
            Rule::Function(_) => self.visit.as_ref().is_some_and(Visit::has_come),
            _ => false,
        };
        self.is_satisfied
    }

    /// True if a regular cut may end the phase although no rule is satisfied.
    ///
    /// Such a cut is taken after the first interval.
    pub fn is_over_by_default(&self) -> bool {
        self.rule == Rule::Auto
    }

    /// Returns true once, if a cut should be taken soon.
    pub fn asks_for_cut(&mut self) -> bool {
        !self.has_asked && self.is_over() && !std::mem::replace(&mut self.has_asked, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(watch: &mut Watch, procedure: Proc, argument: u64, place: u64) {
        let frame = Frame {
            slot: u64::from(procedure.slot()),
            arguments: [argument, 0, 0, 0, 0, 0],
            ..Frame::default()
        };
        watch.call(&frame, place, 0);
    }

    #[test]
    fn a_pattern_sets_in_when_places_repeat() {
        let mut watch = Watch::new(&Runtime::new(), &Rule::Auto);
        for place in 0..300 {
            call(&mut watch, Proc::MPI_Send, 0, place);
        }
        assert!(!watch.is_over());
        for place in 0..299 {
            call(&mut watch, Proc::MPI_Allreduce, 0, place % 3);
        }
        assert!(!watch.is_over(), "not for longer than the phase was");
        call(&mut watch, Proc::MPI_Allreduce, 0, 1);
        assert!(watch.is_over());
        assert!(watch.asks_for_cut());
        assert!(!watch.asks_for_cut(), "once is enough");
    }

    #[test]
    fn calls_are_counted_by_procedure() {
        let mut watch = Watch::new(&Runtime::new(), &Rule::Calls("MPI_Allreduce".into(), 2));
        call(&mut watch, Proc::MPI_Allreduce, 0, 1);
        call(&mut watch, Proc::MPI_Bcast, 0, 1);
        assert!(!watch.is_over());
        call(&mut watch, Proc::MPI_Allreduce, 0, 1);
        assert!(watch.is_over());
    }

    #[test]
    fn the_program_may_say_it() {
        let mut watch = Watch::new(&Runtime::new(), &Rule::Pcontrol(3));
        call(&mut watch, Proc::MPI_Pcontrol, 2, 1);
        assert!(!watch.is_over());
        call(&mut watch, Proc::MPI_Pcontrol, 3, 1);
        assert!(watch.is_over());
    }
}
