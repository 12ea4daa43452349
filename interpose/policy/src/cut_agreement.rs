//! Agreement of all workers on whether a checkpoint is taken at a cut.
//!
//! All workers have stopped at the cut.
//!
//! ```text
//!   maxima and sums over all ─► compare mappings ─► gather claims ─► decision
//!                                 if any is shared     if memory may be short
//! ```
//!
//! Each worker states its ability ([`CutVote`]). All workers get the maxima of all votes and some
//! sums ([`CutSums`]) from one reduction each, so all decide equally, and the data per worker do
//! not grow with the number of workers. Two rare comparisons need the values of all workers.

use crate::memory_demand::MemoryShortage;
use understudy_numbers::Worker;
use understudy_settings::CheckpointCause;

/// Numbers of a vote, of which the maxima over all workers are computed.
pub const VOTE_NUMBERS: usize = 12;

/// Ability of a worker to be saved at this cut.
///
/// A greater value is a stronger objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutAbility {
    Now,
    /// At a later cut point, for example because a nonblocking collective is under way.
    Later,
    /// After the next interval at the earliest, because of kernel state.
    Refused,
    /// Never again: the worker's replicas were released, as the program needed their memory.
    Yielded,
    /// Never: a replacement could not get the worker's state.
    Never,
}

/// Abilities, indexed by their number in a vote.
const ABILITIES: [CutAbility; 5] = [
    CutAbility::Now,
    CutAbility::Later,
    CutAbility::Refused,
    CutAbility::Yielded,
    CutAbility::Never,
];

/// State of the disk level of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// True if a checkpoint is due and can be written.
    pub is_ready: bool,
    /// True if the last checkpoint could not be written.
    pub has_trouble: bool,
    /// Checksum of the name of the checkpoint that was written last; zero if none was.
    pub written: u64,
}

/// Vote of a worker.
#[derive(Clone, Copy, Debug)]
pub struct CutVote {
    pub ability: CutAbility,
    /// True if the recorded phase of this worker may end here.
    pub may_end_phase: bool,
    /// True if a new phase may begin here.
    pub may_begin_phase: bool,
    /// Number of mappings that other processes may share.
    pub shared_mappings: u64,
    pub disk: DiskReport,
    /// Cause of a request for a checkpoint that must be on disk at once.
    pub request: Option<CheckpointCause>,
    /// Number of the order to leave here; zero for none.
    pub leave_order: u32,
    /// Number of pages that the worker captures at most.
    pub captured_pages: u64,
    /// Number of pages that each worker of its node may capture.
    pub pages_for_each: u64,
}

/// Returns a number that contains a value and a worker.
///
/// The maximum over all workers contains the greatest value, and the first worker with it.
fn with_worker(value: u32, worker: Worker) -> u64 {
    u64::from(value) << 32 | u64::from(u32::MAX - worker.0)
}

/// Returns the value and the worker of a number that [`with_worker`] has returned.
fn value_and_worker(number: u64) -> (u32, Worker) {
    ((number >> 32) as u32, Worker(u32::MAX - number as u32))
}

impl CutVote {
    /// Returns the numbers of the vote of this worker.
    pub fn numbers(&self, me: Worker) -> [u64; VOTE_NUMBERS] {
        [
            with_worker(self.ability as u32, me),
            u64::from(!self.may_end_phase),
            u64::from(!self.may_begin_phase),
            self.shared_mappings,
            u64::from(!self.disk.is_ready),
            with_worker(u32::from(self.disk.has_trouble), me),
            self.disk.written,
            !self.disk.written,
            self.captured_pages,
            !self.pages_for_each,
            self.request.map_or(0, CheckpointCause::number),
            with_worker(self.leave_order, me),
        ]
    }
}

