//! Key space of a generation: data that its ranks put, and its barriers.
//!
//! The module converts bytes into [`KeySpaceAction`]s and uses no sockets.

use super::pmi1_line::Line;
use super::spawn_request::SpawnRequest;
use crate::{Namespace, Preput, RankAction};
use std::collections::{BTreeMap, BTreeSet};
use understudy_messages::ChildProgram;
use understudy_numbers::Rank;

/// Longest key, in bytes, as reported to clients.
const MAX_KEY_BYTES: usize = 64;
/// Longest value, in bytes, as reported to clients.
const MAX_VALUE_BYTES: usize = 1024;
/// Longest name of a key space that clients must expect.
const MAX_NAME_BYTES: usize = 256;
/// Longest line of a client: one argument of a spawned program (execve(2)) and its name.
const MAX_LINE_BYTES: usize = (128 << 10) + 16;
/// Limit of bytes of a generation's data on a node.
///
/// The data were put, published, or received from other nodes.
const MAX_TOTAL_BYTES: usize = 256 << 20;

/// Action in response to data from a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySpaceAction {
    /// Sends bytes to a rank.
    Send(Rank, Vec<u8>),
    /// Reports an action of a rank.
    Report(Rank, RankAction),
    /// Sends the new data of this node to the other nodes.
    ///
    /// All ranks of this node wait in barrier `number`.
    Fence { number: u64, bytes: Vec<u8> },
    /// Spawns processes for a rank; [`KeySpace::spawned`] returns the answer.
    ///
    /// The processes can get `put` from the beginning.
    Spawn {
        rank: Rank,
        programs: Vec<ChildProgram>,
        put: Preput,
    },
    /// Closes the connection of a rank whose data are not PMI-1, or too long.
    Close(Rank),
}

/// State of a rank's connection.
#[derive(Default)]
struct Client {
    /// Incomplete line.
    partial_line: Vec<u8>,
    /// Request that is being received, inside of a `mcmd=spawn`.
    spawn_request: Option<SpawnRequest>,
    /// True while the rank waits for spawned processes.
    is_spawning: bool,
}

/// State of a generation's data and barriers on this node.
pub struct KeySpace {
    name: String,
    here: BTreeSet<Rank>,
    /// Index of each local rank's program.
    programs: BTreeMap<Rank, u32>,
    /// True if all ranks of the generation are on this node.
    is_alone: bool,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// New data since the last barrier, as `key=value` lines.
    unsent: Vec<u8>,
    published: BTreeMap<Vec<u8>, Vec<u8>>,
    waiting: BTreeSet<Rank>,
    barriers: u64,
    clients: BTreeMap<Rank, Client>,
}

impl KeySpace {
    pub fn new(generation: &Namespace) -> KeySpace {
        let placement = &generation.placement;
        let here: BTreeSet<Rank> = generation.ranks_here().collect();
        let mut space = KeySpace {
            name: generation.name.to_string(),
            programs: here
                .iter()
                .map(|&rank| (rank, generation.program(rank)))
                .collect(),
            is_alone: here.len() == placement.size() as usize,
            here,
            values: BTreeMap::new(),
            bytes: 0,
            unsent: Vec::new(),
            published: BTreeMap::new(),
            waiting: BTreeSet::new(),
            barriers: 0,
            clients: BTreeMap::new(),
        };
        // Without this entry MPICH compares the names of the hosts. The entry is missing if it is
        // longer than a value may be.
        space.put(
            b"PMI_process_mapping",
            placement.process_mapping().as_bytes(),
        );
        for (key, value) in generation.spawned.iter().flat_map(|spawned| &spawned.put) {
            space.put(key.as_bytes(), value.as_bytes());
        }
        space
    }

    /// Handles a rank whose connection is closed or replaced.
    pub fn forget(&mut self, rank: Rank) {
        self.clients.remove(&rank);
        self.waiting.remove(&rank);
    }

    /// Handles data that a rank of this node has sent.
    pub fn take(&mut self, rank: Rank, bytes: &[u8]) -> Vec<KeySpaceAction> {
        let mut actions = Vec::new();
        let mut client = self.clients.remove(&rank).unwrap_or_default();
        client.partial_line.extend_from_slice(bytes);
        let partial_line = std::mem::take(&mut client.partial_line);
        let mut lines = partial_line.split(|&byte| byte == b'\n');
        // The last element is an incomplete line.
        let rest = lines.next_back().unwrap_or_default();
        let is_good = lines.all(|line| {
            self.handle_line(rank, &mut client, Line(line), &mut actions)
                .is_some()
        });
        if !is_good || rest.len() > MAX_LINE_BYTES {
            self.waiting.remove(&rank);
            actions.push(KeySpaceAction::Close(rank));
            return actions;
        }
        client.partial_line = rest.to_vec();
        self.clients.insert(rank, client);
        actions
    }

