//! The sockets of all generations, and the thread that serves them.

use super::key_space::{KeySpace, KeySpaceAction};
use super::pmi1_client::DESCRIPTOR;
use crate::{
    Answer, Error, Fence, GenerationName, Identity, MemberRanks, Namespace, Peers, Preput, Purpose,
    RankAction, RankEvent, Spawn,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use understudy_formats::process_segments::{MPICH_STARTS, remove_own_segments};
use understudy_messages::ChildProgram;
use understudy_numbers::Rank;
use understudy_sockets::{Poller, Ready, Registry, Source};
use understudy_wire::io::{Interest, Outbox};

/// Limit of bytes that are read from a client before other clients are served.
const MAX_READ_BYTES_PER_TURN: usize = 64 << 10;
/// Limit of unsent bytes for a client.
///
/// Answers are short, and a client waits for each answer.
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// A PMI-1 server.
pub struct Pmi1Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<ServerState>,
    /// Registry of the clients' sockets, which the thread polls.
    registry: Registry,
    peers: Arc<dyn Peers>,
    events: Mutex<Sender<RankEvent>>,
}

#[derive(Default)]
struct ServerState {
    worlds: BTreeMap<GenerationName, Generation>,
    is_over: bool,
}

struct Generation {
    generation: Namespace,
    space: KeySpace,
    clients: BTreeMap<Rank, Client>,
}

struct Client {
    socket: Source<UnixStream>,
    out: Outbox,
}

impl Client {
    /// Sends as many bytes as the socket accepts; the thread sends the remaining ones later.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush(&*self.socket)?;
        let interest = Interest::new(true, !self.out.is_empty());
        self.socket.set_interest(interest)
    }
}

/// Action for a generation that must be performed without the lock.
enum PeerRequest {
    Fence {
        number: u64,
        bytes: Vec<u8>,
    },
    Spawn {
        rank: Rank,
        programs: Vec<ChildProgram>,
        put: Preput,
    },
}

impl Pmi1Server {
    /// Starts the thread; events of the ranks are sent to the channel.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn start(peers: Arc<dyn Peers>) -> Result<(Pmi1Server, Receiver<RankEvent>), Error> {
        let poller = Poller::new().map_err(Error::system("a poller"))?;
        let (events, received) = mpsc::channel();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            registry: poller.registry().clone(),
            peers,
            events: Mutex::new(events),
        });
        let thread = std::thread::Builder::new().name("pmi1".into());
        let serving = shared.clone();
        let thread = thread
            .spawn(move || serving.serve(poller))
            .map_err(Error::system("thread"))?;
        let thread = Some(thread);
        Ok((Pmi1Server { shared, thread }, received))
    }

    /// Registers a generation.
    ///
    /// # Errors
    /// [`Error::GenerationExists`].
    pub fn begin(&self, generation: &Namespace) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if state.worlds.contains_key(&generation.name) {
            return Err(Error::GenerationExists(generation.name.to_string()));
        }
        let world = Generation {
            generation: generation.clone(),
            space: KeySpace::new(generation),
            clients: BTreeMap::new(),
        };
        state.worlds.insert(generation.name.clone(), world);
        Ok(())
    }

    /// Returns the variables and the socket of a rank of this node.
    ///
    /// An earlier socket of the rank is closed.
    ///
    /// # Errors
    /// [`Error::UnknownGeneration`], [`Error::NotHere`], [`Error::System`].
    pub fn identity(&self, generation: &GenerationName, rank: Rank) -> Result<Identity, Error> {
        let mut state = self.shared.lock();
        let unknown = || Error::UnknownGeneration(generation.to_string());
        let world = state.worlds.get_mut(generation).ok_or_else(unknown)?;
        let local = world.generation.local_rank(rank)?;
        let (near, far) = UnixStream::pair().map_err(Error::system("a pair of sockets"))?;
        near.set_nonblocking(true)
            .map_err(Error::system("a socket"))?;
        let near = Source::new(&self.shared.registry, near, Interest::READ)
            .map_err(Error::system("a socket"))?;
        let variables = [
            (DESCRIPTOR, far.as_raw_fd().to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", world.generation.placement.size().to_string()),
            (
                "MPI_LOCALNRANKS",
                world.generation.ranks_here().count().to_string(),
            ),
            ("MPI_LOCALRANKID", local.to_string()),
        ];
        let is_spawned = world
            .generation
            .spawned
            .as_ref()
            .map(|_| ("PMI_SPAWNED", "1".to_owned()));
        world.space.forget(rank);
        let client = Client {
            socket: near,
            out: Outbox::new(MAX_UNSENT_BYTES),
        };
        world.clients.insert(rank, client);
        Ok(Identity {
            variables: variables
                .into_iter()
                .chain(is_spawned)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            defaults: Vec::new(),
            descriptor: Some(far.into()),
        })
    }

    /// Removes a generation, closes its connections, and removes its shared memory.
    ///
    /// # Errors
    /// [`Error::UnknownGeneration`].
    pub fn end(&self, generation: &GenerationName) -> Result<(), Error> {
        let world = self.shared.lock().worlds.remove(generation);
        world.ok_or_else(|| Error::UnknownGeneration(generation.to_string()))?;
        remove_segments(generation.as_str());
        Ok(())
    }
}

