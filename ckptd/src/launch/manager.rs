//! One process manager for either kind of MPI library.

use super::program::{Kind, Mpi};
use super::{Error, Name, Namespace, Peers, overflow, pmi1, pmix};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use understudy_numbers::Rank;

/// What a rank has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub generation: Name,
    pub rank: Rank,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// It has begun MPI_Init.
    Connected,
    /// It is at the end of MPI_Finalize.
    Finalized,
    /// It has called MPI_Abort: the whole job shall end.
    Abort { status: i32, message: String },
}

/// What a manager needs.
pub struct Settings {
    pub mpi: Mpi,
    /// A directory of this user alone (0700), for session directories.
    pub directory: PathBuf,
    /// Another one, in memory: for the segments that ranks of a node share.
    pub memory: PathBuf,
    /// What this node is called in placements.
    pub host: String,
    /// The managers of other nodes.
    pub peers: Arc<dyn Peers>,
}

/// What the process of a rank needs to be that rank.
#[derive(Debug)]
pub struct Identity {
    /// Must be in its environment as they are.
    pub variables: Vec<(OsString, OsString)>,
    /// Are put there if the user has set nothing of that name.
    pub defaults: Vec<(OsString, OsString)>,
    /// Must be open in it, with the same number (`PMI_FD`).
    pub descriptor: Option<OwnedFd>,
}

/// MPICH adds up in an order that depends on which ranks share a node, which a recovery may change; not so with these variables.
pub const PLACELESS: &[(&str, &str)] = &[
    ("MPIR_CVAR_DEVICE_COLLECTIVES", "percoll"),
    ("MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE", "0"),
    ("MPIR_CVAR_REDUCE_DEVICE_COLLECTIVE", "0"),
    ("MPIR_CVAR_SCAN_DEVICE_COLLECTIVE", "0"),
    ("MPIR_CVAR_SCAN_INTRA_ALGORITHM", "recursive_doubling"),
    ("MPIR_CVAR_IREDUCE_INTRA_ALGORITHM", "sched_binomial"),
    (
        "MPIR_CVAR_ISCAN_INTRA_ALGORITHM",
        "sched_recursive_doubling",
    ),
];

/// The process manager of a node's ranks.
pub struct Manager {
    server: Server,
    mpi: Mpi,
    memory: PathBuf,
    /// The job has been on several nodes.
    is_spread: AtomicBool,
    /// Generations that have begun, and where their ranks share memory.
    generations: Mutex<BTreeMap<Name, PathBuf>>,
}

enum Server {
    Pmix(Box<pmix::Server>),
    Pmi1(pmi1::Server),
}

impl Manager {
    /// Starts the server that fits the MPI library. What happens to the ranks comes out of the channel.
    ///
    /// # Errors
    /// Those of [`pmix::Server::start`] and [`pmi1::Server::start`].
    pub fn start(settings: &Settings) -> Result<(Manager, Receiver<Event>), Error> {
        let (server, events) = match settings.mpi.kind {
            Kind::OpenMpi => {
                let (server, events) = pmix::Server::start(&pmix::Settings {
                    libmpi: settings.mpi.library.clone(),
                    directory: settings.directory.clone(),
                    host: settings.host.clone(),
                    peers: settings.peers.clone(),
                })?;
                (Server::Pmix(Box::new(server)), events)
            }
            Kind::Mpich | Kind::Debian | Kind::Standard => {
                let (server, events) = pmi1::Server::start(settings.peers.clone())?;
                (Server::Pmi1(server), events)
            }
        };
        let manager = Manager {
            server,
            mpi: settings.mpi.clone(),
            memory: settings.memory.clone(),
            is_spread: AtomicBool::new(false),
            generations: Mutex::default(),
        };
        Ok((manager, events))
    }

    /// Makes a generation known; its ranks may start from now on.
    ///
    /// # Errors
    /// Those of [`pmix::Server::begin`] and [`pmi1::Server::begin`].
    pub fn begin(&self, generation: &Namespace) -> Result<(), Error> {
        match &self.server {
            Server::Pmix(server) => server.begin(generation)?,
            Server::Pmi1(server) => server.begin(generation)?,
        }
        let is_spread = generation.placement.hosts().len() > 1;
        self.is_spread.fetch_or(is_spread, Ordering::Relaxed);
        let segments = self.place_segments(generation);
        self.generations()
            .insert(generation.name.clone(), segments.clone());
        let made = DirBuilder::new().mode(0o700).create(&segments);
        made.map_err(Error::system(segments.display().to_string()))
            .inspect_err(|_| {
                let _ = self.end(&generation.name);
            })
    }

