//! Choice of spares for failed workers, as a pure function.

use std::collections::BTreeMap;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::spares::{Spare, SpareNeed};

/// Rating of a spare for a worker; lower is better.
///
/// The fields are compared in their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rating {
    /// True if a worker has died in the failure domain of the spare.
    is_in_failed_domain: bool,
    distance: ReplicaDistance,
    /// Load of the spare's host: number of its workers and leased spares.
    load: u32,
    rank: ProcessNumber,
}

/// Distance of a spare from the first replica of a worker, nearest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ReplicaDistance {
    SameHost,
    SameDomain,
    /// The spare is in another failure domain, or the worker has no replica.
    OtherDomain,
}

/// Rates a spare for a worker.
fn rating(spare: &Spare, need: &SpareNeed, failed: &[&str], load: u32) -> Rating {
    let distance = match need.copies.first() {
        Some(copy) if copy.domain != spare.domain => ReplicaDistance::OtherDomain,
        Some(copy) if copy.host != spare.host => ReplicaDistance::SameDomain,
        Some(_) => ReplicaDistance::SameHost,
        None => ReplicaDistance::OtherDomain,
    };
    Rating {
        is_in_failed_domain: failed.contains(&spare.domain.as_str()),
        distance,
        load,
        rank: spare.rank,
    }
}

/// Chooses a spare for each need, as far as there are spares.
///
/// `load` is the load of the hosts; each choice adds to the load of its host.
pub(super) fn choose(
    idle: &[&Spare],
    needs: &[SpareNeed],
    load: &BTreeMap<String, u32>,
) -> Vec<(Worker, ProcessNumber)> {
    let (mut free, mut load) = (idle.to_vec(), load.clone());
    let failed: Vec<&str> = needs
        .iter()
        .map(|need| need.failed.domain.as_str())
        .collect();
    let mut chosen = Vec::new();
    for need in needs {
        let rated = free.iter().enumerate().map(|(index, spare)| {
            let load = load.get(&spare.host).copied().unwrap_or(0);
            (rating(spare, need, &failed, load), index)
        });
        let Some((_, index)) = rated.min() else { break };
        let spare = free.swap_remove(index);
        *load.entry(spare.host.clone()).or_insert(0) += 1;
        chosen.push((need.worker, spare.rank));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_wire::spares::ProcessLocation;

    fn spare(rank: u32, host: &str, domain: &str) -> Spare {
        Spare {
            rank: ProcessNumber(rank),
            pid: 100 + rank,
            launcher: 0,
            host: host.into(),
            domain: domain.into(),
            workers: 0,
        }
    }

    fn location(host: &str, domain: &str) -> ProcessLocation {
        ProcessLocation {
            host: host.into(),
            domain: domain.into(),
        }
    }

    fn need(worker: u32, failed: ProcessLocation, copy: ProcessLocation) -> SpareNeed {
        SpareNeed {
            worker: Worker(worker),
            failed,
            copies: vec![copy],
        }
    }

    fn chosen(spares: &[Spare], needs: &[SpareNeed], load: &[(&str, u32)]) -> Vec<(u32, u32)> {
        let load = load
            .iter()
            .map(|&(host, count)| (host.to_owned(), count))
            .collect();
        let chosen = choose(&spares.iter().collect::<Vec<_>>(), needs, &load);
        chosen
            .into_iter()
            .map(|(worker, rank)| (worker.0, rank.0))
            .collect()
    }

    /// A spare near the replica is chosen, outside the failed domains if possible.
    #[test]
    fn near_the_copy_and_never_where_it_failed() {
        let spares = [
            spare(8, "a1", "a"),
            spare(9, "b2", "b"),
            spare(10, "b1", "b"),
            spare(11, "c1", "c"),
        ];
        let need_of_worker_0 = need(0, location("a1", "a"), location("b1", "b"));
        assert_eq!(
            chosen(&spares, std::slice::from_ref(&need_of_worker_0), &[]),
            [(0, 10)]
        );
        assert_eq!(
            chosen(&spares[..2], std::slice::from_ref(&need_of_worker_0), &[]),
            [(0, 9)]
        );
        // No other spare exists.
        assert_eq!(chosen(&spares[..1], &[need_of_worker_0], &[]), [(0, 8)]);
        // A replica in the failed domain does not attract a spare to that domain.
        let need_of_worker_0 = need(0, location("a1", "a"), location("a2", "a"));
        assert_eq!(
            chosen(&spares, &[need_of_worker_0], &[("b2", 1), ("b1", 2)]),
            [(0, 11)]
        );
    }

    #[test]
    fn load_decides_between_equals_and_grows() {
        let spares = [
            spare(8, "b1", "b"),
            spare(9, "b2", "b"),
            spare(10, "b2", "b"),
        ];
        let need_near_c1 = |worker| need(worker, location("a1", "a"), location("c1", "c"));
        assert_eq!(
            chosen(&spares, &[need_near_c1(0)], &[("b1", 2), ("b2", 1)]),
            [(0, 9)]
        );
        assert_eq!(
            chosen(
                &spares,
                &[need_near_c1(0), need_near_c1(1), need_near_c1(2)],
                &[("b1", 0), ("b2", 0)]
            ),
            [(0, 8), (1, 9), (2, 10)]
        );
    }

    /// Each need avoids the failed domains of all needs if possible.
    #[test]
    fn every_failed_domain_is_avoided_by_every_need() {
        let spares = [
            spare(8, "a1", "a"),
            spare(9, "b1", "b"),
            spare(10, "c1", "c"),
        ];
        let needs = [
            need(0, location("a2", "a"), location("b2", "b")),
            need(1, location("b2", "b"), location("a2", "a")),
        ];
        assert_eq!(chosen(&spares, &needs, &[]), [(0, 10), (1, 8)]);
    }
}