impl Drop for Pmi1Server {
    fn drop(&mut self) {
        let names: Vec<GenerationName> = self.shared.lock().worlds.keys().cloned().collect();
        for name in names {
            let _ = self.end(&name);
        }
        self.shared.lock().is_over = true;
        self.shared.registry.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Removes the memory that ranks of a key space share.
///
/// No such memory exists before MPI_Init and after MPI_Finalize. The names end with the number of a
/// node, and with `MPIR_CVAR_NOLOCAL` each rank counts as a node.
pub fn remove_segments(key_space: &str) {
    let starts = segments(key_space);
    remove_own_segments(|name| starts.iter().any(|start| name.starts_with(start)));
}

/// Returns the beginnings of MPICH's names for the memory of a node's ranks.
///
/// The names (MPICH 4.2 and later) contain a hash of the key space's name (FNV-1a).
fn segments(key_space: &str) -> [String; 2] {
    let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = key_space.bytes().fold(0x811c_9dc5, add);
    MPICH_STARTS.map(|start| format!("{start}{hash:x}_"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    fn report(&self, generation: &GenerationName, rank: Rank, action: RankAction) {
        let events = self.events.lock();
        // Sending fails only after the server's owner has dropped the receiver.
        let _ = events.send(RankEvent {
            generation: generation.clone(),
            rank,
            action,
        });
    }

    fn serve(self: &Arc<Shared>, mut poller: Poller) {
        loop {
            let ready = poller.wait(None).unwrap_or_default();
            let ready_ranks = {
                let state = self.lock();
                if state.is_over {
                    return;
                }
                state.ready(&ready)
            };
            for (generation, rank) in ready_ranks {
                let peer_requests = {
                    let mut state = self.lock();
                    let Some(world) = state.worlds.get_mut(&generation) else {
                        continue;
                    };
                    self.serve_client(world, rank)
                };
                peer_requests
                    .into_iter()
                    .for_each(|request| self.send_to_peers(&generation, request));
            }
        }
    }

    /// Sends and receives as much as is possible without blocking.
    fn serve_client(&self, world: &mut Generation, rank: Rank) -> Vec<PeerRequest> {
        let Some(client) = world.clients.get_mut(&rank) else {
            return Vec::new();
        };
        let mut bytes = vec![0; MAX_READ_BYTES_PER_TURN];
        match (&*client.socket).read(&mut bytes) {
            Ok(read) if read > 0 => {
                let actions = world.space.take(rank, &bytes[..read]);
                self.perform(world, actions)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                if client.flush().is_err() {
                    world.close(rank);
                }
                Vec::new()
            }
            _ => {
                world.close(rank);
                Vec::new()
            }
        }
    }

    fn perform(&self, world: &mut Generation, actions: Vec<KeySpaceAction>) -> Vec<PeerRequest> {
        let mut peer_requests = Vec::new();
        for act in actions {
            match act {
                KeySpaceAction::Send(rank, bytes) => world.send(rank, &bytes),
                KeySpaceAction::Report(rank, action) => {
                    self.report(&world.generation.name, rank, action)
                }
                KeySpaceAction::Close(rank) => world.close(rank),
                KeySpaceAction::Fence { number, bytes } => {
                    peer_requests.push(PeerRequest::Fence { number, bytes })
                }
                KeySpaceAction::Spawn {
                    rank,
                    programs,
                    put,
                } => peer_requests.push(PeerRequest::Spawn {
                    rank,
                    programs,
                    put,
                }),
            }
        }
        peer_requests
    }

    /// Sends data of a barrier to the other nodes, or spawns processes.
    fn send_to_peers(self: &Arc<Shared>, generation: &GenerationName, request: PeerRequest) {
        let generation = generation.clone();
        match request {
            PeerRequest::Fence { number, bytes } => self.peers.fence(Fence {
                answer: self.answer(&generation, |space, reply| space.fenced(reply.as_deref())),
                purpose: Purpose::Exchange,
                members: vec![(generation, MemberRanks::All)],
                number,
                bytes,
            }),
            PeerRequest::Spawn {
                rank,
                programs,
                put,
            } => self.peers.spawn(Spawn {
                answer: self.answer(&generation, move |space, reply| {
                    space.spawned(rank, reply.is_some())
                }),
                generation,
                rank,
                programs,
                put,
            }),
        }
    }

    /// Returns an answer that passes the reply to `handle`.
    fn answer(
        self: &Arc<Shared>,
        generation: &GenerationName,
        handle: impl FnOnce(&mut KeySpace, Option<Vec<u8>>) -> Vec<KeySpaceAction> + Send + 'static,
    ) -> Answer {
        let (shared, name) = (self.clone(), generation.clone());
        let (answer, _) = Answer::new(Box::new(move |reply| {
            let mut state = shared.lock();
            if let Some(world) = state.worlds.get_mut(&name) {
                let actions = handle(&mut world.space, reply);
                shared.perform(world, actions);
            }
        }));
        answer
    }
}

impl ServerState {
    /// Returns the ranks whose sockets were ready.
    fn ready(&self, ready: &Ready) -> Vec<(GenerationName, Rank)> {
        let ready_in = |(name, world): (&GenerationName, &Generation)| -> Vec<_> {
            let clients = world.clients.iter();
            let is_ready = clients.filter(|(_, client)| ready.contains(&client.socket));
            is_ready.map(|(&rank, _)| (name.clone(), rank)).collect()
        };
        self.worlds.iter().flat_map(ready_in).collect()
    }
}

impl Generation {
    /// Sends an answer; disconnects a client that does not read its answers.
    fn send(&mut self, rank: Rank, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&rank)
            && (client.out.push(bytes).is_err() || client.flush().is_err())
        {
            self.close(rank);
        }
    }

    fn close(&mut self, rank: Rank) {
        self.clients.remove(&rank);
        self.space.forget(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoPeers;
    use std::io::Write;

    #[test]
    fn segments_are_called_as_mpich_calls_them() {
        // Observed in a job of MPICH 5.0.2 under its own mpiexec.
        assert_eq!(
            segments("kvs_19155_0_595749385_vm")[0],
            "mpich_shm_89282178_"
        );
    }

    /// Rank 1 floods the server while rank 0 waits in a barrier, and is disconnected.
    ///
    /// With another socket rank 1 completes the barrier. The test is repeated in two more
    /// generations.
    #[test]
    fn ranks_are_served_and_one_that_floods_is_disconnected() {
        let (server, events) = Pmi1Server::start(Arc::new(NoPeers)).unwrap();
        for number in 0..3 {
            let generation = Namespace::here("job", number, "n", 2).unwrap();
            server.begin(&generation).unwrap();
            assert!(matches!(
                server.begin(&generation),
                Err(Error::GenerationExists(_))
            ));
            let socket = |rank| {
                let identity = server.identity(&generation.name, Rank(rank)).unwrap();
                UnixStream::from(identity.descriptor.unwrap())
            };
            let (mut first, mut second) = (socket(0), socket(1));
            first
                .write_all(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n")
                .unwrap();
            assert_eq!(events.recv().unwrap().action, RankAction::Connected);
            let question = b"cmd=get_my_kvsname\n".repeat(1000);
            // The rank never reads its answers.
            while second.write_all(&question).is_ok() {}
            let mut second = socket(1);
            second.write_all(b"cmd=barrier_in\n").unwrap();
            let mut answers = vec![0; 200];
            let read = second.read(&mut answers).unwrap();
            assert_eq!(&answers[..read], b"cmd=barrier_out rc=0\n");
            server.end(&generation.name).unwrap();
            assert!(matches!(
                server.end(&generation.name),
                Err(Error::UnknownGeneration(_))
            ));
            // All sent bytes are received before the end of file.
            let mut rest = String::new();
            first.read_to_string(&mut rest).unwrap();
            assert!(rest.ends_with("cmd=barrier_out rc=0\n"), "{rest}");
        }
    }
}
