//! Generations on a node: servers of its MPI library and requests to other nodes.

use super::begun_generation::BegunGeneration;
use super::node::NodeState;
use super::node_queue::NodeMessage;
use super::process::{Process, processors};
use super::servers::Servers;
use crate::Error;
use crate::messages::{Beginning, FenceId, Report, SpawnedNamespace};
use crate::spawn_thread::spawn_thread;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use understudy_formats::events::monotonic_ns;
use understudy_messages::GenerationStart;
use understudy_numbers::{Generation, ProcessNumber, Rank};
use understudy_pmi::{Answer, GenerationName, MpiLibrary, Namespace, Placement, ServerSettings};
use understudy_wire::line::ToProcess;

/// Directory for session directories of the ranks, below the job's directory.
pub(super) const SESSIONS: &str = "sessions";
/// Directory for memory that ranks share, below the job's directory.
pub(super) const SEGMENTS: &str = "segments";

impl NodeState {
    pub(super) fn start_servers(&self, library: &Path) -> Result<Servers, Error> {
        let mpi = MpiLibrary::named(library)?;
        let make_directory = |name: &str| -> Result<PathBuf, Error> {
            let path = self.directory.join(name);
            let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
            made.map_err(Error::system(format!("the directory {}", path.display())))?;
            Ok(path)
        };
        let settings = ServerSettings {
            mpi,
            directory: make_directory(SESSIONS)?,
            host: self.host.clone(),
            peers: Arc::new(self.queue.sender()),
        };
        let (servers, events) = Servers::start(&settings, make_directory(SEGMENTS)?)?;
        let sender = self.queue.sender();
        spawn_thread(move || sender.pass_on(events)).map_err(Error::system("a thread"))?;
        Ok(servers)
    }

    /// Handles a message from a thread of the servers.
    pub(super) fn handle_message(&mut self, message: NodeMessage) {
        let current = |name: &GenerationName| {
            self.last_generation
                .as_ref()
                .filter(|begun| begun.name == *name)
        };
        match message {
            NodeMessage::Aborted(name, rank, status) => {
                let broken = current(&name).and_then(|begun| {
                    let (number, generation) = (*begun.ranks.get(rank.index())?, begun.generation);
                    Some(Report::LibraryAborted { number, generation })
                });
                let ranks = current(&name).map_or(0, |begun| begun.ranks.len());
                self.reports.extend(broken);
                if ranks > 0
                    && let Some(cause) = self.aborts.note(&name, ranks)
                {
                    self.give_up(cause);
                }
                self.children.broke(&name, status);
            }
            NodeMessage::CheckpointRequested(signal) => {
                self.reports.push(Report::CheckpointRequested { signal })
            }
            NodeMessage::DirectoryLost(file) => self.lose_directory(&file),
            NodeMessage::Finalised(name, rank) => self.children.finalised(&name, rank),
            NodeMessage::Spawn(spawn) => self.spawn(spawn),
            NodeMessage::Joined(name, are_all) => self.start_children(&name, are_all),
            NodeMessage::Fence(fence) => {
                let names = fence.members.iter().map(|(name, _)| name.clone());
                let id = self.register_request(names.collect(), fence.answer);
                let id_of_fence = FenceId {
                    purpose: fence.purpose,
                    members: fence.members,
                    number: fence.number,
                };
                let bytes = fence.bytes;
                self.reports.push(Report::Fence {
                    id,
                    fence: id_of_fence,
                    bytes,
                });
            }
            NodeMessage::Modex(modex) => {
                let id = self.register_request(vec![modex.generation.clone()], modex.answer);
                let (namespace, rank) = (modex.generation, modex.rank);
                self.reports.push(Report::Modex {
                    id,
                    namespace,
                    rank,
                });
            }
            NodeMessage::BoardContents(number, id, bytes) => self.send_boards(number, id, &bytes),
            NodeMessage::Reply(id, bytes) => self.reports.push(Report::Answer { id, bytes }),
        }
    }

    /// Registers a request that concerns these namespaces; returns the identifier of its answer.
    pub(super) fn register_request(&mut self, names: Vec<GenerationName>, answer: Answer) -> u64 {
        self.last_request_id += 1;
        self.open_requests
            .insert(self.last_request_id, (names, answer));
        self.last_request_id
    }

    /// Reads data that a rank of this node has put, for another node.
    pub(super) fn read_put_data(&self, id: u64, name: &GenerationName, rank: Rank) {
        let sender = self.queue.sender();
        match &self.servers {
            Some(servers) => servers.modex(name, rank, move |bytes| {
                sender.put(NodeMessage::Reply(id, bytes))
            }),
            None => sender.put(NodeMessage::Reply(id, None)),
        }
    }