/// Votes of all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JointVote {
    /// Strongest objection, and the first worker with it.
    pub ability: CutAbility,
    pub objector: Worker,
    /// True if the phases of all workers may end.
    pub may_end_phase: bool,
    /// True if all workers may begin a new phase.
    pub may_begin_phase: bool,
    /// Greatest number of mappings of a worker that other processes may share.
    pub shared_mappings: u64,
    pub disk: JointDiskReport,
    /// Strongest cause of a request for a checkpoint that must be on disk at once.
    pub request: Option<CheckpointCause>,
    /// Order to leave, and the first worker of that node.
    pub leaver: Option<(u32, Worker)>,
    /// True if no node can be short of memory.
    pub is_memory_ample: bool,
}

/// State of the disk levels of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JointDiskReport {
    /// True if a checkpoint is due, and all workers can write it.
    pub is_ready: bool,
    /// First worker that could not write the last checkpoint.
    pub first_with_trouble: Option<Worker>,
    /// Checksum of the name of the last checkpoint that all workers have written.
    ///
    /// `None` if the workers have written different checkpoints last.
    pub written: Option<u64>,
}

impl JointVote {
    /// Reads the maxima over all workers of [`CutVote::numbers`].
    pub fn from_maxima(maxima: [u64; VOTE_NUMBERS]) -> JointVote {
        let [
            ability,
            must_not_end,
            must_not_begin,
            shared_mappings,
            is_not_ready,
            trouble,
            greatest_written,
            inverted_least_written,
            captured_pages,
            inverted_pages_for_each,
            request,
            leaver,
        ] = maxima;
        let (ability, objector) = value_and_worker(ability);
        let (has_trouble, first_with_trouble) = value_and_worker(trouble);
        let (leave_order, leaver) = value_and_worker(leaver);
        let least_written = !inverted_least_written;
        JointVote {
            ability: ABILITIES[(ability as usize).min(ABILITIES.len() - 1)],
            objector,
            may_end_phase: must_not_end == 0,
            may_begin_phase: must_not_begin == 0,
            shared_mappings,
            disk: JointDiskReport {
                is_ready: is_not_ready == 0,
                first_with_trouble: (has_trouble != 0).then_some(first_with_trouble),
                written: (greatest_written == least_written).then_some(least_written),
            },
            request: CheckpointCause::from_number(request),
            leaver: (leave_order != 0).then_some((leave_order, leaver)),
            is_memory_ample: captured_pages <= !inverted_pages_for_each,
        }
    }
}

/// Sums over all workers, modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSums {
    /// Sum of the workers' shares of started collectives.
    ///
    /// Zero if all members of each communicator have started the same collectives.
    pub started: u64,
    /// Sum of the workers' shares of freed communicators.
    ///
    /// Zero if no member needs any of these communicators.
    pub freed: u64,
}

/// Decision at a cut, equal in all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutDecision {
    /// Take a checkpoint.
    Take,
    /// Take the checkpoint at a later cut point.
    ///
    /// A worker cannot be saved now, or not all members have started a collective.
    Postpone,
    /// Take the checkpoint after the next interval ([`CutAbility::Refused`]).
    Refuse,
    /// Take no checkpoint here, as the replicas do not fit into memory.
    NoRoom(MemoryShortage),
    /// Take no checkpoint any more; `reporter` reports the reason.
    EndProtection {
        reporter: Worker,
        loss: ProtectionLoss,
    },
}

/// Reason for which a running job loses protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionLoss {
    /// The program has state that cannot be saved.
    Unsaved,
    /// Memory is not sufficient for the program and replicas.
    Memory,
}

/// Next action of a worker, together with all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAction {
    /// Compare the mappings of all workers; none has more than `most`.
    CompareMappings {
        most: u64,
    },
    /// Compare the memory that checkpoints need with the memory that is left.
    GatherClaims,
    End(CutDecision),
}

/// Result of an action.
#[derive(Clone, Copy, Debug)]
pub enum CutEvent {
    /// First worker that shares a mapping with another one.
    Mappings(Option<Worker>),
    /// First lack of memory.
    Claims(Option<MemoryShortage>),
}

/// State of a worker in the agreement.
#[derive(Clone, Copy, Debug)]
pub struct CutAgreement {
    votes: JointVote,
    is_balanced: bool,
}

