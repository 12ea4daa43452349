//! Draining of a host: the request, and its answer when the host is free.

use super::JobLeader;
use super::drain_request::DrainRequest;
use crate::print_message::print_message;
use understudy_catalogue::message;
use understudy_protocol::{Event, Node};
use understudy_wire::line::ReplaceAnswer;

impl JobLeader {
    /// Begins to drain a host; the answer to `request` follows when the host is free.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub(super) fn drain_host(&mut self, request: (u32, u64), name: &str) -> Result<(), String> {
        let (node, host) = self.dispensable_host(name, "drained")?;
        if let Some(drain) = &mut self.drain {
            if drain.node != node {
                return Err(format!(
                    "{} is being drained: wait until it is free",
                    drain.host
                ));
            }
            drain.requests.push(request);
            return Ok(());
        }
        if self
            .job
            .as_ref()
            .is_none_or(|job| job.running_ranks().is_empty())
        {
            return Err("the job recovers from a failure: try again when it runs".to_owned());
        }
        if self.takes_no_checkpoints {
            return Err("with UNDERSTUDY_INTERVAL=off the job takes no checkpoint".to_owned());
        }
        if !self.spawned.is_empty() {
            return Err(
                "no checkpoint is possible while processes of MPI_Comm_spawn run".to_owned(),
            );
        }
        print_message(message::host_drain_requested(&host));
        let requests = vec![request];
        self.drain = Some(DrainRequest {
            node,
            host,
            requests,
            has_left: false,
            has_agent_ended: false,
        });
        self.handle_event(Event::Drain(Node(node)));
        Ok(())
    }

    /// Ends the request to drain a host, and answers it.
    pub(super) fn end_drain(&mut self, outcome: Result<(), String>) {
        let Some(drain) = self.drain.take() else {
            return;
        };
        match &outcome {
            Ok(()) => print_message(message::host_drained(&drain.host)),
            Err(why) => print_message(message::host_not_drained(&drain.host, why)),
        }
        let answer: ReplaceAnswer = outcome.map(|()| drain.host);
        for request in drain.requests {
            self.answer_request(request, &answer);
        }
    }

    /// Records that a node's manager has exited; returns true if the node was drained.
    pub(super) fn note_departure(&mut self, node: u32) -> bool {
        let has_guardians = self.guardians.values().any(|home| *home == node);
        match self.drain.as_mut().filter(|drain| drain.node == node) {
            Some(drain) if !has_guardians => {
                drain.has_left = true;
                true
            }
            Some(_) => {
                self.end_drain(Err("the host was lost before that".to_owned()));
                false
            }
            None => false,
        }
    }

    /// Records the end of the command that was started for a node.
    pub fn note_agent_end(&mut self, node: u32) {
        if let Some(drain) = self.drain.as_mut().filter(|drain| drain.node == node) {
            drain.has_agent_ended = true;
        }
    }

    /// Returns the drained node, once, when it has no process of the job any more.
    pub fn take_drained(&mut self) -> Option<u32> {
        let is_free = |drain: &&DrainRequest| drain.has_left && drain.has_agent_ended;
        let node = self.drain.as_ref().filter(is_free)?.node;
        self.end_drain(Ok(()));
        Some(node)
    }
}
