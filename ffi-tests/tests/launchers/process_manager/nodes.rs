//! Two nodes: processes with a process manager each, and a connection between them.

use super::bench::{Bench, LIMIT};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use understudy_pmi::{
    Answer, Fence, GenerationName, ModexRequest, MpiKind, Peers, Rank, Server, Spawn,
};

const NODE: &str = "LAUNCH_TEST_NODE";
const PROGRAM: &str = "LAUNCH_TEST_PROGRAM";
const OF_RANK: &str = "LAUNCH_TEST_OF_RANK";
const SOCKET: &str = "LAUNCH_TEST_SOCKET";

/// Runs [`one`] twice, with rank r on node `of_rank[r]`.
pub fn two(program: &Path, of_rank: &[usize]) {
    let directory = tempfile::tempdir().unwrap();
    let of_rank: Vec<String> = of_rank.iter().map(usize::to_string).collect();
    let node = |number: usize| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = super::test_name("as_one_of_two_nodes");
        command.args(["--exact", &test, "--ignored", "--nocapture"]);
        command
            .env(NODE, number.to_string())
            .env(PROGRAM, program)
            .env(OF_RANK, of_rank.join(","));
        command.env(SOCKET, directory.path().join("socket"));
        command.spawn().unwrap()
    };
    let mut nodes = [node(0), node(1)];
    let until = Instant::now() + 3 * LIMIT;
    while nodes
        .iter_mut()
        .any(|node| node.try_wait().unwrap().is_none())
    {
        if Instant::now() > until {
            nodes.iter_mut().for_each(|node| drop(node.kill()));
            panic!("the nodes wait for each other");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(nodes.iter_mut().all(|node| node.wait().unwrap().success()));
}

/// Runs one of two nodes; does nothing unless started as a node.
pub fn one() {
    let Some(program) = std::env::var_os(PROGRAM) else {
        return;
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let here: usize = variable(NODE).parse().unwrap();
    let of_rank = variable(OF_RANK)
        .split(',')
        .map(|host| host.parse().unwrap())
        .collect();
    let job = format!("nodes-{}", std::os::unix::process::parent_id());
    let (other, stream) = OtherNode::meet(here, Path::new(&variable(SOCKET)));
    let mut bench = Bench::of_several(Path::new(&program), job, here, of_rank, other.clone());
    other.listen(stream, bench.server.clone());
    for _ in 0..3 {
        bench.undisturbed();
    }
    // With these variables, fences exchange no data, and ranks request data when they need it.
    if bench.kind() == MpiKind::OpenMpi {
        bench
            .variables
            .push(("OMPI_MCA_pmix_base_async_modex", "1".to_owned()));
        bench
            .variables
            .push(("OMPI_MCA_pmix_base_collect_data", "0".to_owned()));
        bench.undisturbed();
        let asked = other.state.lock().unwrap().asked;
        assert!(asked > 0);
    }
    if here == 1 {
        // This node exits with all of its ranks, while those of the other node wait for them.
        return;
    }
    let mut run = bench.run(&["apart"]);
    assert!(!run.world.wait(LIMIT));
    assert!(
        !run.world.poll().is_empty(),
        "they wait for a node that is lost"
    );
    bench.end(run);
    bench.of_rank.fill(0);
    bench.undisturbed();
    bench.assert_nothing_left();
}

/// The other node, and messages between the nodes.
struct OtherNode {
    out: Mutex<UnixStream>,
    state: Mutex<State>,
    server: OnceLock<Arc<Server>>,
}

#[derive(Default)]
struct State {
    is_lost: bool,
    /// Fences in which this node waits for the other node, with this node's data.
    waiting: HashMap<String, (Answer, Vec<u8>)>,
    /// Fences in which the other node waits, with its data.
    arrived: HashMap<String, Vec<u8>>,
    questions: HashMap<String, Answer>,
    asked: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Message {
    Fence = 0,
    Question = 1,
    Reply = 2,
}

impl OtherNode {
    /// Connects the nodes: node 0 listens, node 1 connects.
    fn meet(here: usize, socket: &Path) -> (Arc<OtherNode>, UnixStream) {
        let stream = match here {
            0 => UnixListener::bind(socket).unwrap().accept().unwrap().0,
            _ => loop {
                match UnixStream::connect(socket) {
                    Ok(stream) => break stream,
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            },
        };
        let other = OtherNode {
            out: Mutex::new(stream.try_clone().unwrap()),
            state: Mutex::default(),
            server: OnceLock::new(),
        };
        (Arc::new(other), stream)
    }

    fn send(&self, kind: Message, key: &str, bytes: &[u8]) {
        let mut message = vec![kind as u8];
        for part in [key.as_bytes(), bytes] {
            message.extend((part.len() as u32).to_le_bytes());
            message.extend(part);
        }
        // If the other node is lost, the receiving thread reports it.
        let _ = self.out.lock().unwrap().write_all(&message);
    }

    fn listen(self: &Arc<OtherNode>, mut stream: UnixStream, server: Arc<Server>) {
        assert!(self.server.set(server).is_ok());
        let other = self.clone();
        std::thread::spawn(move || {
            while let Some((kind, key, bytes)) = receive(&mut stream) {
                other.handle(kind, key, bytes);
            }
            let mut state = other.state.lock().unwrap();
            state.is_lost = true;
            // Dropping an answer reports that no data will arrive.
            let lost = (
                std::mem::take(&mut state.waiting),
                std::mem::take(&mut state.questions),
            );
            drop(state);
            drop(lost);
        });
    }

    fn handle(self: &Arc<OtherNode>, kind: Message, key: String, bytes: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        match kind {
            Message::Fence => match state.waiting.remove(&key) {
                Some((answer, own)) => {
                    drop(state);
                    answer.give([own, bytes].concat());
                }
                None => drop(state.arrived.insert(key, bytes)),
            },
            Message::Reply => {
                let answer = state.questions.remove(&key);
                drop(state);
                if let Some(answer) = answer {
                    answer.give(bytes);
                }
            }
            Message::Question => {
                drop(state);
                let mut parts = key.split('/');
                let (job, number) = parts.next().unwrap().rsplit_once('.').unwrap();
                let generation = GenerationName::new(job, number.parse().unwrap()).unwrap();
                let rank = Rank(parts.next().unwrap().parse().unwrap());
                let (other, key) = (self.clone(), key.clone());
                let reply =
                    move |bytes: Option<Vec<u8>>| other.send(Message::Reply, &key, &bytes.unwrap());
                self.server.get().unwrap().modex(&generation, rank, reply);
            }
        }
    }
}

fn receive(stream: &mut UnixStream) -> Option<(Message, String, Vec<u8>)> {
    let mut kind = [0];
    stream.read_exact(&mut kind).ok()?;
    let mut part = || {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    };
    let (key, bytes) = (String::from_utf8(part()?).unwrap(), part()?);
    let kind = [Message::Fence, Message::Question, Message::Reply][usize::from(kind[0])];
    Some((kind, key, bytes))
}

impl Peers for OtherNode {
    fn fence(&self, fence: Fence) {
        let key = format!("{:?}/{:?}/{}", fence.purpose, fence.members, fence.number);
        self.send(Message::Fence, &key, &fence.bytes);
        let mut state = self.state.lock().unwrap();
        match state.arrived.remove(&key) {
            Some(bytes) => {
                drop(state);
                fence.answer.give([fence.bytes, bytes].concat());
            }
            None if !state.is_lost => drop(state.waiting.insert(key, (fence.answer, fence.bytes))),
            None => {}
        }
    }

    fn modex(&self, modex: ModexRequest) {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        let key = format!("{}/{}/{}", modex.generation, modex.rank, state.asked);
        if !state.is_lost {
            state.questions.insert(key.clone(), modex.answer);
        }
        drop(state);
        self.send(Message::Question, &key, &[]);
    }

    fn spawn(&self, _: Spawn) {
        unreachable!("no rank spawns");
    }
}