impl CutAgreement {
    /// Begins with the votes of all workers; returns the first action.
    pub fn begin(votes: JointVote, sums: CutSums) -> (CutAgreement, CutAction) {
        let agreement = CutAgreement {
            votes,
            is_balanced: sums.started == 0,
        };
        let action = match votes.shared_mappings {
            0 => agreement.check_abilities(),
            most => CutAction::CompareMappings { most },
        };
        (agreement, action)
    }

    /// Ends an action with its result; returns the next one.
    pub fn step(self, event: CutEvent) -> CutAction {
        match event {
            CutEvent::Mappings(Some(reporter)) => end_protection(reporter, ProtectionLoss::Unsaved),
            CutEvent::Mappings(None) => self.check_abilities(),
            CutEvent::Claims(Some(shortage)) => CutAction::End(CutDecision::NoRoom(shortage)),
            CutEvent::Claims(None) => CutAction::End(CutDecision::Take),
        }
    }

    fn check_abilities(self) -> CutAction {
        let objector = self.votes.objector;
        match self.votes.ability {
            CutAbility::Never => end_protection(objector, ProtectionLoss::Unsaved),
            CutAbility::Yielded => end_protection(objector, ProtectionLoss::Memory),
            CutAbility::Refused => CutAction::End(CutDecision::Refuse),
            CutAbility::Later => CutAction::End(CutDecision::Postpone),
            // A process may have completed a collective that another one has not begun.
            CutAbility::Now if !self.is_balanced => CutAction::End(CutDecision::Postpone),
            CutAbility::Now if self.votes.is_memory_ample => CutAction::End(CutDecision::Take),
            CutAbility::Now => CutAction::GatherClaims,
        }
    }
}

