//! Random histories of receives, compared with a failure-free model of MPI's matching.

use crate::drained::{self, DrainedMessage};
use crate::handles::VirtComm;
use crate::requests::{self, MessageArguments, RequestKind, RequestState, Requests};
use std::ffi::c_void;
use understudy_mpi::real_types::{ANY_SOURCE, ANY_TAG};

const HISTORIES: u64 = 3000;
const STEPS: u32 = 150;
const SOURCES: i32 = 2;
const TAGS: i32 = 2;
const COMMS: u64 = 2;
/// Number of persistent receives, which are created at the start and never freed.
const PERSISTENT: u32 = 3;

/// Message with a unique number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Message {
    comm: u64,
    source: i32,
    tag: i32,
    number: u64,
}

fn matches(message_arguments: &MessageArguments, message: &Message) -> bool {
    message_arguments.comm == message.comm
        && [ANY_SOURCE, message.source].contains(&message_arguments.peer)
        && [ANY_TAG, message.tag].contains(&message_arguments.tag)
}

/// Queues of posted receives and unexpected messages (MPI 4.1, section 3.5).
///
/// Among the receives that match a message, the one that was posted first receives it. Among the
/// messages that match a new receive, the first one is received.
#[derive(Clone, Default)]
struct Queues {
    posted: Vec<(u32, MessageArguments)>,
    unexpected: Vec<Message>,
}

impl Queues {
    fn post(&mut self, request: u32, message_arguments: MessageArguments) -> Option<Message> {
        let at = self
            .unexpected
            .iter()
            .position(|message| matches(&message_arguments, message));
        if at.is_none() {
            self.posted.push((request, message_arguments));
        }
        at.map(|at| self.unexpected.remove(at))
    }

    fn arrive(&mut self, message: Message) -> Option<u32> {
        let at = self
            .posted
            .iter()
            .position(|(_, message_arguments)| matches(message_arguments, &message));
        if at.is_none() {
            self.unexpected.push(message);
        }
        at.map(|at| self.posted.remove(at).0)
    }

    fn cancel(&mut self, request: u32) -> bool {
        let at = self.posted.iter().position(|(other, _)| *other == request);
        at.map(|at| self.posted.remove(at)).is_some()
    }
}

/// Receives of the runtime, on a library of two queues that a failure discards.
struct RuntimeModel {
    requests: Requests,
    drained: Vec<DrainedMessage>,
    library: Queues,
}

impl RuntimeModel {
    fn drained_message(message: Message) -> DrainedMessage {
        DrainedMessage {
            comm: message.comm,
            source: message.source,
            tag: message.tag,
            data: message.number.to_le_bytes().to_vec(),
            claimed: None,
            sender_to_notify: None,
        }
    }

    /// Receives from the drained messages or the library's queue.
    ///
    /// Corresponds to [`super::receive`] and [`super::start_in_place`].
    fn take(&mut self, index: u32, message_arguments: MessageArguments) -> Option<u64> {
        let comm = VirtComm(message_arguments.comm as *mut c_void);
        let got = match drained::first_matching(
            &self.drained,
            comm,
            message_arguments.peer,
            message_arguments.tag,
        ) {
            Some(at) => self
                .drained
                .remove(at)
                .data
                .try_into()
                .ok()
                .map(u64::from_le_bytes),
            None => self
                .library
                .post(index, message_arguments)
                .map(|message| message.number),
        };
        let request = self.requests.get_mut(index).unwrap();
        request.state = match got {
            Some(_) => requests::done_state(requests::EMPTY_STATUS, 0),
            None => RequestState::Active,
        };
        got
    }

    /// Drains all unexpected messages, one communicator after the other, and saves the state.
    fn cut(&mut self) -> Vec<u8> {
        let mut unexpected = std::mem::take(&mut self.library.unexpected);
        unexpected.sort_by_key(|message| message.comm);
        self.drained
            .extend(unexpected.into_iter().map(RuntimeModel::drained_message));
        let state = (&self.requests, &self.drained);
        bincode::encode_to_vec(state, bincode::config::standard()).unwrap()
    }

    /// Restores the saved state and posts the receives, in the order that `recovery` uses.
    fn roll_back(&mut self, saved: &[u8]) {
        let ((requests, drained), _) =
            bincode::decode_from_slice(saved, bincode::config::standard()).unwrap();
        (self.requests, self.drained, self.library) = (requests, drained, Queues::default());
        for index in self.requests.by_age() {
            let request = self.requests.get(index).unwrap();
            if let (Some(message_arguments), RequestState::Active) =
                (request.kind.message_arguments().copied(), request.state)
            {
                assert_eq!(
                    self.take(index, message_arguments),
                    None,
                    "a receive that was pending at the cut has matched a drained message"
                );
            }
        }
    }
}

/// Pseudorandom numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit
    }

    fn message_arguments(&mut self) -> MessageArguments {
        // One of three values is the wildcard.
        let mut or_any = |limit: i32, any: i32| {
            let number = self.below(limit as u64 * 3 / 2) as i32;
            if number < limit { number } else { any }
        };
        let (peer, tag) = (or_any(SOURCES, ANY_SOURCE), or_any(TAGS, ANY_TAG));
        MessageArguments {
            buffer: 0,
            count: 1,
            datatype: 0,
            peer,
            tag,
            comm: self.below(COMMS),
        }
    }
}

