//! The sockets of all generations, and the thread that serves them.

use super::client::DESCRIPTOR;
use super::space::{Act, Space};
use crate::launch::{
    Answer, Error, Event, Fence, Identity, Name, Namespace, Peers, Preput, Purpose, Spawn, What,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use understudy_formats::private::MEMORY;
use understudy_numbers::Rank;
use understudy_wire::line::ChildProgram;

/// What is read from a client before the others have their turn, in bytes.
const TURN: usize = 64 << 10;
/// What may wait to be sent to a client, in bytes; answers are short, and a client waits for each.
const MOST_TO_SEND: usize = 1 << 20;

/// A PMI-1 server.
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Written to when there is something new to wait for.
    wake: OwnedFd,
    peers: Arc<dyn Peers>,
    events: Mutex<Sender<Event>>,
}

#[derive(Default)]
struct State {
    worlds: BTreeMap<Name, World>,
    is_over: bool,
}

struct World {
    generation: Namespace,
    space: Space,
    clients: BTreeMap<Rank, Client>,
}

struct Client {
    /// Shared with the thread while it waits.
    socket: Arc<UnixStream>,
    out: Vec<u8>,
}

/// What must be done without the lock, for a generation.
enum Outside {
    Fence {
        members: Vec<Rank>,
        number: u64,
        bytes: Vec<u8>,
    },
    Spawn {
        rank: Rank,
        programs: Vec<ChildProgram>,
        put: Preput,
    },
}

impl Server {
    /// Starts the thread. What happens to the ranks comes out of the channel.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn start(peers: Arc<dyn Peers>) -> Result<(Server, Receiver<Event>), Error> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (events, received) = mpsc::channel();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: wake.map_err(|error| Error::system("eventfd")(error.into()))?,
            peers,
            events: Mutex::new(events),
        });
        let thread = std::thread::Builder::new().name("pmi1".into());
        let serving = shared.clone();
        let thread = thread
            .spawn(move || serving.serve())
            .map_err(Error::system("thread"))?;
        let thread = Some(thread);
        Ok((Server { shared, thread }, received))
    }

    /// Makes a generation known.
    ///
    /// # Errors
    /// [`Error::Exists`].
    pub fn begin(&self, generation: &Namespace) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if state.worlds.contains_key(&generation.name) {
            return Err(Error::Exists(generation.name.to_string()));
        }
        let world = World {
            generation: generation.clone(),
            space: Space::new(generation),
            clients: BTreeMap::new(),
        };
        state.worlds.insert(generation.name.clone(), world);
        Ok(())
    }

    /// The variables of a rank of this node, and its socket. If it has been asked for before, the earlier one is closed.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::NotHere`], [`Error::System`].
    pub fn identity(&self, generation: &Name, rank: Rank) -> Result<Identity, Error> {
        let mut state = self.shared.lock();
        let unknown = || Error::Unknown(generation.to_string());
        let world = state.worlds.get_mut(generation).ok_or_else(unknown)?;
        let local = world.generation.local_rank(rank)?;
        let (near, far) = UnixStream::pair().map_err(Error::system("a pair of sockets"))?;
        near.set_nonblocking(true)
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
            socket: Arc::new(near),
            out: Vec::new(),
        };
        world.clients.insert(rank, client);
        drop(state);
        self.shared.wake();
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

    /// Forgets a generation, closes its connections, and removes its shared memory.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn end(&self, generation: &Name) -> Result<(), Error> {
        let world = self.shared.lock().worlds.remove(generation);
        let world = world.ok_or_else(|| Error::Unknown(generation.to_string()))?;
        self.shared.wake();
        remove_segments(generation.as_str(), world.generation.here);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let names: Vec<Name> = self.shared.lock().worlds.keys().cloned().collect();
        for name in names {
            let _ = self.end(&name);
        }
        self.shared.lock().is_over = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Removes the memory that ranks of a key space share on a node of it. There is none if MPI_Init was not reached, or MPI_Finalize was.
