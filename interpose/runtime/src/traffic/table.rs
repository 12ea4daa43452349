//! The counts.

use crate::objects::comm::{Comm, SELF_UID, WORLD_UID};
use ckptd::events::{Amount, CommTraffic, PeerTraffic, Traffic, Worker};

/// Communicators that have a row of their own. Those that come later share one.
const MOST_COMMS: usize = 64;
/// Peers in a record.
const MOST_PEERS: usize = 8192;

/// What the program has sent so far.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Table {
    /// By worker; empty if nothing is counted.
    pub peers: Vec<Amount>,
    /// By communicator, in the order in which they were used first; at most one more than have a row of their own.
    pub rows: Vec<CommTraffic>,
}

impl Table {
    /// Nothing is counted.
    pub const NOTHING: Table = Table {
        peers: Vec::new(),
        rows: Vec::new(),
    };

    /// Nothing sent yet, among so many workers.
    pub fn new(workers: u32) -> Table {
        Table {
            peers: vec![Amount::default(); workers as usize],
            rows: Vec::new(),
        }
    }

    /// The row of a communicator.
    pub fn row_of(&mut self, comm: &Comm) -> usize {
        let row = CommTraffic {
            id: comm.uid,
            name: name(comm),
            size: comm.members.len() as u32,
            remote: comm.remote.as_ref().map(|remote| remote.len() as u32),
            messages: Amount::default(),
            collectives: Amount::default(),
        };
        let is_its = |other: &CommTraffic| {
            (other.id, &other.name, other.size, other.remote)
                == (row.id, &row.name, row.size, row.remote)
        };
        match self.rows.iter().take(MOST_COMMS).position(is_its) {
            Some(index) => index,
            None => {
                if self.rows.len() <= MOST_COMMS {
                    self.rows.push(row);
                }
                self.rows.len() - 1
            }
        }
    }

    /// All messages.
    pub fn messages(&self) -> Amount {
        let mut sum = Amount::default();
        self.peers.iter().for_each(|peer| sum += *peer);
        sum
    }

    /// Everything that is counted.
    pub fn all(&self) -> Amount {
        let mut sum = self.messages();
        self.rows.iter().for_each(|row| sum += row.collectives);
        sum
    }

    /// What is written down.
    pub fn record(&self, worker: Worker, undone: Amount) -> Traffic {
        let peers = self
            .peers
            .iter()
            .zip(0..)
            .filter(|(messages, _)| messages.count > 0);
        let mut peers: Vec<PeerTraffic> = peers
            .map(|(&messages, to)| PeerTraffic {
                to: Worker(to),
                messages,
            })
            .collect();
        let mut other_peers = Amount::default();
        if peers.len() > MOST_PEERS {
            peers.sort_by_key(|peer| std::cmp::Reverse(peer.messages.bytes));
            peers
                .drain(MOST_PEERS..)
                .for_each(|peer| other_peers += peer.messages);
            peers.sort_by_key(|peer| peer.to);
        }
        let (comms, others) = self.rows.split_at(self.rows.len().min(MOST_COMMS));
        let other_comms = others
            .first()
            .map(|others| [others.messages, others.collectives]);
        Traffic {
            worker,
            peers,
            other_peers,
            comms: comms.to_vec(),
            other_comms: other_comms.unwrap_or_default(),
            undone,
        }
    }
}

fn name(comm: &Comm) -> String {
    match (&comm.name, comm.uid) {
        (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
        (None, WORLD_UID) => "MPI_COMM_WORLD".into(),
        (None, SELF_UID) => "MPI_COMM_SELF".into(),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::comm::Topology;

    fn comm(uid: u64, name: Option<&str>) -> Comm {
        Comm {
            uid,
            members: [0, 1, 2].map(Worker).into(),
            remote: None,
            topology: Topology::None,
            name: name.map(|name| name.as_bytes().to_vec()),
            errhandler: 0,
            attributes: Vec::new(),
            info: Vec::new(),
            collective_over_all: true,
            inits: 0,
            collectives: 0,
            writes: 0,
            firsts: Vec::new(),
            session: 0,
            is_freed: false,
        }
    }

    #[test]
    fn a_communicator_has_one_row_until_it_is_another() {
        let mut table = Table::new(3);
        assert_eq!(table.row_of(&comm(7, None)), 0);
        assert_eq!(table.row_of(&comm(8, None)), 1);
        assert_eq!(table.row_of(&comm(7, None)), 0);
        assert_eq!(table.row_of(&comm(7, Some("ocean"))), 2);
        let smaller = Comm {
            members: [0, 1].map(Worker).into(),
            ..comm(7, None)
        };
        assert_eq!(table.row_of(&smaller), 3);
        assert_eq!(table.row_of(&comm(WORLD_UID, None)), 4);
        assert_eq!(table.rows[4].name, "MPI_COMM_WORLD");
    }

    #[test]
    fn too_many_communicators_share_a_row() {
        let mut table = Table::new(3);
        let rows: Vec<usize> = (0..100).map(|uid| table.row_of(&comm(uid, None))).collect();
        assert_eq!(rows[MOST_COMMS - 1..MOST_COMMS + 2], [63, 64, 64]);
        assert_eq!(rows[99], 64);
        table.rows[64].collectives += Amount {
            count: 5,
            bytes: 40,
        };
        let record = table.record(Worker(1), Amount::default());
        assert_eq!(record.comms.len(), 64);
        assert_eq!(
            record.other_comms,
            [
                Amount::default(),
                Amount {
                    count: 5,
                    bytes: 40
                }
            ]
        );
    }

    #[test]
    fn too_many_peers_are_added_up() {
        let mut table = Table::new(10_000);
        for (to, peer) in (0..).zip(&mut table.peers) {
            *peer += Amount {
                count: 1,
                bytes: to,
            };
        }
        let record = table.record(Worker(0), Amount::default());
        assert_eq!(record.peers.len(), MOST_PEERS);
        // Those with the fewest bytes, 0 to 1807.
        let others = Amount {
            count: 1808,
            bytes: 1807 * 1808 / 2,
        };
        assert_eq!(record.other_peers, others);
        assert_eq!(record.peers[0].to, Worker(1808));
        assert_eq!(table.messages().bytes, 9999 * 10_000 / 2);
    }
}
