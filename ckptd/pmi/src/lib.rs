//! Process manager interfaces: an unmodified MPI program starts without mpirun.
//!
//! An MPI library requests the rank of its process from a process manager, and exchanges addresses
//! through it. Open MPI uses a PMIx server, MPICH and its derivatives a PMI-1 server.
//! [`MpiLibrary`] is the library that a program needs, determined from its file. The servers can be
//! used by any launcher.
//!
//! ```text
//!   Namespace { name: job.7, placement: the host of each rank }
//!        │ begin                                    end │
//!        ▼                                              ▼
//!   Server ── identity(rank): variables, descriptor ──► process of the rank ── MPI_Init
//!        └──── RankEvent: connected, finalised, abort ◄─────────┘
//! ```
//!
//! A [`Namespace`] is one MPI_COMM_WORLD. The server outlives the namespace: when a rank has died,
//! the generation ends, and all ranks initialise MPI again in the next generation, in new
//! processes or in the same ones. For the library each generation is a job of its own (a PMIx
//! namespace, a PMI-1 key space), so that data of an ended generation cannot reach a later one.

mod error;
mod generation_name;
mod identity;
mod intel_mpi;
mod linked_libraries;
mod local_world;
mod mpi_library;
mod namespace;
mod peers;
mod placement;
mod pmi1;
mod pmix;
mod rank_event;
mod server;

pub use error::{Error, system_message};
pub use generation_name::GenerationName;
pub use identity::{Identity, adopt, is_of_a_launcher};
pub use local_world::LocalWorld;
pub use mpi_library::{MpiKind, MpiLibrary};
pub use namespace::{Namespace, Preput, Spawned};
pub use peers::{
    Answer, AnswerCancellation, Fence, MemberRanks, Members, ModexRequest, NoPeers, Peers, Purpose,
    Spawn,
};
pub use placement::Placement;
#[cfg(any(test, fuzzing))]
pub use pmi1::hostile;
pub use pmi1::{DESCRIPTOR, Pmi1Client, remove_segments};
pub use pmix::PmixClient;
pub use rank_event::{RankAction, RankEvent};
pub use server::{PLACEMENT_INDEPENDENT, Server, ServerSettings};
pub use understudy_numbers::Rank;
