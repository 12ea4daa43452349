//! Arbitrary messages and lists of hosts, for the fuzz targets `frames`, `leader` and `hosts`.

use crate::leader::{JobLeader, OWN_NODE};
use crate::messages::{
    Greeting, LeaderToNode, LeaderToStarter, ManagerDuty, Messages, NodeToLeader, Report,
    StarterToLeader, write_message,
};
use crate::starter::{
    Assignment, Host, RankOrder, StarterToHost, assign_ranks, hosts_of_list, hosts_of_text,
};
use bincode::config::standard;
use bincode::{Decode, Encode};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;
use understudy_protocol::{Generation, ProcessNumber};
use understudy_settings::Config;

/// Limit of memory for decoding a message.
const MAX_DECODED_BYTES: usize = 1 << 20;
/// Number of nodes of the job.
const NODES: u32 = 3;
/// Limit of sizes, and of numbers that must have a successor.
///
/// The leader uses memory for each unit of a size.
const MAX_NUMBER: u32 = 1 << 10;

/// Decodes the bytes as a message of each type.
///
/// A decoded message must be equal after it was sent by a pipe.
pub fn decode_messages(bytes: &[u8]) {
    decode::<Greeting>(bytes);
    decode::<NodeToLeader>(bytes);
    decode::<LeaderToNode>(bytes);
    decode::<ManagerDuty>(bytes);
    decode::<StarterToLeader>(bytes);
    decode::<LeaderToStarter>(bytes);
    decode::<Assignment>(bytes);
    decode::<StarterToHost>(bytes);
}

fn decode<M: Decode<()> + Encode + Debug>(bytes: &[u8]) {
    let limited = standard().with_limit::<MAX_DECODED_BYTES>();
    let Ok((message, _)) = bincode::decode_from_slice::<M, _>(bytes, limited) else {
        return;
    };
    let mut pipe = Vec::new();
    write_message(&mut pipe, &message).expect("memory takes it");
    let again: M = Messages::new(&pipe[..]).next().expect("whole");
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
}

/// Makes the nodes of a job report what the bytes describe.
///
/// Each step begins with two bytes: the node and its action, and the length of the encoded report
/// that follows. No report may make the leader panic.
pub fn report(mut bytes: &[u8]) {
    let mut leader = JobLeader::new("n0", &Config::default(), true);
    let mut nodes = BTreeSet::from([OWN_NODE]);
    while let [what, length, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        let node = u32::from(*what) % NODES;
        match u32::from(*what) / NODES % 8 {
            0 if node != OWN_NODE && nodes.remove(&node) => {
                leader.lose(node, Duration::from_secs(1));
            }
            1 => leader.tick(),
            _ => {
                if nodes.insert(node) {
                    leader.join(node, format!("n{node}"));
                }
                let limited = standard().with_limit::<MAX_DECODED_BYTES>();
                match bincode::decode_from_slice(payload, limited) {
                    // The leader only prints the reason and ends the job.
                    Ok((Report::CannotContinue(_), _)) | Err(_) => {}
                    Ok((report, _)) => leader.handle_report(node, limit_numbers(report)),
                }
            }
        }
        leader.take_orders();
        leader.limit();
        if leader.is_over() {
            leader.status();
        }
    }
}

/// Reduces numbers that only a node with the job's token could make too large.
fn limit_numbers(mut report: Report) -> Report {
    match &mut report {
        Report::GuardianJoined {
            workers, spares, ..
        } => (*workers, *spares) = (1 + *workers % 4, *spares % 4),
        Report::ProcessReported {
            number: ProcessNumber(number),
            history,
            ..
        } => {
            *number %= MAX_NUMBER;
            let Generation(generation) = &mut history.generation;
            *generation %= MAX_NUMBER;
        }
        Report::Join { size, .. } => *size %= MAX_NUMBER,
        _ => {}
    }
    report
}

/// Reads hosts as a list and as a file, and assigns ranks to them.
///
/// The first two bytes are the number of ranks and their order.
pub fn list_hosts(bytes: &[u8]) {
    let [size, by, text @ ..] = bytes else { return };
    let by = if by % 2 == 0 {
        RankOrder::Slot
    } else {
        RankOrder::Node
    };
    let text = String::from_utf8_lossy(text);
    for hosts in [hosts_of_list(&text), hosts_of_text(&text)] {
        match hosts {
            Ok(hosts) => assign(&hosts, u32::from(*size), by),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn assign(hosts: &[Host], size: u32, by: RankOrder) {
    let names: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names.len(), hosts.len());
    let Ok(ranks) = assign_ranks(hosts, size, by) else {
        return;
    };
    let mut all: Vec<u32> = ranks.iter().flatten().map(|rank| rank.0).collect();
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(0..size));
    for (host, ranks) in hosts.iter().zip(ranks) {
        assert!(ranks.len() <= host.slots as usize);
        assert!(ranks.is_sorted());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 500,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn messages_may_be_anything(
            bytes in vec(prop_oneof![3 => 0u8..16, 1 => any::<u8>()], 0..100),
        ) {
            decode_messages(&bytes);
        }

        #[test]
        fn nodes_may_report_anything(steps in vec((any::<u8>(), vec(0u8..12, 0..20)), 0..40)) {
            // One worker and one spare on two nodes.
            let mut bytes = vec![6, 6, 0, 0, 0, 1, 0, 0, 6, 2, 2, 0];
            bytes.extend([7, 6, 0, 1, 0, 1, 0, 0, 7, 2, 2, 1]);
            for (what, payload) in steps {
                bytes.extend([what, payload.len() as u8]);
                bytes.extend(payload);
            }
            report(&bytes);
        }

        #[test]
        fn hosts_may_be_anything(
            bytes in vec(prop_oneof![
                Just(b'a'), Just(b':'), Just(b','), Just(b'\n'), b'0'..=b'9', any::<u8>(),
            ], 0..60),
        ) {
            list_hosts(&bytes);
        }
    }
}
