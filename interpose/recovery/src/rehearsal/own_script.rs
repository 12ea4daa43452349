//! Replay plan of this worker's phase, from the end of the phase to its proof.

use super::message::Message;
use crate::copies::Script;
use crate::disk::{self, Writing};
use understudy_catalogue::message;
use understudy_numbers::Epoch;

/// Stage of this worker's replay plan.
#[derive(Default)]
pub(super) enum Own {
    /// No replay plan.
    #[default]
    None,
    /// Pages that are being written to a file.
    Writing { script: Script, writing: Writing },
    /// Replay plan in trial at a buddy, or about to be sent to one.
    Asked { script: Script, is_sent: bool },
    /// Replay plan that is proved.
    Proved {
        script: Script,
        /// True if the buddies have got the replay plan.
        is_told: bool,
        /// True if this worker's own replica omits the pages.
        is_thin: bool,
    },
    /// Replay plan of a phase that reads a file which has changed.
    ///
    /// It is valid until the epoch `until` is committed, which has all pages again.
    Withdrawn { script: Script, until: Epoch },
}

impl Own {
    /// Returns the stage of a replay plan whose pages all replicas omit.
    pub(super) fn in_use(script: Script) -> Own {
        Own::Proved {
            script,
            is_told: true,
            is_thin: true,
        }
    }

    /// Returns the stage of a replay plan that was just proved.
    pub(super) fn proved(script: Script) -> Own {
        Own::Proved {
            script,
            is_told: false,
            is_thin: false,
        }
    }
}

/// Replay plans of this worker, and of the workers whose replicas it stores.
#[derive(Default)]
pub(super) struct WorkerState {
    pub(super) own: Own,
    /// Proved plan of the phase before, until a plan of the new phase is proved.
    pub(super) before: Option<Script>,
    pub(super) sent: Vec<Message>,
    pub(super) proof: Option<Message>,
    /// Incoming plans of the workers whose replicas it stores, by layer.
    pub(super) scripts: Vec<(usize, Message)>,
}

impl WorkerState {
    /// Returns to the plan of the phase before, as the new phase has failed.
    pub(super) fn go_back(&mut self, why: &str) {
        if let Some(script) = self.before.take() {
            log::warn!("{}", message::new_set_up_in_replicas(why));
            self.own = Own::in_use(script);
        }
    }

    /// Drops a withdrawn plan after the commit of an epoch that has all pages.
    pub(super) fn end_withdrawn(&mut self, committed: Epoch) {
        if matches!(self.own, Own::Withdrawn { until, .. } if until <= committed) {
            self.own = Own::None;
        }
    }

    /// Starts the trial of a plan whose pages have been written to their file.
    pub(super) fn look_after_file(&mut self) {
        let Own::Writing { writing, .. } = &self.own else {
            return;
        };
        let Some(outcome) = writing.outcome() else {
            return;
        };
        if let Own::Writing { script, .. } = std::mem::take(&mut self.own) {
            match outcome {
                Ok(()) => {
                    self.own = Own::Asked {
                        script,
                        is_sent: false,
                    }
                }
                Err(error) => tell_not_written(&error),
            }
        }
    }

    /// Returns the replay plan by which this worker's static data are rebuilt.
    pub(super) fn script(&self) -> Option<&Script> {
        match &self.own {
            Own::Proved { script, .. } | Own::Withdrawn { script, .. } => Some(script),
            Own::None | Own::Writing { .. } | Own::Asked { .. } => self.before.as_ref(),
        }
    }

    /// Drops messages after a failure; those that were in flight are resent.
    pub(super) fn interrupt(&mut self) {
        if let Own::Withdrawn { .. } = self.own
            && let Own::Withdrawn { script, .. } = std::mem::take(&mut self.own)
        {
            // The epoch that had all pages is lost; the next epoch will have them.
            self.own = Own::in_use(script);
        }
        match &mut self.own {
            Own::None | Own::Writing { .. } | Own::Withdrawn { .. } => {}
            Own::Asked { is_sent, .. } => *is_sent = false,
            Own::Proved {
                is_told, is_thin, ..
            } => (*is_told, *is_thin) = (false, false),
        }
        self.sent.clear();
        self.proof = None;
        self.scripts.clear();
    }
}

/// Logs that static data cannot be written to the disk.
pub(super) fn tell_not_written(error: &std::io::Error) {
    log::warn!("{}", message::static_data_not_written(disk::explain(error)));
}
