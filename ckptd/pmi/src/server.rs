//! A server for every kind of MPI library: PMIx for Open MPI, PMI-1 for MPICH.

use crate::intel_mpi::{self, IntelLauncher};
use crate::pmi1::Pmi1Server;
use crate::pmix::{PmixServer, PmixSettings};
use crate::{Error, GenerationName, Identity, MpiKind, MpiLibrary, Namespace, Peers, RankEvent};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use understudy_numbers::Rank;

/// Inputs of a server.
pub struct ServerSettings {
    pub mpi: MpiLibrary,
    /// Directory for session directories that only this user can access (0700).
    pub directory: PathBuf,
    /// The name of this node in placements.
    pub host: String,
    /// The servers of other nodes.
    pub peers: Arc<dyn Peers>,
}

/// Variables that make the order of reductions independent of the placement of ranks.
///
/// The variables are those of MPICH, and one of Intel MPI. The order depends by default on which
/// ranks share a node, which may differ in a later generation.
pub const PLACEMENT_INDEPENDENT: &[(&str, &str)] = &[
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
    (intel_mpi::REPRODUCIBILITY, "2"),
];

/// The process manager interface of a node's ranks.
pub struct Server {
    protocol: Protocol,
    mpi: MpiLibrary,
    intel_launcher: Option<IntelLauncher>,
    /// True if the job has been on several nodes.
    is_spread: AtomicBool,
    /// Generations that have begun.
    begun: Mutex<BTreeMap<GenerationName, Begun>>,
}

/// A generation that has begun.
#[derive(Clone)]
struct Begun {
    /// Directory in which its ranks share memory.
    segments: PathBuf,
    /// Number of its ranks on this node.
    ranks: usize,
}

enum Protocol {
    Pmix(Box<PmixServer>),
    Pmi1(Pmi1Server),
}

impl Server {
    /// Starts the server that fits the MPI library; the channel reports events of ranks.
    ///
    /// # Errors
    /// Errors of `PmixServer::start` and `Pmi1Server::start`.
    pub fn start(settings: &ServerSettings) -> Result<(Server, Receiver<RankEvent>), Error> {
        let (protocol, events) = match settings.mpi.kind {
            MpiKind::OpenMpi => {
                let (server, events) = PmixServer::start(&PmixSettings {
                    libmpi: settings.mpi.library.clone(),
                    directory: settings.directory.clone(),
                    host: settings.host.clone(),
                    peers: settings.peers.clone(),
                })?;
                (Protocol::Pmix(Box::new(server)), events)
            }
            MpiKind::Mpich | MpiKind::Debian | MpiKind::Standard => {
                let (server, events) = Pmi1Server::start(settings.peers.clone())?;
                (Protocol::Pmi1(server), events)
            }
        };
        let server = Server {
            protocol,
            mpi: settings.mpi.clone(),
            intel_launcher: IntelLauncher::of(&settings.mpi),
            is_spread: AtomicBool::new(false),
            begun: Mutex::default(),
        };
        Ok((server, events))
    }

    /// Registers a generation; its ranks may start from now on.
    ///
    /// The server makes the directory `segments`, in which the ranks share memory, and removes it
    /// at the end of the generation.
    ///
    /// # Errors
    /// Errors of `PmixServer::begin`, `Pmi1Server::begin` and mkdir(2).
    pub fn begin(&self, generation: &Namespace, segments: &Path) -> Result<(), Error> {
        let ranks = generation.ranks_here().count();
        if let Some(launcher) = &self.intel_launcher {
            launcher.request(ranks)?;
        }
        match &self.protocol {
            Protocol::Pmix(server) => server.begin(generation)?,
            Protocol::Pmi1(server) => server.begin(generation)?,
        }
        let is_spread = generation.placement.hosts().len() > 1;
        self.is_spread.fetch_or(is_spread, Ordering::Relaxed);
        let begun = Begun {
            segments: segments.to_owned(),
            ranks,
        };
        self.begun.lock().insert(generation.name.clone(), begun);
        let made = DirBuilder::new().mode(0o700).create(segments);
        let what = format!("the directory {}", segments.display());
        made.map_err(Error::system(what)).inspect_err(|_| {
            let _ = self.end(&generation.name);
        })
    }

