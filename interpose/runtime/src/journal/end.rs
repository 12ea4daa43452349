//! Where the initialisation phase ends: `UNDERSTUDY_INIT_END`.

use super::function::{Visit, VisitError};
use crate::arch::Frame;
use crate::generated::Proc;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A rule. The phase ends at the first cut at which it is satisfied in every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// When calls are made at places that have made calls before, for long enough; at the latest when the first interval is over.
    Auto,
    /// This procedure has been called so often.
    Calls(Proc, u64),
    /// `MPI_Pcontrol` has been called with this level.
    Pcontrol(i32),
    /// This function of the program has been entered.
    Function(String),
    /// So much time has passed since `MPI_Init`.
    Time(Duration),
}

/// With fewer calls than this nothing can be said of a pattern.
const FEW_CALLS: u64 = 100;

/// The same is found in all workers.
fn tell_all_once(name: &str, why: &VisitError) {
    if crate::world::is_initialised() && crate::world::worker() == 0 {
        crate::sys::say(format_args!(
            "UNDERSTUDY_INIT_END: function:{name} cannot be watched ({why}); the phase ends by `auto`"
        ));
    }
}

/// Watches for the end.
pub struct Watch {
    rule: Rule,
    began: Instant,
    calls: u64,
    /// Places of the program that have made calls: return addresses.
    places: HashSet<u64>,
    /// Calls since a new place made one.
    since_new: u64,
    visit: Option<Visit>,
    is_satisfied: bool,
    /// A cut has been asked for.
    has_asked: bool,
}

impl Watch {
    /// Starts, at the end of `MPI_Init`.
    pub fn new(rule: &Rule) -> Watch {
        let visit = match rule {
            Rule::Function(name) => Visit::to(name).inspect_err(|why| tell_all_once(name, why)).ok(),
            _ => None,
        };
        let rule = match rule {
            Rule::Function(_) if visit.is_none() => Rule::Auto,
            rule => rule.clone(),
        };
        Watch {
            rule,
            began: Instant::now(),
            calls: 0,
            places: HashSet::new(),
            since_new: 0,
            visit,
            is_satisfied: false,
            has_asked: false,
        }
    }

    /// Time since the begin of the phase.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A call has been made.
    pub fn call(&mut self, frame: &Frame, place: u64) {
        match self.rule {
            Rule::Auto => {
                self.calls += 1;
                self.since_new += 1;
                if self.places.insert(place) {
                    self.since_new = 0;
                }
                self.is_satisfied |= self.since_new >= FEW_CALLS && 2 * self.since_new >= self.calls;
            }
            Rule::Calls(procedure, times) if frame.slot as u32 == procedure.slot() => {
                self.calls += 1;
                self.is_satisfied |= self.calls >= times;
            }
            Rule::Pcontrol(level) if frame.slot as u32 == Proc::MPI_Pcontrol.slot() => {
                self.is_satisfied |= frame.arguments[0] as i32 == level;
            }
            _ => {}
        }
    }

    /// Whether the phase may end, as far as this worker is concerned.
    pub fn is_over(&mut self) -> bool {
        self.is_satisfied |= match self.rule {
            Rule::Time(time) => self.elapsed() >= time,
            Rule::Function(_) => self.visit.as_ref().is_some_and(Visit::has_come),
            _ => false,
        };
        self.is_satisfied
    }

    /// Whether a cut at which nothing else is known may be the end: it comes after the first interval.
    pub fn is_over_by_default(&self) -> bool {
        self.rule == Rule::Auto
    }

    /// Whether a cut should be taken soon; true once.
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
        watch.call(&frame, place);
    }

    #[test]
    fn a_pattern_sets_in_when_places_repeat() {
        let mut watch = Watch::new(&Rule::Auto);
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
        let mut watch = Watch::new(&Rule::Calls(Proc::MPI_Allreduce, 2));
        call(&mut watch, Proc::MPI_Allreduce, 0, 1);
        call(&mut watch, Proc::MPI_Bcast, 0, 1);
        assert!(!watch.is_over());
        call(&mut watch, Proc::MPI_Allreduce, 0, 1);
        assert!(watch.is_over());
    }

    #[test]
    fn the_program_may_say_it() {
        let mut watch = Watch::new(&Rule::Pcontrol(3));
        call(&mut watch, Proc::MPI_Pcontrol, 2, 1);
        assert!(!watch.is_over());
        call(&mut watch, Proc::MPI_Pcontrol, 3, 1);
        assert!(watch.is_over());
    }
}
