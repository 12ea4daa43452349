//! The server of a node's MPI library, and the memory that its ranks share.

use super::segments::{SegmentDirectories, remove_disk_directory};
use crate::Error;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use understudy_pmi::{MpiKind, Namespace, RankEvent, Server, ServerSettings, remove_segments};

/// The server of a node's MPI library, with directories for the memory that ranks share.
pub struct Servers {
    server: Server,
    // Dropped after the server, which removes its files in these directories first.
    segments: SegmentDirectories,
}

impl Servers {
    /// Starts the server; `memory` is a directory in memory that only this user can access.
    ///
    /// # Errors
    /// Errors of [`Server::start`].
    pub fn start(
        settings: &ServerSettings,
        memory: PathBuf,
    ) -> Result<(Servers, Receiver<RankEvent>), Error> {
        // MPICH accepts `/dev/shm` only.
        let may_be_on_disk = settings.mpi.kind == MpiKind::OpenMpi;
        let (server, events) = Server::start(settings)?;
        let segments = SegmentDirectories::new(memory, may_be_on_disk);
        Ok((Servers { server, segments }, events))
    }

    /// Registers a generation; its ranks may start from now on.
    ///
    /// # Errors
    /// Errors of [`Server::begin`].
    pub fn begin(&self, generation: &Namespace) -> Result<(), Error> {
        let segments = self.segments.choose(generation);
        Ok(self.server.begin(generation, &segments)?)
    }
}

impl Deref for Servers {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Removes the leftovers of generations on this node that have no server any more.
///
/// `sessions` is the directory of [`ServerSettings`], `memory` that of [`Servers::start`].
pub fn remove_generations(sessions: &Path, memory: &Path) {
    let names = std::fs::read_dir(memory).into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        remove_segments(&name);
        let _ = std::fs::remove_dir_all(sessions.join(&name));
        let _ = std::fs::remove_dir_all(memory.join(&name));
    }
    remove_disk_directory(memory);
}
