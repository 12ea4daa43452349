//! Orders of the leader to a node.

use super::server_order::ServerOrder;
use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use understudy_messages::{GenerationStart, JobOrder};
use understudy_numbers::{NumberList, ProcessNumber};

/// An order of the leader to a node.
///
/// The encoding has no tag for the two kinds. The tags of the two enumerations differ, so that an
/// order is encoded as if all orders were variants of one enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Job(JobOrder<Beginning>),
    Servers(ServerOrder),
}

impl Encode for Order {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        match self {
            Order::Job(order) => order.encode(encoder),
            Order::Servers(order) => order.encode(encoder),
        }
    }
}

impl<Context> Decode<Context> for Order {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Order, DecodeError> {
        // Tags are less than 251, and so one byte long. Messages are decoded from memory, so that
        // the reader can return the next byte without consuming it.
        let tag = decoder.reader().peek_read(1).and_then(|next| next.first());
        match tag {
            Some(&tag) if u32::from(tag) < ServerOrder::FIRST_TAG => {
                JobOrder::decode(decoder).map(Order::Job)
            }
            _ => ServerOrder::decode(decoder).map(Order::Servers),
        }
    }
}

bincode::impl_borrow_decode!(Order);

/// A generation that begins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Beginning {
    /// Name of the job, to which the generation's number is added
    /// ([`understudy_pmi::GenerationName`]).
    pub job: String,
    pub start: GenerationStart,
    /// Process of each rank.
    pub ranks: NumberList<ProcessNumber>,
    /// Index of each rank's host in `hosts`.
    pub host_of_rank: NumberList<u32>,
    pub hosts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::SpawnedNamespace;
    use bincode::config::standard;
    use std::time::Duration;
    use understudy_messages::{NodeEnd, ToGuardian};
    use understudy_numbers::{Generation, Guardian, Rank, Worker};
    use understudy_pmi::GenerationName;

    fn job_orders() -> Vec<JobOrder<Beginning>> {
        let (number, generation) = (ProcessNumber(5), Generation(6));
        let beginning = Beginning {
            job: "j".to_owned(),
            start: GenerationStart {
                generation,
                is_first: true,
                spares: 2,
                since_failure: Some(Duration::from_secs(3)),
            },
            ranks: vec![number].into(),
            host_of_rank: vec![1].into(),
            hosts: vec!["h".to_owned()],
        };
        vec![
            JobOrder::Guardian {
                rank: Guardian(4),
                message: ToGuardian::Kill { number },
            },
            JobOrder::Admit {
                number,
                generation: Some(generation),
            },
            JobOrder::Announce { generation },
            JobOrder::CountSpareDeath,
            JobOrder::RequestCheckpoint {
                signal: 15,
                time_us: 7,
            },
            JobOrder::RequestPlacementHints {
                number,
                failed: vec![ProcessNumber(7)],
            },
            JobOrder::AdoptStore {
                adopter: number,
                from: ProcessNumber(7),
            },
            JobOrder::Begin(beginning),
            JobOrder::KillGuardian { rank: Guardian(4) },
            JobOrder::EndNode(NodeEnd::AtCheckpoint { order: 3 }),
            JobOrder::End { is_good: true },
        ]
    }

    fn server_orders() -> Vec<ServerOrder> {
        let name = GenerationName::new("n", 0).unwrap();
        let joining = SpawnedNamespace {
            name: name.clone(),
            size: 3,
            host: "h".to_owned(),
        };
        vec![
            ServerOrder::Modex {
                id: 1,
                namespace: name.clone(),
                rank: Rank(2),
            },
            ServerOrder::Join { id: 1, joining },
            ServerOrder::RolledBack {
                worker: Worker(1),
                number: 2,
            },
            ServerOrder::ReadBoards {
                id: 1,
                workers: vec![Worker(2)],
            },
            ServerOrder::Forget { name },
            ServerOrder::Answer {
                id: 1,
                bytes: Some(vec![9]),
            },
        ]
    }

    #[test]
    fn orders_are_encoded_as_one_enumeration() {
        let expected: [&[u8]; 17] = [
            &[0, 4, 1, 5],
            &[1, 5, 1, 6],
            &[2, 6],
            &[3],
            &[4, 30, 7],
            &[5, 5, 1, 7],
            &[6, 5, 7],
            &[
                7, 1, b'j', 6, 1, 2, 1, 3, 0, 1, 5, 0, 1, 1, 1, 0, 1, 1, 1, b'h',
            ],
            &[8, 4],
            &[9, 1, 3],
            &[10, 1],
            &[11, 1, 3, b'n', b'.', b'0', 2],
            &[12, 1, 3, b'n', b'.', b'0', 3, 1, b'h'],
            &[13, 1, 2],
            &[14, 1, 1, 2],
            &[15, 3, b'n', b'.', b'0'],
            &[16, 1, 1, 1, 9],
        ];
        let job = job_orders().into_iter().map(Order::Job);
        let servers = server_orders().into_iter().map(Order::Servers);
        for (order, expected) in job.chain(servers).zip(expected) {
            let bytes = bincode::encode_to_vec(&order, standard()).unwrap();
            assert_eq!(bytes, expected, "{order:?}");
            let (decoded, used) =
                bincode::decode_from_slice::<Order, _>(&bytes, standard()).unwrap();
            assert_eq!((decoded, used), (order, bytes.len()));
        }
    }

    /// The leader sends the order to every node.
    #[test]
    fn the_beginning_of_a_generation_grows_with_the_nodes_only() {
        const RANKS: u32 = 100_000;
        const NODES: u32 = 1000;
        let bytes = |host_of_rank: NumberList<u32>| {
            let beginning = Beginning {
                ranks: (0..RANKS).map(ProcessNumber).collect(),
                host_of_rank,
                ..Beginning::default()
            };
            bincode::encode_to_vec(&beginning, standard()).map(|bytes| bytes.len())
        };
        let filled = bytes((0..RANKS).map(|rank| rank / (RANKS / NODES)).collect());
        let in_turn = bytes((0..RANKS).map(|rank| rank % NODES).collect());
        assert!(filled.is_ok_and(|bytes| bytes < 10 * NODES as usize));
        assert!(in_turn.is_ok_and(|bytes| bytes < 10 * NODES as usize));
    }

    #[test]
    fn an_unknown_order_is_refused() {
        for bytes in [&[][..], &[17, 1], &[251, 0, 0]] {
            assert!(bincode::decode_from_slice::<Order, _>(bytes, standard()).is_err());
        }
    }
}