    /// Handles the data of all nodes for a barrier; `None` if a node is lost.
    pub fn fenced(&mut self, bytes: Option<&[u8]>) -> Vec<KeySpaceAction> {
        for line in bytes.unwrap_or_default().split(|&byte| byte == b'\n') {
            if let Some(equals) = line.iter().position(|&byte| byte == b'=') {
                self.put(&line[..equals], &line[equals + 1..]);
            }
        }
        let answer = match bytes {
            Some(_) => "cmd=barrier_out rc=0\n",
            None => "cmd=barrier_out rc=-1 msg=a_node_is_lost\n",
        };
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_iter()
            .map(|rank| KeySpaceAction::Send(rank, answer.into()))
            .collect()
    }

    /// Handles the success or failure of a rank's spawn request.
    pub fn spawned(&mut self, rank: Rank, is_good: bool) -> Vec<KeySpaceAction> {
        let client = self
            .clients
            .get_mut(&rank)
            .filter(|client| client.is_spawning);
        let answer = match is_good {
            true => "cmd=spawn_result rc=0\n",
            false => "cmd=spawn_result rc=-1 msg=not_started\n",
        };
        let actions = client.map(|client| {
            client.is_spawning = false;
            KeySpaceAction::Send(rank, answer.into())
        });
        actions.into_iter().collect()
    }

