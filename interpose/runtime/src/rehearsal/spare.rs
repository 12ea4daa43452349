//! An idle spare's part: it takes scripts, has them rehearsed one after the other, and tells their workers.

use super::child::{Child, Finding, Task};
use super::message::Message;
use super::script::Script;
use super::{is_on, is_used};
use crate::cell::Main;
use crate::events;
use crate::fault;
use crate::journal::Inputs;
use crate::own_messages::{Peer, tag};
use bincode::config::standard;
use ckptd::events::{Kind, Worker};
use understudy_mpi::real_types::{ANY_SOURCE, RealComm};

/// What a spare tells a worker: the numbers of pages that are not rebuilt, and what was read of files; or that none are.
pub(super) type Proof = Option<(Vec<u64>, Inputs)>;

/// How often a phase is rehearsed of which not all comes out equal: what depends on something that is not the same twice
/// may come out equal by chance.
const DOUBTFUL_TIMES: u32 = 3;

#[derive(Default)]
struct State {
    incoming: Option<Message>,
    waiting: Vec<Work>,
    child: Option<(Work, Child)>,
    told: Vec<Message>,
}

/// A phase to be rehearsed.
struct Work {
    /// Who asks, in `control`.
    from: u32,
    script: Script,
    /// What the rehearsals so far have found.
    found: Option<Finding>,
    times: u32,
}

impl Work {
    fn begin(self) -> Option<(Work, Child)> {
        let child = Child::start(&self.script, &Task::Compare);
        let child = child.inspect_err(|error| log::warn!("no rehearsal: {error}")).ok()?;
        Some((self, child))
    }

    /// Takes in what a rehearsal has found; whether there should be another one. The replays that are relied on are those
    /// that read from the record, so one of them is rehearsed, too.
    fn learn(&mut self, finding: Finding) -> bool {
        self.times += 1;
        let is_recording = self.times == 1 && finding.failure.is_none();
        if is_recording {
            self.script.set_inputs(finding.inputs.clone());
        }
        let is_new = is_recording && !finding.inputs.is_empty();
        let found = match self.found.take() {
            Some(before) => before.and(finding),
            None => finding,
        };
        let is_doubtful = found.failure.is_none() && !found.different.is_empty();
        self.found = Some(found);
        is_new || is_doubtful && self.times < DOUBTFUL_TIMES
    }
}

static STATE: Main<Option<State>> = Main::new(None);

/// Goes on as far as possible.
pub fn poll(control: RealComm) {
    if !is_on() {
        return;
    }
    let mut state = STATE.borrow_mut();
    let state = state.get_or_insert_default();
    state.receive(control);
    if state.child.as_mut().is_some_and(|(_, child)| !child.is_done()) {
        return;
    }
    if let Some((mut work, child)) = state.child.take() {
        if work.learn(child.finding()) {
            state.child = work.begin();
            return;
        }
        fault::point("rehearse.end", 0);
        let finding = work.found.take().unwrap_or_default();
        tell_user(&work.script, &finding);
        if is_used() {
            state.tell(control, work.from, finding);
        }
    }
    state.child = state.waiting.pop().and_then(Work::begin);
}

/// Whether there is something to go on with soon.
pub fn is_busy() -> bool {
    let is_busy = |state: &State| state.incoming.is_some() || state.child.is_some() || !state.waiting.is_empty();
    STATE.borrow().as_ref().is_some_and(is_busy)
}

impl State {
    fn receive(&mut self, control: RealComm) {
        let Some(message) = &mut self.incoming else {
            self.incoming = Message::probe(control, ANY_SOURCE, tag::SCRIPT);
            return;
        };
        if message.test() == Ok(true)
            && let Some(message) = self.incoming.take()
            && let Ok((script, _)) = bincode::decode_from_slice(&message.bytes, standard())
        {
            let work = Work {
                from: message.from,
                script,
                found: None,
                times: 0,
            };
            self.waiting.insert(0, work);
            fault::point("rehearse.begin", 0);
        }
    }

    fn tell(&mut self, control: RealComm, worker: u32, finding: Finding) {
        self.told.retain_mut(|message| message.test() == Ok(false));
        let proof: Proof = finding.failure.is_none().then_some((finding.different, finding.inputs));
        let bytes = bincode::encode_to_vec(&proof, standard()).unwrap_or_default();
        let to = Peer {
            comm: control,
            rank: worker,
            tag: tag::PROOF,
        };
        self.told.extend(Message::send(bytes, to));
    }
}

fn tell_user(script: &Script, finding: &Finding) {
    let pages = script.page_count();
    log::info!(
        "rehearsal of worker {}: {} of {pages} pages differ, {:?} instead of {:?}{}",
        script.worker,
        finding.different.len(),
        finding.took,
        script.took(),
        finding.failure.as_ref().map_or(String::new(), |why| format!("; {why}"))
    );
    events::emit(Kind::Rehearsal {
        worker: Worker(script.worker),
        journal: script.journal(),
        pages,
        different: finding.different.len() as u64,
        places: finding.places.clone(),
        failure: finding.failure.clone(),
        replay_ns: finding.took.as_nanos() as u64,
        phase_ns: script.took().as_nanos() as u64,
    });
}

/// After a failure: everything under way is forgotten.
pub(super) fn interrupt() {
    drop(STATE.take());
}
