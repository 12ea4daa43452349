//! Model of the pools, with which they are compared.

use std::collections::BTreeMap;
use std::time::Duration;
use understudy_formats::events::{ProcessNumber, Worker};
use understudy_wire::spares::SpareLimits;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpareState {
    Idle,
    Leased(Worker),
    Plays,
}

/// State of a spare in the model.
#[derive(Debug)]
pub struct ModelSpare {
    pub does: SpareState,
    pub last_beat: Duration,
    pub domain: String,
}

#[derive(Debug, Default)]
pub struct JobModel {
    pub spares: BTreeMap<ProcessNumber, ModelSpare>,
    pub limits: Option<SpareLimits>,
    pub expected: u32,
    pub last_request: Duration,
    pub left: Option<Duration>,
    pub round: u64,
}

impl JobModel {
    pub fn in_pool(&self) -> impl Iterator<Item = (&ProcessNumber, &ModelSpare)> {
        self.spares
            .iter()
            .filter(|(_, known)| known.does != SpareState::Plays)
    }
}