    /// Handles a line; returns `None` if the line is not PMI-1 or is too long.
    fn handle_line(
        &mut self,
        rank: Rank,
        client: &mut Client,
        line: Line,
        actions: &mut Vec<KeySpaceAction>,
    ) -> Option<()> {
        let mut send =
            |text: String| actions.push(KeySpaceAction::Send(rank, (text + "\n").into_bytes()));
        if line.0.len() > MAX_LINE_BYTES {
            return None;
        }
        if client.spawn_request.is_some() || line.get("mcmd").is_some() {
            let request = client.spawn_request.get_or_insert_default();
            if request.take(line.0) {
                match client
                    .spawn_request
                    .take()
                    .and_then(SpawnRequest::into_programs)
                {
                    Some((programs, put)) => {
                        client.is_spawning = true;
                        actions.push(KeySpaceAction::Spawn {
                            rank,
                            programs,
                            put,
                        });
                    }
                    None => send("cmd=spawn_result rc=-1 msg=not_understood".into()),
                }
            } else if request.is_too_long() {
                return None;
            }
            return Some(());
        }
        match line.get("cmd")? {
            b"init" if line.number("pmi_version") == Some(1) => {
                send("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into());
                actions.push(KeySpaceAction::Report(rank, RankAction::Connected));
            }
            b"init" => send("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".into()),
            b"get_maxes" => send(format!(
                "cmd=maxes rc=0 kvsname_max={MAX_NAME_BYTES} keylen_max={MAX_KEY_BYTES} \
                 vallen_max={MAX_VALUE_BYTES}"
            )),
            b"get_appnum" => {
                let program = self.programs.get(&rank).copied().unwrap_or_default();
                send(format!("cmd=appnum rc=0 appnum={program}"));
            }
            b"get_my_kvsname" => send(format!("cmd=my_kvsname rc=0 kvsname={}", self.name)),
            // The size is not specified, as under MPICH's own launcher; programs that spawn specify
            // it themselves.
            b"get_universe_size" => send("cmd=universe_size rc=0 size=-1".into()),
            b"put" => send(match self.rank_puts(line) {
                Ok(()) => "cmd=put_result rc=0".into(),
                Err(why) => format!("cmd=put_result rc=-1 msg={why}"),
            }),
            b"get" => {
                let value = line.get("key").and_then(|key| self.values.get(key));
                actions.push(KeySpaceAction::Send(
                    rank,
                    value_answer("get_result", "value", value),
                ));
            }
            b"barrier_in" => {
                self.waiting.insert(rank);
                if self.waiting == self.here {
                    self.complete_barrier(actions);
                }
            }
            b"publish_name" => {
                let is_published = self.publish(line);
                send(format!(
                    "cmd=publish_result rc={}",
                    if is_published { 0 } else { -1 }
                ));
            }
            b"unpublish_name" => {
                let was_published = self.unpublish(line);
                send(format!(
                    "cmd=unpublish_result rc={}",
                    if was_published { 0 } else { -1 }
                ));
            }
            b"lookup_name" => {
                let port = line
                    .get("service")
                    .and_then(|service| self.published.get(service));
                actions.push(KeySpaceAction::Send(
                    rank,
                    value_answer("lookup_result", "port", port),
                ));
            }
            b"finalize" => {
                // The rank may exit as soon as it has received the answer.
                actions.push(KeySpaceAction::Report(rank, RankAction::Finalized));
                actions.push(KeySpaceAction::Send(
                    rank,
                    b"cmd=finalize_ack rc=0\n".to_vec(),
                ));
            }
            b"abort" => {
                let message = line.rest("message").unwrap_or_default();
                let message = String::from_utf8_lossy(message).into_owned();
                let status = line.number("exitcode").unwrap_or(1);
                actions.push(KeySpaceAction::Report(
                    rank,
                    RankAction::Abort { status, message },
                ));
            }
            unknown => {
                let name: String = unknown
                    .iter()
                    .map(|&byte| char::from(byte))
                    .filter(char::is_ascii_alphanumeric)
                    .collect();
                send(format!("cmd={name}_result rc=-1 msg=unknown_command"));
            }
        }
        Some(())
    }

    fn rank_puts(&mut self, line: Line) -> Result<(), &'static str> {
        let (key, value) = line
            .get("key")
            .zip(line.get("value"))
            .ok_or("key_or_value_missing")?;
        if line
            .get("kvsname")
            .is_some_and(|name| name != self.name.as_bytes())
        {
            return Err("unknown_kvsname");
        }
        // Nodes exchange lines `key=value`.
        if key.contains(&b'=') {
            return Err("bad_key");
        }
        if !self.put(key, value) {
            return Err("too_large");
        }
        if !self.is_alone {
            let line = [key, b"=", value, b"\n"].concat();
            if self.unsent.len() + line.len() > MAX_TOTAL_BYTES {
                return Err("too_large");
            }
            self.unsent.extend(line);
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let bytes = key.len() + value.len();
        if key.is_empty()
            || key.len() > MAX_KEY_BYTES
            || value.len() > MAX_VALUE_BYTES
            || self.bytes + bytes > MAX_TOTAL_BYTES
        {
            return false;
        }
        let old = self.values.insert(key.to_vec(), value.to_vec());
        self.bytes += bytes;
        self.bytes -= old.map_or(0, |old| key.len() + old.len());
        true
    }

    fn publish(&mut self, line: Line) -> bool {
        let Some((service, port)) = line.get("service").zip(line.get("port")) else {
            return false;
        };
        let bytes = service.len() + port.len();
        if self.bytes + bytes > MAX_TOTAL_BYTES || self.published.contains_key(service) {
            return false;
        }
        self.bytes += bytes;
        self.published.insert(service.to_vec(), port.to_vec());
        true
    }

    fn unpublish(&mut self, line: Line) -> bool {
        let removed = line
            .get("service")
            .and_then(|service| self.published.remove_entry(service));
        self.bytes -= removed
            .as_ref()
            .map_or(0, |(service, port)| service.len() + port.len());
        removed.is_some()
    }

    fn complete_barrier(&mut self, actions: &mut Vec<KeySpaceAction>) {
        if self.is_alone {
            actions.extend(self.fenced(Some(b"")));
            return;
        }
        let number = self.barriers;
        self.barriers += 1;
        let bytes = std::mem::take(&mut self.unsent);
        actions.push(KeySpaceAction::Fence { number, bytes });
    }
}

/// Returns the answer to a request for a value.
fn value_answer(answer: &str, name: &str, value: Option<&Vec<u8>>) -> Vec<u8> {
    match value {
        Some(value) => [
            format!("cmd={answer} rc=0 {name}=").as_bytes(),
            value,
            b"\n",
        ]
        .concat(),
        None => format!("cmd={answer} rc=-1 msg=not_found\n").into_bytes(),
    }
}

#[cfg(test)]
#[path = "key_space_tests.rs"]
mod tests;
