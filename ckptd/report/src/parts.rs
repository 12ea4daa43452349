//! Roles of the ranks along the timeline.

use crate::Event;
use std::collections::BTreeMap;
use understudy_formats::events::{Kind, ProcessNumber, Role, Worker};

/// Role of each rank at one time of the timeline.
#[derive(Default)]
pub struct Parts(BTreeMap<ProcessNumber, Role>);

impl Parts {
    pub fn follow(&mut self, event: &Event) {
        match event.kind {
            Kind::Start { role, .. } => self.0.insert(event.rank, role),
            Kind::Takeover {
                as_worker: Worker(n),
                ..
            } => self.0.insert(event.rank, Role::Worker(Worker(n))),
            _ => None,
        };
    }

    pub fn role(&self, rank: ProcessNumber) -> Option<Role> {
        self.0.get(&rank).copied()
    }
}
