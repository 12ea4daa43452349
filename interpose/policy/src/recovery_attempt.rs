//! Attempt at a recovery: its stages, and where all processes wait for each other.
//!
//! Any failure ends an attempt, and the next one begins with the first stage, in a new generation
//! of the MPI library. No stage has an error path of its own. This is correct because the replicas
//! stay intact until the success of the attempt, and because of these waits:
//!
//! - [`AwaitAgreement`](AttemptStage::AwaitAgreement): all processes have discarded all checkpoints
//!   but that of the plan, so files may be rolled back to it;
//! - [`AwaitFiles`](AttemptStage::AwaitFiles): all nodes have rolled their files back, so files may
//!   be opened;
//! - [`AwaitLoads`](AttemptStage::AwaitLoads): all workers have loaded their replicas, and none was
//!   found damaged, so MPI objects may be created;
//! - [`AwaitSuccess`](AttemptStage::AwaitSuccess): all workers have restored their memory, and all
//!   replicas exist again, so processes may resume the program.
//!
//! A failure can end a wait in one process after another process has passed it. Both processes meet
//! again in the next generation, whose plan follows from what each of them reports.

/// Stage of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttemptStage {
    /// Leave the previous generation, initialise the next one, and gather its processes.
    Enter,
    /// Agree on a plan ([`crate::meeting`]).
    Meet,
    /// Commit or discard the pending checkpoint, as in the plan.
    SelectEpoch,
    AwaitAgreement,
    UndoFiles,
    AwaitFiles,
    /// Send and receive the replicas of workers that have no good replica of their own.
    Fetch,
    /// Restore the memory of the program.
    Load,
    AwaitLoads,
    /// Create MPI objects again.
    RebuildObjects,
    /// Rebuild replicas that were lost with other processes or are damaged.
    Reprotect,
    AwaitSuccess,
    /// Make the plan the state of the job.
    Apply,
    /// Repeat the program's pending requests.
    Repost,
    /// Resume the program.
    Resume,
    /// End the job, as no plan is possible.
    EndJob,
}

/// End of a stage in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEvent {
    /// The stage is over; after a wait, all processes have reached the wait.
    Done,
    /// The meeting has found that the job cannot continue.
    JobLost,
    /// Another process has failed, or a replica was found damaged.
    Failed,
}

/// State of a process in an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    stage: AttemptStage,
    is_lost: bool,
}

impl Attempt {
    /// State at the beginning of an attempt.
    pub const BEGIN: Attempt = Attempt {
        stage: AttemptStage::Enter,
        is_lost: false,
    };

    /// Returns the present stage.
    pub fn stage(self) -> AttemptStage {
        self.stage
    }

    /// Ends the present stage; returns the next one.
    pub fn step(&mut self, event: AttemptEvent) -> AttemptStage {
        use AttemptStage as Stage;
        if event == AttemptEvent::Failed {
            *self = Attempt::BEGIN;
            return self.stage;
        }
        self.is_lost |= event == AttemptEvent::JobLost;
        self.stage = match self.stage {
            Stage::Enter => Stage::Meet,
            // All must have met before one of them ends the job.
            Stage::Meet if self.is_lost => Stage::AwaitAgreement,
            Stage::Meet => Stage::SelectEpoch,
            Stage::SelectEpoch => Stage::AwaitAgreement,
            Stage::AwaitAgreement if self.is_lost => Stage::EndJob,
            Stage::AwaitAgreement => Stage::UndoFiles,
            Stage::UndoFiles => Stage::AwaitFiles,
            Stage::AwaitFiles => Stage::Fetch,
            Stage::Fetch => Stage::Load,
            Stage::Load => Stage::AwaitLoads,
            Stage::AwaitLoads => Stage::RebuildObjects,
            Stage::RebuildObjects => Stage::Reprotect,
            Stage::Reprotect => Stage::AwaitSuccess,
            Stage::AwaitSuccess => Stage::Apply,
            Stage::Apply => Stage::Repost,
            Stage::Repost | Stage::Resume => Stage::Resume,
            Stage::EndJob => Stage::EndJob,
        };
        self.stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttemptStage as Stage;

    #[test]
    fn an_attempt_passes_all_stages_in_order() {
        let stages = [
            Stage::Enter,
            Stage::Meet,
            Stage::SelectEpoch,
            Stage::AwaitAgreement,
            Stage::UndoFiles,
            Stage::AwaitFiles,
            Stage::Fetch,
            Stage::Load,
            Stage::AwaitLoads,
            Stage::RebuildObjects,
            Stage::Reprotect,
            Stage::AwaitSuccess,
            Stage::Apply,
            Stage::Repost,
            Stage::Resume,
        ];
        let mut attempt = Attempt::BEGIN;
        for stage in stages {
            assert_eq!(attempt.stage(), stage);
            attempt.step(AttemptEvent::Done);
        }
        assert_eq!(attempt.stage(), Stage::Resume);
    }

    #[test]
    fn a_lost_job_ends_after_all_have_met() {
        let mut attempt = Attempt::BEGIN;
        assert_eq!(attempt.step(AttemptEvent::Done), Stage::Meet);
        assert_eq!(attempt.step(AttemptEvent::JobLost), Stage::AwaitAgreement);
        let mut failed = attempt;
        assert_eq!(attempt.step(AttemptEvent::Done), Stage::EndJob);
        // The next meeting may find a plan.
        assert_eq!(failed.step(AttemptEvent::Failed), Stage::Enter);
        assert_eq!(failed, Attempt::BEGIN);
    }
}