fn end_protection(reporter: Worker, loss: ProtectionLoss) -> CutAction {
    CutAction::End(CutDecision::EndProtection { reporter, loss })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTE: CutVote = CutVote {
        ability: CutAbility::Now,
        may_end_phase: true,
        may_begin_phase: true,
        shared_mappings: 0,
        disk: DiskReport {
            is_ready: true,
            has_trouble: false,
            written: 7,
        },
        request: None,
        leave_order: 0,
        captured_pages: 10,
        pages_for_each: 10,
    };

    fn joint(votes: &[CutVote]) -> JointVote {
        let numbers = Worker::all(votes.len() as u32)
            .zip(votes)
            .map(|(worker, vote)| vote.numbers(worker));
        let maxima = numbers.reduce(|all, own| std::array::from_fn(|at| all[at].max(own[at])));
        JointVote::from_maxima(maxima.expect("a vote"))
    }

    fn decide(votes: &[CutVote], started: u64) -> CutAction {
        CutAgreement::begin(joint(votes), CutSums { started, freed: 0 }).1
    }

    #[test]
    fn a_checkpoint_is_taken_without_an_objection() {
        assert_eq!(decide(&[VOTE; 3], 0), CutAction::End(CutDecision::Take));
        assert_eq!(decide(&[VOTE; 3], 1), CutAction::End(CutDecision::Postpone));
    }

    #[test]
    fn the_first_worker_with_the_strongest_objection_reports_it() {
        let vote = |ability| CutVote { ability, ..VOTE };
        let votes = [
            vote(CutAbility::Refused),
            vote(CutAbility::Never),
            vote(CutAbility::Later),
            vote(CutAbility::Never),
        ];
        assert_eq!(
            decide(&votes, 0),
            end_protection(Worker(1), ProtectionLoss::Unsaved)
        );
        assert_eq!(
            decide(&[VOTE, vote(CutAbility::Yielded)], 0),
            end_protection(Worker(1), ProtectionLoss::Memory)
        );
        assert_eq!(decide(&votes[..1], 0), CutAction::End(CutDecision::Refuse));
    }

    #[test]
    fn rare_comparisons_are_made_only_if_necessary() {
        let mapped = CutVote {
            shared_mappings: 2,
            ..VOTE
        };
        assert_eq!(
            decide(&[VOTE, mapped], 0),
            CutAction::CompareMappings { most: 2 }
        );
        let short = CutVote {
            pages_for_each: 9,
            ..VOTE
        };
        assert_eq!(decide(&[VOTE, short], 0), CutAction::GatherClaims);
        let objects = CutVote {
            ability: CutAbility::Later,
            ..short
        };
        assert_eq!(
            decide(&[VOTE, objects], 0),
            CutAction::End(CutDecision::Postpone)
        );
    }

    #[test]
    fn the_disk_level_needs_all_workers() {
        let disk = |is_ready, has_trouble, written| CutVote {
            disk: DiskReport {
                is_ready,
                has_trouble,
                written,
            },
            ..VOTE
        };
        let all = joint(&[VOTE, VOTE]).disk;
        assert_eq!((all.is_ready, all.written), (true, Some(7)));
        assert_eq!(all.first_with_trouble, None);
        let some = joint(&[VOTE, disk(false, true, 8), disk(true, true, 0)]).disk;
        assert_eq!((some.is_ready, some.written), (false, None));
        assert_eq!(some.first_with_trouble, Some(Worker(1)));
        assert_eq!(joint(&[disk(true, false, 0)]).disk.written, Some(0));
    }

    #[test]
    fn a_request_of_one_worker_is_that_of_all_and_a_stop_prevails() {
        let vote = |cause| CutVote {
            request: cause,
            ..VOTE
        };
        let (stop, go_on) = (CheckpointCause::TimeLimit, CheckpointCause::Signal(10));
        assert_eq!(joint(&[VOTE, vote(Some(go_on))]).request, Some(go_on));
        let both = [vote(Some(go_on)), vote(Some(stop)), VOTE];
        assert_eq!(joint(&both).request, Some(stop));
    }

    #[test]
    fn an_order_to_leave_reaches_all_workers() {
        let leaves = CutVote {
            leave_order: 3,
            ..VOTE
        };
        assert_eq!(joint(&[VOTE; 3]).leaver, None);
        assert_eq!(joint(&[VOTE, leaves, leaves]).leaver, Some((3, Worker(1))));
    }

    #[test]
    fn a_phase_ends_or_begins_only_if_that_is_possible_in_all_workers() {
        let vote = |may_end_phase, may_begin_phase| CutVote {
            may_end_phase,
            may_begin_phase,
            ..VOTE
        };
        let phases = |votes: &[CutVote]| {
            let joint = joint(votes);
            (joint.may_end_phase, joint.may_begin_phase)
        };
        assert_eq!(phases(&[VOTE, VOTE]), (true, true));
        assert_eq!(phases(&[VOTE, vote(false, true)]), (false, true));
        assert_eq!(phases(&[vote(true, false), VOTE]), (true, false));
    }

    #[test]
    fn the_comparisons_decide() {
        let reporter = Worker(1);
        let votes = joint(&[
            CutVote {
                shared_mappings: 1,
                ..VOTE
            },
            CutVote {
                pages_for_each: 9,
                ..VOTE
            },
        ]);
        let sums = CutSums {
            started: 0,
            freed: 0,
        };
        let (agreement, _) = CutAgreement::begin(votes, sums);
        assert_eq!(
            agreement.step(CutEvent::Mappings(Some(reporter))),
            end_protection(reporter, ProtectionLoss::Unsaved)
        );
        assert_eq!(
            agreement.step(CutEvent::Mappings(None)),
            CutAction::GatherClaims
        );
        let shortage = MemoryShortage {
            reporter,
            needed: 2,
            free: 1,
        };
        assert_eq!(
            agreement.step(CutEvent::Claims(Some(shortage))),
            CutAction::End(CutDecision::NoRoom(shortage))
        );
        assert_eq!(
            agreement.step(CutEvent::Claims(None)),
            CutAction::End(CutDecision::Take)
        );
    }
}
