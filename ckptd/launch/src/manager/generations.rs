//! Generations on a node: servers of its MPI library and requests to other nodes.

use super::begun::Begun;
use super::mail::Mail;
use super::node::Node;
use super::process::{Process, processors};
use super::servers::Servers;
use crate::Error;
use crate::messages::{Beginning, FenceOf, Joining, Report};
use crate::spawn_thread::spawn_thread;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use understudy_formats::events::monotonic_ns;
use understudy_messages::GenerationStart;
use understudy_numbers::{Generation, ProcessNumber, Rank};
use understudy_pmi::{Answer, Mpi, Name, Namespace, Placement, ServerSettings};
use understudy_wire::line::ToProcess;

/// Directories below that of the job.
pub(super) const SESSIONS: &str = "sessions";
pub(super) const SEGMENTS: &str = "segments";

impl Node {
    pub(super) fn start_servers(&self, library: &Path) -> Result<Servers, Error> {
        let mpi = Mpi::named(library)?;
        let place = |name: &str| -> Result<PathBuf, Error> {
            let path = self.directory.join(name);
            let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
            made.map_err(Error::system(path.display().to_string()))?;
            Ok(path)
        };
        let settings = ServerSettings {
            mpi,
            directory: place(SESSIONS)?,
            host: self.host.clone(),
            peers: Arc::new(self.post.slot()),
        };
        let (servers, events) = Servers::start(&settings, place(SEGMENTS)?)?;
        let slot = self.post.slot();
        spawn_thread(move || slot.pass_on(events)).map_err(Error::system("a thread"))?;
        Ok(servers)
    }

