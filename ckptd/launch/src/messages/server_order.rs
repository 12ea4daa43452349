//! Orders of the leader about the servers of the MPI library and spawned processes.

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{AllowedEnumVariants, DecodeError, EncodeError};
use bincode::{Decode, Encode};
use understudy_numbers::{Rank, Worker};
use understudy_pmi::GenerationName;

/// An order about the servers of the MPI library, or about spawned processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerOrder {
    /// Requests the data that a rank of this node has put, for another node.
    Modex {
        id: u64,
        namespace: GenerationName,
        rank: Rank,
    },
    /// Registers processes that the program has spawned on another node.
    Join { id: u64, joining: SpawnedNamespace },
    /// Reports that a worker was rolled back to an earlier number of spawn calls.
    ///
    /// The worker, on another node, has spawned processes on this node.
    RolledBack { worker: Worker, number: u64 },
    /// Requests the boards of these workers of this node, for another node.
    ReadBoards { id: u64, workers: Vec<Worker> },
    /// Ends the namespace of spawned processes.
    Forget { name: GenerationName },
    /// Answers a request of the node.
    Answer { id: u64, bytes: Option<Vec<u8>> },
}

/// Processes that the program has spawned.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct SpawnedNamespace {
    pub name: GenerationName,
    pub size: u32,
    pub host: String,
}

impl ServerOrder {
    /// Tag of the first variant; lower tags are those of [`understudy_messages::JobOrder`].
    pub const FIRST_TAG: u32 = 11;
    const LAST_TAG: u32 = 16;
}

impl Encode for ServerOrder {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        match self {
            ServerOrder::Modex {
                id,
                namespace,
                rank,
            } => (11u32, id, namespace, rank).encode(encoder),
            ServerOrder::Join { id, joining } => (12u32, id, joining).encode(encoder),
            ServerOrder::RolledBack { worker, number } => (13u32, worker, number).encode(encoder),
            ServerOrder::ReadBoards { id, workers } => (14u32, id, workers).encode(encoder),
            ServerOrder::Forget { name } => (15u32, name).encode(encoder),
            ServerOrder::Answer { id, bytes } => (16u32, id, bytes).encode(encoder),
        }
    }
}

impl<Context> Decode<Context> for ServerOrder {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<ServerOrder, DecodeError> {
        Ok(match u32::decode(decoder)? {
            11 => ServerOrder::Modex {
                id: Decode::decode(decoder)?,
                namespace: Decode::decode(decoder)?,
                rank: Decode::decode(decoder)?,
            },
            12 => ServerOrder::Join {
                id: Decode::decode(decoder)?,
                joining: Decode::decode(decoder)?,
            },
            13 => ServerOrder::RolledBack {
                worker: Decode::decode(decoder)?,
                number: Decode::decode(decoder)?,
            },
            14 => ServerOrder::ReadBoards {
                id: Decode::decode(decoder)?,
                workers: Decode::decode(decoder)?,
            },
            15 => ServerOrder::Forget {
                name: Decode::decode(decoder)?,
            },
            16 => ServerOrder::Answer {
                id: Decode::decode(decoder)?,
                bytes: Decode::decode(decoder)?,
            },
            found => {
                return Err(DecodeError::UnexpectedVariant {
                    type_name: "ServerOrder",
                    allowed: &AllowedEnumVariants::Range {
                        min: ServerOrder::FIRST_TAG,
                        max: ServerOrder::LAST_TAG,
                    },
                    found,
                });
            }
        })
    }
}
