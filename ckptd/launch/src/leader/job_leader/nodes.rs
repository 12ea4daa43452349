//! The nodes of a job: they connect, become silent, are lost, or get another manager.

use super::JobLeader;
use crate::leader::exchange::Exchange;
use crate::messages::{Order, ServerOrder};
use crate::print_message::print_message;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_numbers::Guardian;
use understudy_protocol::{Domain, Event, Node, SilenceChange, SilenceLimits};
use understudy_settings::domains::domain_of_host;

impl JobLeader {
    /// Adds a node that has connected; ends the job if two hosts have equal names.
    pub fn join(&mut self, node: u32, host: String) {
        if self.hosts.values().any(|other| *other == host) {
            self.give_up(&message::host_names_equal(&host).to_string());
        }
        log::info!("node {node} is {host}");
        self.hosts.insert(node, host);
    }

    /// Begins again with the job, because the manager of another node was replaced.
    ///
    /// Returns false if the job ends, so that nothing needs to be known of its processes any more.
    /// Otherwise all nodes must report again.
    pub fn repeat_reports(&mut self) -> bool {
        let now = self.began.elapsed();
        let Some(job) = &mut self.job else {
            return true;
        };
        // Managers cannot find spawned processes again.
        if !self.spawned.is_empty() || job.is_over() || job.is_ending() && job.status() != 0 {
            return false;
        }
        *job = job.awaiting_reports(now);
        self.awaited.append(&mut self.guardians);
        self.processes.clear();
        self.exchange = Exchange::default();
        self.orders.clear();
        true
    }

    /// Handles the loss of a node after this time of silence.
    ///
    /// Also handles a node that never connects. Returns true if the node had guardians.
    pub fn lose(&mut self, node: u32, silence: Duration) -> bool {
        self.lost.insert(node);
        let was_drained = self.note_departure(node);
        let host = self.hosts.remove(&node);
        let awaited = self.awaited.extract_if(.., |_, home| *home == node);
        let awaited: Vec<Guardian> = awaited.map(|(rank, _)| rank).collect();
        let had_guardians =
            !awaited.is_empty() || self.guardians.values().any(|home| *home == node);
        self.guardians.retain(|_, home| *home != node);
        self.is_hopeless |= self.job.is_none();
        if had_guardians && !self.is_over() {
            print_message(message::host_lost(host.unwrap_or_default()));
        }
        let (names, answers) = self.exchange.lose(node);
        self.send_to_servers(answers);
        for name in names {
            self.send_to_all(&Order::Servers(ServerOrder::Forget { name }));
        }
        if !was_drained {
            self.handle_event(Event::NodeLost(Node(node), silence));
        }
        for rank in awaited {
            self.handle_event(Event::GuardianDied(rank));
        }
        had_guardians
    }

    /// Reports that a node does not answer, or that it answers again.
    pub fn note_silence(&self, node: u32, change: SilenceChange, limits: SilenceLimits) {
        let Some(host) = self.hosts.get(&node).filter(|_| !self.is_over()) else {
            return;
        };
        match change {
            SilenceChange::Began => {
                let limit = limits.wait().as_secs();
                print_message(message::host_silent(host, limit));
            }
            SilenceChange::Ended(time) => {
                let time = format_args!("{:.1}", time.as_secs_f64());
                print_message(message::host_answers(host, time));
            }
        }
    }

    /// True if a node has not connected yet and is not lost.
    pub fn awaits_node(&self, node: u32) -> bool {
        !self.hosts.contains_key(&node) && !self.lost.contains(&node)
    }

    /// Returns the failure domain of a node; `None` if its host is not listed.
    ///
    /// Also `None` if the file cannot be read, which the ranks report.
    pub(super) fn domain_of(&mut self, node: u32) -> Option<Domain> {
        let name =
            domain_of_host(self.file_of_domains.as_ref()?, self.hosts.get(&node)?).ok()??;
        let listed = self.domains.iter().position(|other| *other == name);
        let number = listed.unwrap_or_else(|| {
            self.domains.push(name);
            self.domains.len() - 1
        });
        Some(Domain(number as u32))
    }
}
