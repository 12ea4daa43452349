//! Replay plan of this worker's phase, from the end of the phase to its proof.

use crate::control_messages::{InFlight, SendQueue};
use crate::copies::ReplayPlan;
use crate::disk::{self, StaticFileWrite};
use understudy_catalogue::message;
use understudy_numbers::Epoch;

/// Stage of this worker's replay plan.
#[derive(Default)]
pub(super) enum OwnPlan {
    /// No replay plan.
    #[default]
    None,
    /// Pages that are being written to a file (`UNDERSTUDY_STATIC=disk`).
    Writing {
        plan: ReplayPlan,
        writing: StaticFileWrite,
    },
    /// Replay plan in trial at a buddy, or about to be sent to a buddy.
    InTrial { plan: ReplayPlan, is_sent: bool },
    /// Replay plan that is proved.
    Proved {
        plan: ReplayPlan,
        /// True if the replay plan was sent to the buddies.
        is_sent_to_buddies: bool,
        /// True if this worker's own replica omits the pages.
        is_own_reduced: bool,
    },
    /// Replay plan of a phase that has read a file which has changed since then.
    ///
    /// The epoch `until` contains all pages, so the plan is valid only until `until` is committed.
    Withdrawn { plan: ReplayPlan, until: Epoch },
}

impl OwnPlan {
    /// Returns the stage of a replay plan whose pages all replicas omit.
    pub(super) fn in_use(plan: ReplayPlan) -> OwnPlan {
        OwnPlan::Proved {
            plan,
            is_sent_to_buddies: true,
            is_own_reduced: true,
        }
    }

    /// Returns the stage of a replay plan that was just proved.
    pub(super) fn proved(plan: ReplayPlan) -> OwnPlan {
        OwnPlan::Proved {
            plan,
            is_sent_to_buddies: false,
            is_own_reduced: false,
        }
    }
}

/// Replay plans of this worker, and of the workers whose replicas it stores.
#[derive(Default)]
pub(super) struct ReplayPlans {
    pub(super) own: OwnPlan,
    /// Proved plan of the preceding phase, until a plan of the new phase is proved.
    pub(super) before: Option<ReplayPlan>,
    /// Messages to buddies in flight.
    pub(super) sent: SendQueue,
    /// Message with the proof of the plan in trial.
    pub(super) proof: Option<InFlight<Vec<u8>>>,
    /// Incoming plans of the workers whose replicas this worker stores, by layer.
    pub(super) incoming_plans: Vec<(usize, InFlight<Vec<u8>>)>,
}

impl ReplayPlans {
    /// Returns to the plan of the preceding phase, as the new phase has failed.
    pub(super) fn return_to_earlier_plan(&mut self, why: &str) {
        if let Some(plan) = self.before.take() {
            log::warn!("{}", message::new_set_up_in_replicas(why));
            self.own = OwnPlan::in_use(plan);
        }
    }

    /// Drops a withdrawn plan after the commit of an epoch that has all pages.
    pub(super) fn end_withdrawn(&mut self, committed: Epoch) {
        if matches!(self.own, OwnPlan::Withdrawn { until, .. } if until <= committed) {
            self.own = OwnPlan::None;
        }
    }

    /// Starts the trial of a plan whose pages have been written to their file.
    pub(super) fn poll_file(&mut self) {
        let OwnPlan::Writing { writing, .. } = &self.own else {
            return;
        };
        let Some(outcome) = writing.outcome() else {
            return;
        };
        if let OwnPlan::Writing { plan, .. } = std::mem::take(&mut self.own) {
            match outcome {
                Ok(()) => {
                    self.own = OwnPlan::InTrial {
                        plan,
                        is_sent: false,
                    }
                }
                Err(error) => log_not_written(&error),
            }
        }
    }

    /// Returns the replay plan by which this worker's static data are rebuilt.
    pub(super) fn plan(&self) -> Option<&ReplayPlan> {
        match &self.own {
            OwnPlan::Proved { plan, .. } | OwnPlan::Withdrawn { plan, .. } => Some(plan),
            OwnPlan::None | OwnPlan::Writing { .. } | OwnPlan::InTrial { .. } => {
                self.before.as_ref()
            }
        }
    }

    /// Drops messages after a failure, so that this worker's plan is sent again.
    pub(super) fn interrupt(&mut self) {
        if let OwnPlan::Withdrawn { .. } = self.own
            && let OwnPlan::Withdrawn { plan, .. } = std::mem::take(&mut self.own)
        {
            // The failure has prevented the commit of the epoch with all pages; the next cut
            // withdraws the plan again.
            self.own = OwnPlan::in_use(plan);
        }
        match &mut self.own {
            OwnPlan::None | OwnPlan::Writing { .. } | OwnPlan::Withdrawn { .. } => {}
            OwnPlan::InTrial { is_sent, .. } => *is_sent = false,
            OwnPlan::Proved {
                is_sent_to_buddies,
                is_own_reduced,
                ..
            } => (*is_sent_to_buddies, *is_own_reduced) = (false, false),
        }
        self.sent = SendQueue::NONE;
        self.proof = None;
        self.incoming_plans.clear();
    }
}

/// Logs that static data cannot be written to the disk.
pub(super) fn log_not_written(error: &std::io::Error) {
    log::warn!("{}", message::static_data_not_written(disk::explain(error)));
}