    /// Returns the variables and descriptor that make a process this rank of this node.
    ///
    /// # Errors
    /// Errors of `PmixServer::environment` and `Pmi1Server::identity`;
    /// [`Error::UnknownGeneration`].
    pub fn identity(&self, generation: &GenerationName, rank: Rank) -> Result<Identity, Error> {
        let unknown = || Error::UnknownGeneration(generation.to_string());
        let begun = self.begun.lock().get(generation).cloned();
        let Begun { segments, ranks } = begun.ok_or_else(unknown)?;
        let mut identity = match &self.protocol {
            Protocol::Pmix(server) => Identity {
                variables: server.environment(generation, rank)?,
                defaults: self.defaults_of_open_mpi(&segments),
                descriptor: None,
            },
            Protocol::Pmi1(server) => {
                let mut identity = server.identity(generation, rank)?;
                if self.is_spread.load(Ordering::Relaxed) {
                    let set = PLACEMENT_INDEPENDENT
                        .iter()
                        .map(|&(name, value)| (name.into(), value.into()));
                    identity.defaults.extend(set);
                }
                let launcher = self.intel_launcher.iter();
                let reported = launcher.flat_map(|launcher| launcher.variables(ranks));
                identity.variables.extend(reported);
                identity
            }
        };
        // UCX is used with both protocols.
        identity
            .defaults
            .push(("UCX_POSIX_DIR".into(), segments.into()));
        Ok(identity)
    }

    fn defaults_of_open_mpi(&self, segments: &Path) -> Vec<(OsString, OsString)> {
        // Data about a job are sent over the socket, not through files of libpmix in shared memory.
        let mut defaults = vec![("PMIX_MCA_gds".into(), "hash".into())];
        // Segments of killed ranks would stay in the default directories. Open MPI 4 has the first
        // component under the name "vader".
        for name in ["btl_sm", "btl_vader", "osc_sm", "osc_rdma"] {
            let name = format!("OMPI_MCA_{name}_backing_directory");
            defaults.push((name.into(), segments.into()));
        }
        if let Some(prefix) = self.mpi.prefix() {
            defaults.push(("OPAL_PREFIX".into(), prefix.into()));
            defaults.push(("PMIX_PREFIX".into(), prefix.into()));
        }
        defaults
    }

    /// True if ranks request data about processes that were spawned on another node.
    ///
    /// Ranks of Open MPI request these data from the server of their own node; ranks of MPICH send
    /// each other what they need.
    pub fn needs_spawned_namespaces(&self) -> bool {
        matches!(self.protocol, Protocol::Pmix(_))
    }

    /// Requests data that a rank of this node has put for other nodes.
    ///
    /// Answers a [`crate::ModexRequest`] of another node. Any thread may call `then`, with `None`
    /// if there is no such data. Ranks with PMI-1 never request data.
    pub fn modex(
        &self,
        generation: &GenerationName,
        rank: Rank,
        then: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) {
        match &self.protocol {
            Protocol::Pmix(server) => server.modex(generation, rank, then),
            Protocol::Pmi1(_) => then(None),
        }
    }

    /// Ends the waits of other ranks for a rank whose process has exited.
    ///
    /// With PMI-1 nothing is done: the end of the rank's connection ends these waits.
    pub fn lose(&self, generation: &GenerationName, rank: Rank) {
        if let Protocol::Pmix(server) = &self.protocol {
            server.lose(generation, rank);
        }
    }

    /// Ends a generation and removes the files that its ranks have left.
    ///
    /// # Errors
    /// [`Error::UnknownGeneration`].
    pub fn end(&self, generation: &GenerationName) -> Result<(), Error> {
        match &self.protocol {
            Protocol::Pmix(server) => server.end(generation)?,
            Protocol::Pmi1(server) => server.end(generation)?,
        }
        let begun = self.begun.lock().remove(generation);
        // The lock is not held, because the removal takes time.
        if let Some(Begun { segments, .. }) = begun {
            let _ = std::fs::remove_dir_all(segments);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let generations = std::mem::take(&mut *self.begun.lock());
        for (name, Begun { segments, .. }) in generations {
            let _ = self.end(&name);
            let _ = std::fs::remove_dir_all(segments);
        }
    }
}
