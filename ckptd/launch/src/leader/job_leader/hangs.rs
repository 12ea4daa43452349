//! Hangs of the job: reports of inactive processes, and replacements.

use super::{JobLeader, OWN_NODE};
use crate::messages::{Order, ServerOrder};
use crate::print_message::print_message;
use understudy_catalogue::{exit_status, message};
use understudy_protocol::{
    Event, Guardian, GuardianAction, GuardianSilence, HangAction, Job, JobOrder, NodeEnd,
    ProcessNumber,
};
use understudy_settings::Scheme;
use understudy_wire::line::{Activity, ProcessEnd, ReplaceAnswer, ReplaceTarget};

impl JobLeader {
    /// Records that a process has become inactive, or is active again.
    pub(super) fn record_activity(&mut self, number: ProcessNumber, state: Option<Activity>) {
        log::info!("process {number} is inactive: {state:?}");
        if let Some(hangs) = &mut self.hangs {
            hangs.record(self.began.elapsed(), number, state);
        }
    }

    /// Forgets the inactivity of a process that has ended.
    pub(super) fn forget_inactivity(&mut self, ended: &ProcessEnd) {
        let (ProcessEnd::Exited { number, .. }
        | ProcessEnd::Killed { number, .. }
        | ProcessEnd::OutputClosed { number, .. }) = ended;
        if let Some(hangs) = &mut self.hangs {
            hangs.forget(*number);
        }
    }

    /// Kills processes at the request of the user; returns the answer unless it follows later.
    pub(super) fn replace_on_request(
        &mut self,
        request: (u32, u64),
        target: ReplaceTarget,
    ) -> Option<ReplaceAnswer> {
        let job = self.job.as_ref();
        if !job.is_some_and(|job| job.has_resumed() && !job.is_ending()) {
            let why = "no worker runs the program yet, or the job ends";
            return Some(Err(why.to_owned()));
        }
        match target {
            ReplaceTarget::Process(number) => Some(self.replace_process(number)),
            ReplaceTarget::Host(name) => Some(self.replace_host(&name)),
            ReplaceTarget::DrainedHost(name) => self.drain_host(request, &name).err().map(Err),
        }
    }

    /// Answers a request of a command on this node.
    pub(super) fn answer_request(&mut self, (node, id): (u32, u64), answer: &ReplaceAnswer) {
        let bytes = bincode::encode_to_vec(answer, bincode::config::standard()).ok();
        self.send_to_servers([(node, ServerOrder::Answer { id, bytes })]);
    }

    fn replace_process(&mut self, number: ProcessNumber) -> ReplaceAnswer {
        if !self.job.as_ref().is_some_and(|job| job.lives(number)) {
            return Err(format!("the job has no living rank {number}"));
        }
        let host = self.host_of(number);
        print_message(message::replacement_requested(number, &host));
        self.handle_event(Event::Replace(number));
        Ok(host)
    }

    /// Ends a host, whose ranks are then replaced on other hosts as after its loss.
    fn replace_host(&mut self, name: &str) -> ReplaceAnswer {
        let (node, host) = self.dispensable_host(name, "replaced")?;
        print_message(message::host_replacement_requested(&host));
        self.orders
            .push((node, Order::Job(JobOrder::EndNode(NodeEnd::Now))));
        Ok(host)
    }