    /// Registers processes that were spawned on another node with the servers of this node.
    pub(super) fn join(&mut self, id: u64, joining: SpawnedNamespace) -> Result<(), Error> {
        if let Some(servers) = &self.servers {
            servers.begin(&Namespace {
                name: joining.name,
                placement: Placement::new(
                    vec![joining.host, self.host.clone()],
                    vec![0; joining.size as usize],
                )?,
                here: 1,
                is_crowded: false,
                spawned: None,
            })?;
        }
        // A node without servers has no ranks that could request data of the spawned processes.
        let bytes = Some(Vec::new());
        self.reports.push(Report::Answer { id, bytes });
        Ok(())
    }

    /// Ends a namespace and drops all requests that concern it.
    ///
    /// The namespace may have ended already, or may never have begun on this node.
    pub(super) fn forget_namespace(&mut self, name: &GenerationName) {
        self.open_requests
            .retain(|_, (names, _)| !names.contains(name));
        let _ = self.servers.as_ref().map(|servers| servers.end(name));
    }

    /// Returns the process of a rank, if the last generation has this name.
    pub(super) fn process_of(
        &self,
        generation: &GenerationName,
        rank: Rank,
    ) -> Option<ProcessNumber> {
        let begun = self
            .last_generation
            .as_ref()
            .filter(|begun| begun.name == *generation)?;
        begun.ranks.get(rank.index()).copied()
    }

    /// Returns the number of the last generation.
    pub(super) fn generation(&self) -> Option<Generation> {
        self.last_generation.as_ref().map(|begun| begun.generation)
    }

    /// Begins a generation: registers it with the servers and notifies its processes.
    pub(super) fn begin(&mut self, beginning: Beginning) -> Result<(), Error> {
        let began_ns = monotonic_ns();
        self.announced = None;
        self.end_children();
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        // The servers require that all ranks have left the last generation and no rank is in the
        // next generation.
        if let Some(before) = self.last_generation.take() {
            servers.end(&before.name)?;
            self.open_requests
                .retain(|_, (names, _)| !names.contains(&before.name));
        }
        let Beginning {
            job,
            start,
            ranks,
            host_of_rank,
            hosts,
        } = beginning;
        let GenerationStart {
            generation,
            is_first,
            spares,
            since_failure,
        } = start;
        let failed_at = since_failure.map(|since| began_ns.saturating_sub(since.as_nanos() as u64));
        let numbers = Vec::from(ranks);
        let host_of_rank = host_of_rank.iter().map(|&host| host as usize).collect();
        let chosen: HashSet<ProcessNumber> = numbers.iter().copied().collect();
        self.stores.retain(|number, _| chosen.contains(number));
        self.release_state(|number| !chosen.contains(number));
        let here = hosts
            .iter()
            .position(|host| *host == self.host)
            .unwrap_or_default();
        let mut namespace = Namespace {
            name: GenerationName::new(&job, generation.0)?,
            placement: Placement::new(hosts, host_of_rank)?,
            here,
            is_crowded: false,
            spawned: None,
        };
        if namespace.ranks_here().next().is_none() {
            return Ok(());
        }
        self.forget_others();
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        let process_of = |rank: Rank| self.processes.get(&numbers[rank.index()]);
        let processes: Vec<&Process> = namespace.ranks_here().filter_map(process_of).collect();
        namespace.is_crowded = processes.len() > processors(&processes);
        servers.begin(&namespace)?;
        // A new manager treats a process with this mark as one that may have a checkpoint.
        processes
            .iter()
            .for_each(|process| process.mark_as_rank(self.is_protected));
        for rank in namespace.ranks_here() {
            let number = numbers[rank.index()];
            let identity = servers.identity(&namespace.name, rank)?;
            let text = |text: OsString| text.to_string_lossy().into_owned();
            let all = identity.defaults.into_iter().chain(identity.variables);
            let begin = ToProcess::Begin {
                generation,
                rank,
                size: namespace.placement.size(),
                is_first,
                spares,
                failed_at,
                variables: all.map(|(name, value)| (text(name), text(value))).collect(),
                descriptor: identity.descriptor.as_ref().map(|_| "PMI_FD".into()),
                adopts_from: self.adoptions.remove(&number),
            };
            if let Some(process) = self.processes.get_mut(&number) {
                process.make_rank(generation);
                let descriptor: Vec<OwnedFd> = identity.descriptor.into_iter().collect();
                process.send(&begin, &descriptor);
            }
        }
        self.adoptions.clear();
        self.last_generation = Some(BegunGeneration {
            name: namespace.name,
            generation,
            here,
            ranks: numbers,
        });
        Ok(())
    }
}