pub fn remove_segments(key_space: &str, node: usize) {
    for segment in segments(key_space, node) {
        let _ = std::fs::remove_file(Path::new(MEMORY).join(segment));
    }
}

/// What MPICH (4.2 and later) calls the memory that the ranks of a node share: after a hash of the key space's name (FNV-1a).
fn segments(key_space: &str, node: usize) -> [String; 2] {
    let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = key_space.bytes().fold(0x811c_9dc5, add);
    ["mpich_shm", "mpich_vci"].map(|start| format!("{start}_{hash:x}_{node}"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It is full only if it has been woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn tell(&self, generation: &Name, rank: Rank, what: What) {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody listens any more when the server's owner has gone.
        let _ = events.send(Event {
            generation: generation.clone(),
            rank,
            what,
        });
    }

    fn serve(self: &Arc<Shared>) {
        loop {
            let sockets = {
                let state = self.lock();
                if state.is_over {
                    return;
                }
                state.sockets()
            };
            for (generation, rank) in self.wait(&sockets) {
                let outside = {
                    let mut state = self.lock();
                    let Some(world) = state.worlds.get_mut(&generation) else {
                        continue;
                    };
                    self.turn(world, rank)
                };
                outside.into_iter().for_each(|it| self.ask(&generation, it));
            }
        }
    }

    /// Waits until something can be done; for whom.
    fn wait(&self, sockets: &[(Name, Rank, Arc<UnixStream>, PollFlags)]) -> Vec<(Name, Rank)> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(
            sockets
                .iter()
                .map(|(_, _, socket, flags)| PollFd::new(&**socket, *flags)),
        );
        // Interrupted by a signal, it finds nothing.
        if poll(&mut polled, None).is_err() {
            return Vec::new();
        }
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        let ready = sockets
            .iter()
            .zip(&polled[1..])
            .filter(|(_, polled)| !polled.revents().is_empty());
        ready
            .map(|((generation, rank, ..), _)| (generation.clone(), *rank))
            .collect()
    }

    /// Sends and receives what can be sent and received.
    fn turn(&self, world: &mut World, rank: Rank) -> Vec<Outside> {
        let Some(client) = world.clients.get_mut(&rank) else {
            return Vec::new();
        };
        let mut bytes = vec![0; TURN];
        match (&*client.socket).read(&mut bytes) {
            Ok(read) if read > 0 => {
                let acts = world.space.take(rank, &bytes[..read]);
                self.perform(world, acts)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                world.flush(rank);
                Vec::new()
            }
            _ => {
                world.close(rank);
                Vec::new()
            }
        }
    }

    fn perform(&self, world: &mut World, acts: Vec<Act>) -> Vec<Outside> {
        let mut outside = Vec::new();
        for act in acts {
            match act {
                Act::Send(rank, bytes) => world.send(rank, &bytes),
                Act::Tell(rank, what) => self.tell(&world.generation.name, rank, what),
                Act::Close(rank) => world.close(rank),
                Act::Fence { number, bytes } => outside.push(Outside::Fence {
                    members: (0..world.generation.placement.size()).map(Rank).collect(),
                    number,
                    bytes,
                }),
                Act::Spawn {
                    rank,
                    programs,
                    put,
                } => outside.push(Outside::Spawn {
                    rank,
                    programs,
                    put,
                }),
            }
        }
        outside
    }

    /// Brings what was put before a barrier to the other nodes, or has processes started.
    fn ask(self: &Arc<Shared>, generation: &Name, what: Outside) {
        let generation = generation.clone();
        match what {
            Outside::Fence {
                members,
                number,
                bytes,
            } => self.peers.fence(Fence {
                answer: self.answer(&generation, |space, reply| space.fenced(reply.as_deref())),
                purpose: Purpose::Exchange,
                members: vec![(generation, members)],
                number,
                bytes,
            }),
            Outside::Spawn {
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

    /// An answer that this makes of what comes.
    fn answer(
        self: &Arc<Shared>,
        generation: &Name,
        then: impl FnOnce(&mut Space, Option<Vec<u8>>) -> Vec<Act> + Send + 'static,
    ) -> Answer {
        let (shared, name) = (self.clone(), generation.clone());
        let (answer, _) = Answer::new(Box::new(move |reply| {
            let mut state = shared.lock();
            if let Some(world) = state.worlds.get_mut(&name) {
                let acts = then(&mut world.space, reply);
                shared.perform(world, acts);
            }
            drop(state);
            shared.wake();
        }));
        answer
    }
}

impl State {
    /// All sockets, with what is waited for.
    fn sockets(&self) -> Vec<(Name, Rank, Arc<UnixStream>, PollFlags)> {
        let of = |(name, world): (&Name, &World)| -> Vec<_> {
            let clients = world.clients.iter().map(|(&rank, client)| {
                let flags = match client.out.is_empty() {
                    true => PollFlags::IN,
                    false => PollFlags::IN | PollFlags::OUT,
                };
                (name.clone(), rank, client.socket.clone(), flags)
            });
            clients.collect()
        };
        self.worlds.iter().flat_map(of).collect()
    }
}

impl World {
    fn send(&mut self, rank: Rank, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&rank) {
            client.out.extend_from_slice(bytes);
            self.flush(rank);
        }
    }

    /// Sends what can be sent at once. A client that takes none of it is disconnected.
    fn flush(&mut self, rank: Rank) {
        let Some(client) = self.clients.get_mut(&rank) else {
            return;
        };
        while !client.out.is_empty() {
            match (&*client.socket).write(&client.out) {
                Ok(written) => drop(client.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && client.out.len() <= MOST_TO_SEND =>
                {
                    return;
                }
                Err(_) => return self.close(rank),
            }
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
    use crate::launch::Alone;

    #[test]
    fn segments_are_called_as_mpich_calls_them() {
        // Seen in a job of MPICH 5.0.2 under its own mpiexec.
        assert_eq!(
            segments("kvs_19155_0_595749385_vm", 0)[0],
            "mpich_shm_89282178_0"
        );
    }

    /// Of two ranks: one that waits in a barrier, and one that floods the server; then the next generation.
    #[test]
    fn ranks_are_served_and_one_that_floods_is_disconnected() {
        let (server, events) = Server::start(Arc::new(Alone)).unwrap();
        for number in 0..3 {
            let generation = Namespace::here("job", number, "n", 2).unwrap();
            server.begin(&generation).unwrap();
            assert!(matches!(server.begin(&generation), Err(Error::Exists(_))));
            let socket = |rank| {
                let identity = server.identity(&generation.name, Rank(rank)).unwrap();
                UnixStream::from(identity.descriptor.unwrap())
            };
            let (mut first, mut second) = (socket(0), socket(1));
            first
                .write_all(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n")
                .unwrap();
            assert_eq!(events.recv().unwrap().what, What::Connected);
            let question = b"cmd=get_my_kvsname\n".repeat(1000);
            // It never reads what it is answered.
            while second.write_all(&question).is_ok() {}
            let mut second = socket(1);
            second.write_all(b"cmd=barrier_in\n").unwrap();
            let mut answers = vec![0; 200];
            let read = second.read(&mut answers).unwrap();
            assert_eq!(&answers[..read], b"cmd=barrier_out rc=0\n");
            server.end(&generation.name).unwrap();
            assert!(matches!(
                server.end(&generation.name),
                Err(Error::Unknown(_))
            ));
            // All that was sent is read before the end of file.
            let mut rest = String::new();
            first.read_to_string(&mut rest).unwrap();
            assert!(rest.ends_with("cmd=barrier_out rc=0\n"), "{rest}");
        }
    }
}
