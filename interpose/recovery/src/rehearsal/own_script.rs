//! The script of this worker's phase, from its end to its proof.

use super::message::Message;
use crate::copies::Script;
use crate::disk::{self, Writing};
use understudy_catalogue::message;
use understudy_numbers::Epoch;

/// Stage of this worker's script.
#[derive(Default)]
pub(super) enum Own {
    /// No script.
    #[default]
    None,
    /// Pages that are being written to a file.
    Writing { script: Script, writing: Writing },
    /// Script that a holder has rehearsed, or is to get.
    Asked { script: Script, is_sent: bool },
    /// Script that is proved.
    Proved {
        script: Script,
        /// True if the holders know of the script.
        is_told: bool,
        /// True if this worker's own replica does without the pages.
        is_thin: bool,
    },
    /// Script of a phase that reads a file which has changed.
    ///
    /// It counts until this epoch is committed, which has all pages again.
    Withdrawn { script: Script, until: Epoch },
}

impl Own {
    /// Script whose pages all replicas do without.
    pub(super) fn in_use(script: Script) -> Own {
        Own::Proved {
            script,
            is_told: true,
            is_thin: true,
        }
    }

    /// Script that was just proved.
    pub(super) fn proved(script: Script) -> Own {
        Own::Proved {
            script,
            is_told: false,
            is_thin: false,
        }
    }
}

/// Scripts of this worker and of its partners.
#[derive(Default)]
pub(super) struct WorkerState {
    pub(super) own: Own,
    /// Proved script of the phase before, until one of a new phase is.
    pub(super) before: Option<Script>,
    pub(super) sent: Vec<Message>,
    pub(super) proof: Option<Message>,
    /// Scripts of partners, by layer.
    pub(super) scripts: Vec<(usize, Message)>,
}

impl WorkerState {
    /// Returns to the script of the phase before, as nothing comes of a new phase.
    pub(super) fn go_back(&mut self, why: &str) {
        if let Some(script) = self.before.take() {
            log::warn!("{}", message::new_phase_in_copies(why));
            self.own = Own::in_use(script);
        }
    }

    /// Drops a withdrawn script once an epoch is committed that has all pages.
    pub(super) fn end_withdrawn(&mut self, committed: Epoch) {
        if matches!(self.own, Own::Withdrawn { until, .. } if until <= committed) {
            self.own = Own::None;
        }
    }

    /// Has the pages compared once they are in their file.
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

    /// Returns the script by which this worker's static data are made again.
    pub(super) fn script(&self) -> Option<&Script> {
        match &self.own {
            Own::Proved { script, .. } | Own::Withdrawn { script, .. } => Some(script),
            Own::None | Own::Writing { .. } | Own::Asked { .. } => self.before.as_ref(),
        }
    }

    /// Drops messages after a failure; those that were in flight are sent again.
    pub(super) fn interrupt(&mut self) {
        if let Own::Withdrawn { .. } = self.own
            && let Own::Withdrawn { script, .. } = std::mem::take(&mut self.own)
        {
            // The epoch that had all pages is gone; the next one will have them.
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
