//! Trial replays by a buddy, for the workers whose replicas it stores.
//!
//! The buddy replays one phase after the other, and sends each worker the result of its phase. The
//! buddy's own template process runs the replays. As in a later recovery, the template process
//! therefore belongs to another process than the one that has recorded the phase.

use super::finding::{StaticDataProof, TrialResult};
use super::replay_settings::omits_static_data;
use super::template::{ReplayRequest, Template};
use crate::control_messages::{InFlight, Peer, SendQueue, tag};
use crate::world;
use crate::{events, fault, headroom};
use bincode::config::standard;
use understudy_formats::events::Kind;
use understudy_job::Runtime;
use understudy_numbers::{Epoch, Worker};

/// Trial replays that this buddy has to run or has run.
#[derive(Default)]
pub(super) struct TrialQueue {
    /// Replay plan that is being received, and its worker.
    incoming: Option<(Worker, InFlight<Vec<u8>>)>,
    /// Encoded replay plans with their workers, in the order of arrival.
    waiting: Vec<(Worker, Vec<u8>)>,
    /// Request to the template process, with the worker whose phase is replayed.
    running: Option<(Worker, ReplayRequest)>,
    /// Proofs in flight.
    sent: SendQueue,
}

impl TrialQueue {
    /// Makes progress as far as possible without waiting.
    pub(super) fn poll(&mut self, rt: &Runtime, template: &Template) {
        self.receive(rt);
        if let Some((worker, request)) = &mut self.running {
            let Some(result) = request.trial_result(template) else {
                return;
            };
            let (worker, result) = (*worker, result.unwrap_or_else(TrialResult::none));
            self.running = None;
            self.report_result(rt, worker, result);
        }
        if !self.waiting.is_empty() {
            let (worker, plan) = self.waiting.remove(0);
            // The phase of the other worker is assumed to need at most as much memory as this
            // process has.
            let [anonymous, _] = headroom::resident_memory();
            let room = headroom::check_room(rt, anonymous);
            match room.and_then(|()| template.request_trial(&plan)) {
                Ok(request) => self.running = Some((worker, request)),
                Err(why) => self.report_result(rt, worker, TrialResult::none(why)),
            }
        }
    }

    fn receive(&mut self, rt: &Runtime) {
        let Some((worker, message)) = &mut self.incoming else {
            let arrived = InFlight::receive_arrived(world::private(rt), None, tag::REPLAY_PLAN);
            self.incoming = arrived.ok().flatten();
            return;
        };
        if let Ok(Some(plan)) = message.poll() {
            self.waiting.push((*worker, plan));
            self.incoming = None;
            fault::point("rehearse.begin", Epoch::NONE);
        }
    }

    fn report_result(&mut self, rt: &Runtime, worker: Worker, result: TrialResult) {
        fault::point("rehearse.end", Epoch::NONE);
        log_result(worker, &result);
        if !omits_static_data() {
            return;
        }
        let finding = result.finding;
        // A failure is detected by the next MPI call that is checked.
        let _ = self.sent.remove_sent();
        let proof: StaticDataProof = finding
            .failure
            .is_none()
            .then_some((finding.different, finding.inputs));
        let bytes = bincode::encode_to_vec(&proof, standard()).unwrap_or_default();
        let to = Peer {
            comm: world::private(rt),
            rank: worker,
            tag: tag::PROOF,
        };
        let _ = self.sent.send(bytes, [to]);
    }
}

fn log_result(worker: Worker, result: &TrialResult) {
    let TrialResult {
        finding,
        journal,
        pages,
        duration,
    } = result;
    log::info!(
        "trial replay of worker {worker}: {} of {pages} pages differ, {:?} instead of \
         {duration:?}{}",
        finding.different.len(),
        finding.duration,
        finding
            .failure
            .as_ref()
            .map_or(String::new(), |why| format!("; {why}"))
    );
    events::emit(Kind::TrialReplay {
        worker,
        journal: *journal,
        pages: *pages,
        different: finding.different.len() as u64,
        places: finding.places.clone(),
        failure: finding.failure.clone(),
        replay_ns: finding.duration.as_nanos() as u64,
        phase_ns: duration.as_nanos() as u64,
    });
}