/// Program whose receives are posted both to the runtime and to a library without failures.
struct Program {
    runtime: RuntimeModel,
    /// Library without failures, which gives the expected results.
    model: Queues,
    /// Indices of started requests that the program has not completed.
    active: Vec<u32>,
    /// Indices of persistent requests that are not started.
    idle: Vec<u32>,
    /// Request and message of each match, in the order of time.
    history: Vec<(u32, u64)>,
}

impl Program {
    fn new(random: &mut Random) -> Program {
        let mut requests = Requests::NONE;
        let mut persistent = || {
            requests.insert(
                0,
                RequestKind::PersistentReceive(random.message_arguments()),
                RequestState::Inactive,
            )
        };
        let idle = (0..PERSISTENT).map(|_| persistent()).collect();
        let runtime = RuntimeModel {
            requests,
            drained: Vec::new(),
            library: Queues::default(),
        };
        Program {
            runtime,
            model: Queues::default(),
            active: Vec::new(),
            idle,
            history: Vec::new(),
        }
    }

    /// Performs a random action of the program or of a remote process.
    fn step(&mut self, random: &mut Random, number: u64) {
        match random.below(8) {
            0 | 1 => self.post(random.message_arguments()),
            2 if !self.idle.is_empty() => {
                let at = random.below(self.idle.len() as u64) as usize;
                let index = self.idle.swap_remove(at);
                self.runtime.requests.restamp(index);
                self.begin(index);
            }
            3..=5 => self.arrive(Message {
                comm: random.below(COMMS),
                source: random.below(SOURCES as u64) as i32,
                tag: random.below(TAGS as u64) as i32,
                number,
            }),
            6 if !self.active.is_empty() => {
                let at = random.below(self.active.len() as u64) as usize;
                self.complete(at);
            }
            7 if !self.active.is_empty() => {
                let at = random.below(self.active.len() as u64) as usize;
                self.cancel(self.active[at]);
            }
            _ => {}
        }
    }

    fn post(&mut self, message_arguments: MessageArguments) {
        let index = self.runtime.requests.insert(
            0,
            RequestKind::Receive(message_arguments),
            RequestState::Active,
        );
        self.begin(index);
    }

    fn begin(&mut self, index: u32) {
        let message_arguments = *self
            .runtime
            .requests
            .get(index)
            .unwrap()
            .kind
            .message_arguments()
            .unwrap();
        let got = self.runtime.take(index, message_arguments);
        let expected = self
            .model
            .post(index, message_arguments)
            .map(|message| message.number);
        assert_eq!(
            got, expected,
            "a receive has another message than in the model"
        );
        self.history.extend(got.map(|number| (index, number)));
        self.active.push(index);
    }

    fn arrive(&mut self, message: Message) {
        let got = self.runtime.library.arrive(message);
        assert_eq!(
            got,
            self.model.arrive(message),
            "{message:?} was received by another receive than in the model"
        );
        if let Some(index) = got {
            self.runtime.requests.get_mut(index).unwrap().state =
                requests::done_state(requests::EMPTY_STATUS, 0);
            self.history.push((index, message.number));
        }
    }

    /// Corresponds to `MPI_Test`, which completes the request if possible.
    fn complete(&mut self, at: usize) {
        let index = self.active[at];
        let request = self.runtime.requests.get_mut(index).unwrap();
        if request.state == RequestState::Active {
            return;
        }
        self.active.swap_remove(at);
        if request.is_persistent() {
            request.state = RequestState::Inactive;
            self.idle.push(index);
        } else {
            self.runtime.requests.remove(index);
        }
    }

    /// Cancels a receive, which completes it unless it has matched a message.
    fn cancel(&mut self, index: u32) {
        let was = self.runtime.library.cancel(index);
        assert_eq!(was, self.model.cancel(index));
        if was {
            self.runtime.requests.get_mut(index).unwrap().state =
                requests::done_state(requests::EMPTY_STATUS, 0);
        }
    }
}

/// State of a program at a cut, which a rollback restores.
struct Cut {
    saved: Vec<u8>,
    model: Queues,
    active: Vec<u32>,
    idle: Vec<u32>,
}

impl Cut {
    fn of(program: &mut Program) -> Cut {
        Cut {
            saved: program.runtime.cut(),
            model: program.model.clone(),
            active: program.active.clone(),
            idle: program.idle.clone(),
        }
    }

    fn restore(&self, program: &mut Program) {
        program.runtime.roll_back(&self.saved);
        program.model = self.model.clone();
        program.active.clone_from(&self.active);
        program.idle.clone_from(&self.idle);
        let order = |queues: &Queues| {
            queues
                .posted
                .iter()
                .map(|(request, _)| *request)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            order(&program.runtime.library),
            order(&program.model),
            "receives were posted in another order than in the model"
        );
    }
}

#[test]
fn receives_get_equal_messages_after_any_number_of_reposts() {
    let (mut reposted, mut matched) = (0, 0);
    for seed in 0..HISTORIES {
        let mut random = Random(seed);
        let mut program = Program::new(&mut random);
        let mut cut = Cut::of(&mut program);
        for number in 0..STEPS {
            match random.below(12) {
                0 => cut = Cut::of(&mut program),
                1 => {
                    cut.restore(&mut program);
                    reposted += program.runtime.library.posted.len();
                }
                _ => program.step(&mut random, u64::from(number)),
            }
        }
        matched += program.history.len();
    }
    // Lower numbers would mean that the histories contain too few rollbacks or messages.
    assert!(
        reposted > 10_000 && matched > 50_000,
        "{reposted} posted again, {matched} messages"
    );
}