    /// Returns the host with this name.
    ///
    /// # Errors
    /// The reason why the job needs the host.
    pub(super) fn dispensable_host(
        &self,
        name: &str,
        purpose: &str,
    ) -> Result<(u32, String), String> {
        let short = |host: &str| host.split('.').next().map(str::to_owned);
        let is_named = |host: &&String| *host == name || short(host) == short(name);
        let exact = self.hosts.iter().find(|(_, host)| *host == name);
        let found = exact.or_else(|| self.hosts.iter().find(|(_, host)| is_named(host)));
        let Some((&node, host)) = found else {
            let hosts: Vec<&str> = self.hosts.values().map(String::as_str).collect();
            let hosts = hosts.join(", ");
            return Err(format!("the job has no host {name}; its hosts are {hosts}"));
        };
        if node == OWN_NODE {
            return Err(format!(
                "{host} is the first host of the job, which leads it and cannot be {purpose}; \
                 `understudy replace RANK` replaces a single rank"
            ));
        }
        if !self.silent_guardians.kills() {
            return Err(
                "the launcher of this job would end it: only jobs of `understudy run` and \
                 `ckptd launch` survive the loss of a host"
                    .to_owned(),
            );
        }
        if self.copies == Some(Scheme::Copies(0)) {
            return Err("with UNDERSTUDY_COPIES=0, no other host has replicas of its ranks".into());
        }
        if self.guardians.values().all(|home| *home == node) {
            return Err(format!("no other host than {host} has places for ranks"));
        }
        Ok((node, host.clone()))
    }

    /// Returns the name of the host of a process.
    fn host_of(&self, number: ProcessNumber) -> String {
        let node = self.processes.get(&number);
        let host = node.and_then(|node| self.hosts.get(node));
        host.map_or("a lost node", String::as_str).to_owned()
    }

    /// Records that a guardian does not answer its manager, or answers again.
    ///
    /// The leader may not know the node yet, if the guardian has not reported to a new manager.
    pub(super) fn record_guardian_silence(
        &mut self,
        node: u32,
        guardian: (Guardian, u32),
        silence: GuardianSilence,
    ) {
        self.guardians.entry(guardian.0).or_insert(node);
        let now = self.began.elapsed();
        let action = self.silent_guardians.record(now, guardian, silence);
        action
            .into_iter()
            .for_each(|action| self.act_on_guardian(action));
    }

    /// Reports silent guardians, and kills those that are overdue, if it is time.
    pub(super) fn judge_guardians(&mut self) {
        let living = self.guardians.keys().copied().collect();
        let actions = self.silent_guardians.judge(self.began.elapsed(), &living);
        actions
            .into_iter()
            .for_each(|action| self.act_on_guardian(action));
    }

    fn act_on_guardian(&mut self, action: GuardianAction) {
        let host = |guardian: Guardian| {
            let node = self.guardians.get(&guardian);
            let host = node.and_then(|node| self.hosts.get(node));
            host.map_or("a lost node", String::as_str)
        };
        let limit = self.node_timeout.as_secs();
        match action {
            GuardianAction::ReportSilence(guardian, pid) => {
                let consequence = match self.silent_guardians.kills() {
                    true => format!(
                        "after {limit} s (UNDERSTUDY_NODE_TIMEOUT) it is killed, and its rank is \
                         replaced"
                    ),
                    false => "a failure of its rank would not be noticed".to_owned(),
                };
                let host = host(guardian);
                print_message(message::guardian_silent(guardian, host, pid, consequence));
            }
            GuardianAction::ReportAnswer(guardian, time) => {
                let time = format_args!("{:.1}", time.as_secs_f64());
                print_message(message::guardian_answers(guardian, host(guardian), time));
            }
            GuardianAction::Kill(rank) => {
                print_message(message::guardian_killed(rank, host(rank), limit));
                self.send(JobOrder::KillGuardian { rank });
            }
        }
    }

    /// Reports hangs, and replaces processes that cause them, if it is time.
    pub(super) fn judge_hangs(&mut self) {
        let Some(mut hangs) = self.hangs.take() else {
            return;
        };
        // At the end of the program nothing is reported any more.
        let job = self.job.as_ref().filter(|job| !job.is_ending());
        hangs.retain(|number| job.is_some_and(|job| job.lives(number)));
        let ranks = job.map_or(&[][..], Job::running_ranks);
        let actions = hangs.judge(self.began.elapsed(), ranks, |number| self.host_of(number));
        self.hangs = Some(hangs);
        for action in actions {
            match action {
                HangAction::Print(text) => print_message(text),
                HangAction::Replace(number) => self.handle_event(Event::Replace(number)),
                HangAction::GiveUp => self.handle_event(Event::Abort(exit_status::PROGRAM_FAILURE)),
            }
        }
    }
}