    /// Handles a message from a thread of the servers.
    pub(super) fn report_mail(&mut self, mail: Mail) {
        let current = |name: &Name| self.begun.as_ref().filter(|begun| begun.name == *name);
        match mail {
            Mail::Broke(name, rank, status) => {
                let broken = current(&name).and_then(|begun| {
                    let (number, generation) = (*begun.ranks.get(rank.index())?, begun.generation);
                    Some(Report::Broke { number, generation })
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
            Mail::Finalised(name, rank) => self.children.finalised(&name, rank),
            Mail::Spawn(spawn) => self.spawn(spawn),
            Mail::Joined(name, are_all) => self.start_children(&name, are_all),
            Mail::Fence(fence) => {
                let names = fence.members.iter().map(|(name, _)| name.clone());
                let id = self.note(names.collect(), fence.answer);
                let of = FenceOf {
                    purpose: fence.purpose,
                    members: fence.members,
                    number: fence.number,
                };
                let bytes = fence.bytes;
                self.reports.push(Report::Fence {
                    id,
                    fence: of,
                    bytes,
                });
            }
            Mail::Modex(modex) => {
                let id = self.note(vec![modex.generation.clone()], modex.answer);
                let (of, rank) = (modex.generation, modex.rank);
                self.reports.push(Report::Modex { id, of, rank });
            }
            Mail::Shown(number, id, bytes) => self.show(number, id, &bytes),
            Mail::Reply(id, bytes) => self.reports.push(Report::Answer { id, bytes }),
        }
    }

    /// Registers a request that concerns these namespaces; returns the identifier of its answer.
    pub(super) fn note(&mut self, names: Vec<Name>, answer: Answer) -> u64 {
        self.asked_last += 1;
        self.asked.insert(self.asked_last, (names, answer));
        self.asked_last
    }

    /// Reads data that a rank of this node has put, for another node.
    pub(super) fn look_up(&self, id: u64, of: &Name, rank: Rank) {
        let slot = self.post.slot();
        match &self.servers {
            Some(servers) => servers.modex(of, rank, move |bytes| slot.put(Mail::Reply(id, bytes))),
            None => slot.put(Mail::Reply(id, None)),
        }
    }

    /// Registers processes that were spawned on another node with the servers of this node.
    pub(super) fn join(&mut self, id: u64, joining: Joining) -> Result<(), Error> {
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
        // A node without servers has no ranks that could request their data.
        let bytes = Some(Vec::new());
        self.reports.push(Report::Answer { id, bytes });
        Ok(())
    }

    /// Ends a namespace and drops all requests that concern it.
    ///
    /// The namespace may have ended already, or may never have begun here.
    pub(super) fn forget_namespace(&mut self, name: &Name) {
        self.asked.retain(|_, (names, _)| !names.contains(name));
        let _ = self.servers.as_ref().map(|servers| servers.end(name));
    }

    /// Returns the process of a rank in the last generation, if that has this name.
    pub(super) fn process_of(&self, generation: &Name, rank: Rank) -> Option<ProcessNumber> {
        let begun = self
            .begun
            .as_ref()
            .filter(|begun| begun.name == *generation)?;
        begun.ranks.get(rank.index()).copied()
    }

    /// Returns the number of the last generation.
    pub(super) fn generation(&self) -> Option<Generation> {
        self.begun.as_ref().map(|begun| begun.generation)
    }

    /// Begins a generation: registers it with the servers and notifies its processes.
    pub(super) fn begin(&mut self, beginning: Beginning) -> Result<(), Error> {
        let began_ns = monotonic_ns();
        self.announced = None;
        self.end_children();
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        // The servers require that all ranks have left the last generation and none is in the next
        // one.
        if let Some(before) = self.begun.take() {
            servers.end(&before.name)?;
            self.asked
                .retain(|_, (names, _)| !names.contains(&before.name));
        }
        let Beginning {
            job,
            start,
            ranks,
            hosts,
        } = beginning;
        let GenerationStart {
            generation,
            is_first,
            spares,
            since_failure,
        } = start;
        let failed_at = since_failure.map(|it| began_ns.saturating_sub(it.as_nanos() as u64));
        let (numbers, of_rank): (Vec<ProcessNumber>, Vec<usize>) =
            ranks.iter().map(|&(it, host)| (it, host as usize)).unzip();
        self.files.retain(|number, _| numbers.contains(number));
        self.forget(|number| !numbers.contains(number));
        let here = hosts
            .iter()
            .position(|host| *host == self.host)
            .unwrap_or_default();
        let mut of_all = Namespace {
            name: Name::new(&job, generation.0)?,
            placement: Placement::new(hosts, of_rank)?,
            here,
            is_crowded: false,
            spawned: None,
        };
        if of_all.ranks_here().next().is_none() {
            return Ok(());
        }
        self.forget_others();
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        let process_of = |rank: Rank| self.processes.get(&numbers[rank.index()]);
        let processes: Vec<&Process> = of_all.ranks_here().filter_map(process_of).collect();
        of_all.is_crowded = processes.len() > processors(&processes);
        servers.begin(&of_all)?;
        // A new manager treats a process with this mark as one that may have a checkpoint.
        processes
            .iter()
            .for_each(|process| process.note_played(self.is_protected));
        for rank in of_all.ranks_here() {
            let number = numbers[rank.index()];
            let identity = servers.identity(&of_all.name, rank)?;
            let text = |text: OsString| text.to_string_lossy().into_owned();
            let all = identity.defaults.into_iter().chain(identity.variables);
            let begin = ToProcess::Begin {
                generation,
                rank,
                size: of_all.placement.size(),
                is_first,
                spares,
                failed_at,
                variables: all.map(|(name, value)| (text(name), text(value))).collect(),
                descriptor: identity.descriptor.as_ref().map(|_| "PMI_FD".into()),
                heir_of: self.heirs.remove(&number),
            };
            if let Some(process) = self.processes.get_mut(&number) {
                process.takes_part(generation);
                let descriptor: Vec<OwnedFd> = identity.descriptor.into_iter().collect();
                process.tell(&begin, &descriptor);
            }
        }
        self.heirs.clear();
        self.begun = Some(Begun {
            name: of_all.name,
            generation,
            here,
            ranks: numbers,
        });
        Ok(())
    }
}
