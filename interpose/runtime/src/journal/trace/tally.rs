//! Counts calls by place, and finds the initialisation phase: what comes before the first moment from which on few calls are
//! made at new places.

use crate::journal::end::Pattern;
use std::collections::HashMap;

/// A return address, and the slot of what was called.
type Site = (u64, u16);

/// Calls and bytes.
pub type Count = (u64, u64);

/// A call that can be a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which one, from 1: the same in all workers.
    pub number: u64,
    /// What was called.
    pub slot: u16,
    /// How often that has been called by then.
    pub times: u64,
}

/// From a call at a new place to the next such call.
struct Stretch {
    /// That call, and the bytes that it has written.
    first: (Site, u64),
    /// The last candidate by then.
    candidate: Option<Candidate>,
    /// The calls after it.
    counts: HashMap<Site, Count>,
}

/// The counts of a run so far.
#[derive(Default)]
pub struct Tally {
    pattern: Pattern,
    stretches: Vec<Stretch>,
    calls: u64,
    bytes: u64,
    by_procedure: HashMap<u16, u64>,
    last_candidate: Option<Candidate>,
    automatic: Option<u64>,
}

/// When the phase is over, at most one of so many calls is made at a place that has not made any in the phase.
const FEW_OF: u64 = 20;

/// What was found.
pub struct Phase {
    /// All places.
    pub sites: Vec<Counted>,
    /// All calls.
    pub calls: u64,
    /// Calls of the phase.
    pub calls_in_phase: u64,
    /// Bytes that they have written.
    pub bytes_in_phase: u64,
    /// The call at which `auto` would have ended the phase.
    pub automatic: Option<u64>,
    /// The last candidate in the phase.
    pub end: Option<Candidate>,
}

/// A place that calls MPI.
pub struct Counted {
    /// The return address.
    pub place: u64,
    /// What is called.
    pub slot: u16,
    /// In the phase.
    pub in_phase: Count,
    /// After it.
    pub later: Count,
}

fn add(to: &mut Count, (calls, bytes): Count) {
    *to = (to.0 + calls, to.1 + bytes);
}

impl Stretch {
    fn all(&self) -> impl Iterator<Item = (Site, Count)> + '_ {
        let counts = self.counts.iter().map(|(&site, &count)| (site, count));
        std::iter::once((self.first.0, (1, self.first.1))).chain(counts)
    }
}

impl Tally {
    /// A call has been made that has written so many bytes.
    pub fn call(&mut self, site: Site, bytes: u64, may_be_cut: bool) {
        self.calls += 1;
        self.bytes += bytes;
        let times = self.by_procedure.entry(site.1).or_default();
        *times += 1;
        if may_be_cut {
            self.last_candidate = Some(Candidate {
                number: self.last_candidate.map_or(0, |last| last.number) + 1,
                slot: site.1,
                times: *times,
            });
        }
        let is_new = self.pattern.call(site.0);
        match self.stretches.last_mut() {
            Some(stretch) if !is_new => add(stretch.counts.entry(site).or_default(), (1, bytes)),
            _ => self.stretches.push(Stretch {
                first: (site, bytes),
                candidate: self.last_candidate,
                counts: HashMap::new(),
            }),
        }
        if self.automatic.is_none() && self.pattern.has_set_in(self.bytes as usize) {
            self.automatic = Some(self.calls);
        }
    }

    /// The stretch with whose first call the phase ends.
    fn last_of_phase(&self) -> usize {
        let mut by_place: HashMap<u64, u64> = HashMap::new();
        for ((place, _), (calls, _)) in self.stretches.iter().flat_map(Stretch::all) {
            *by_place.entry(place).or_default() += calls;
        }
        let (mut later, mut at_new) = (0, 0);
        let mut found = self.stretches.len().saturating_sub(1);
        for (index, stretch) in self.stretches.iter().enumerate().rev() {
            later += stretch.counts.values().map(|(calls, _)| calls).sum::<u64>();
            if at_new * FEW_OF <= later {
                found = index;
            }
            later += 1;
            at_new += by_place[&stretch.first.0.0];
        }
        found
    }

    /// What the phase was, at the end of the run.
    pub fn phase(&self) -> Phase {
        let last = self.last_of_phase();
        let mut sites: HashMap<Site, (Count, Count)> = HashMap::new();
        for (index, stretch) in self.stretches.iter().enumerate() {
            for (number, (site, count)) in stretch.all().enumerate() {
                let (in_phase, later) = sites.entry(site).or_default();
                let is_in_phase = index < last || (index == last && number == 0);
                add(if is_in_phase { in_phase } else { later }, count);
            }
        }
        let counted = |((place, slot), (in_phase, later))| Counted {
            place,
            slot,
            in_phase,
            later,
        };
        let sites: Vec<Counted> = sites.into_iter().map(counted).collect();
        Phase {
            calls: self.calls,
            calls_in_phase: sites.iter().map(|site| site.in_phase.0).sum(),
            bytes_in_phase: sites.iter().map(|site| site.in_phase.1).sum(),
            sites,
            automatic: self.automatic,
            end: self
                .stretches
                .get(last)
                .and_then(|stretch| stretch.candidate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_ends_where_little_new_comes() {
        let mut tally = Tally::default();
        for place in 0..50 {
            tally.call((place, 1), 10, place % 10 == 0);
        }
        for step in 0..500 {
            tally.call((200 + step % 3, 2), 1, step % 3 == 2);
            if step % 100 == 50 {
                // Now and then.
                tally.call((90, 3), 1, false);
            }
        }
        // The end of the program.
        for place in 100..110 {
            tally.call((place, 1), 1000, false);
        }
        let phase = tally.phase();
        assert_eq!(
            (phase.calls, phase.calls_in_phase, phase.bytes_in_phase),
            (565, 53, 503)
        );
        let end = Candidate {
            number: 6,
            slot: 2,
            times: 3,
        };
        assert_eq!(phase.end, Some(end));
        assert!(phase.automatic.is_some_and(|call| call == 204));
        let repeating: u64 = phase.sites.iter().map(|site| site.later.0).sum();
        assert_eq!(repeating, 512);
    }
}