    fn generations(&self) -> MutexGuard<'_, BTreeMap<Name, PathBuf>> {
        self.generations.lock()
    }

    /// Chooses where the ranks of a generation share memory.
    ///
    /// Segments of killed processes go with their generation.
    fn place_segments(&self, generation: &Namespace) -> PathBuf {
        let name = generation.name.as_str();
        let ranks = generation.ranks_here().count();
        if let (Server::Pmix(_), Some(free)) = (&self.server, overflow::shortage(ranks))
            && let Some(place) = overflow::make_disk_directory(&self.memory)
        {
            overflow::report(free, &place);
            return place.join(name);
        }
        self.memory.join(name)
    }

    fn segments(&self, generation: &Name) -> PathBuf {
        let chosen = self.generations().get(generation).cloned();
        chosen.unwrap_or_else(|| self.memory.join(generation.as_str()))
    }

    /// What the process of a rank of this node needs.
    ///
    /// # Errors
    /// Those of [`pmix::Server::environment`] and [`pmi1::Server::identity`].
    pub fn identity(&self, generation: &Name, rank: Rank) -> Result<Identity, Error> {
        let mut identity = match &self.server {
            Server::Pmix(server) => Identity {
                variables: server.environment(generation, rank)?,
                defaults: self.open_mpis_defaults(generation),
                descriptor: None,
            },
            Server::Pmi1(server) => {
                let mut identity = server.identity(generation, rank)?;
                if self.is_spread.load(Ordering::Relaxed) {
                    let set = PLACELESS
                        .iter()
                        .map(|&(name, value)| (name.into(), value.into()));
                    identity.defaults.extend(set);
                }
                identity
            }
        };
        // UCX serves either.
        let segments = self.segments(generation).into();
        identity.defaults.push(("UCX_POSIX_DIR".into(), segments));
        Ok(identity)
    }

    fn open_mpis_defaults(&self, generation: &Name) -> Vec<(OsString, OsString)> {
        // What is known of a job comes over the socket, not by files of libpmix's in shared memory.
        let mut defaults = vec![("PMIX_MCA_gds".into(), "hash".into())];
        // Without a say in it, segments would be left behind when a rank is killed. 4.x calls the first component "vader".
        for name in ["btl_sm", "btl_vader", "osc_sm", "osc_rdma"] {
            let name = format!("OMPI_MCA_{name}_backing_directory");
            defaults.push((name.into(), self.segments(generation).into()));
        }
        if let Some(prefix) = self.mpi.prefix() {
            defaults.push(("OPAL_PREFIX".into(), prefix.into()));
            defaults.push(("PMIX_PREFIX".into(), prefix.into()));
        }
        defaults
    }

    /// Whether ranks ask the manager of their node about processes that a rank of another node has spawned. MPICH's tell each other.
    pub fn asks_for_spawned(&self) -> bool {
        matches!(self.server, Server::Pmix(_))
    }

    /// What a rank of this node has put for ranks of other nodes: answers a [`super::Modex`] of another node. `then` is called by any thread, with
    /// `None` if there is nothing. With PMI-1 nobody asks.
    pub fn modex(
        &self,
        generation: &Name,
        rank: Rank,
        then: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) {
        match &self.server {
            Server::Pmix(server) => server.modex(generation, rank, then),
            Server::Pmi1(_) => then(None),
        }
    }

    /// The process of a rank of this node has ended by itself: others do not wait for it any more. MPICH's are told by its line's end.
    pub fn lose(&self, generation: &Name, rank: Rank) {
        if let Server::Pmix(server) = &self.server {
            server.lose(generation, rank);
        }
    }

    /// Forgets a generation and removes what its ranks have left in files.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn end(&self, generation: &Name) -> Result<(), Error> {
        match &self.server {
            Server::Pmix(server) => server.end(generation)?,
            Server::Pmi1(server) => server.end(generation)?,
        }
        let _ = std::fs::remove_dir_all(self.segments(generation));
        self.generations().remove(generation);
        Ok(())
    }
}

/// Removes what generations have left on this node, the only one of the job, that a manager has begun which has died; by the directories of its
/// [`Settings`].
pub(super) fn forget_all(directory: &Path, memory: &Path) {
    let names = std::fs::read_dir(memory).into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        pmi1::remove_segments(&name, 0);
        let _ = std::fs::remove_dir_all(directory.join(&name));
        let _ = std::fs::remove_dir_all(memory.join(&name));
    }
    overflow::remove_disk_directory(memory);
}

impl Drop for Manager {
    fn drop(&mut self) {
        let names = std::mem::take(&mut *self.generations());
        for (name, segments) in names {
            let _ = self.end(&name);
            let _ = std::fs::remove_dir_all(segments);
        }
        overflow::remove_disk_directory(&self.memory);
    }
}
