//! Choice of spares for failed workers, as a pure function.

use std::collections::BTreeMap;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_wire::spares::{Need, Spare};

/// Rating of a spare for a worker; lower is better.
type Rating = (bool, u8, u32, ProcessNumber);

/// Rates a spare.
///
/// Spares in a failure domain in which a worker has died are used last. The further criteria are
/// the distance to the first replica (its host, its domain, others), the load of the host, and the
/// rank.
fn rating(spare: &Spare, need: &Need, failed: &[&str], load: u32) -> Rating {
    let distance = match need.copies.first() {
        Some(copy) if copy.domain != spare.domain => 2,
        Some(copy) if copy.host != spare.host => 1,
        Some(_) => 0,
        None => 2,
    };
    (
        failed.contains(&spare.domain.as_str()),
        distance,
        load,
        spare.rank,
    )
}

/// Chooses a spare for each need, as far as there are spares.
///
/// `load` is the load of the hosts; each choice adds to the load of its host.
pub(super) fn choose(
    idle: &[&Spare],
    needs: &[Need],
    load: &BTreeMap<String, u32>,
) -> Vec<(Worker, ProcessNumber)> {
    let (mut free, mut load) = (idle.to_vec(), load.clone());
    let failed: Vec<&str> = needs
        .iter()
        .map(|need| need.failed.domain.as_str())
        .collect();
    let mut chosen = Vec::new();
    for need in needs {
        let rated = free.iter().enumerate().map(|(at, spare)| {
            let load = load.get(&spare.host).copied().unwrap_or(0);
            (rating(spare, need, &failed, load), at)
        });
        let Some((_, at)) = rated.min() else { break };
        let spare = free.swap_remove(at);
        *load.entry(spare.host.clone()).or_insert(0) += 1;
        chosen.push((need.worker, spare.rank));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use understudy_wire::spares::Place;

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

    fn place(host: &str, domain: &str) -> Place {
        Place {
            host: host.into(),
            domain: domain.into(),
        }
    }

    fn need(worker: u32, failed: Place, copy: Place) -> Need {
        Need {
            worker: Worker(worker),
            failed,
            copies: vec![copy],
        }
    }

    fn chosen(spares: &[Spare], needs: &[Need], load: &[(&str, u32)]) -> Vec<(u32, u32)> {
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

    #[test]
    fn near_the_copy_and_never_where_it_failed() {
        let spares = [
            spare(8, "a1", "a"),
            spare(9, "b2", "b"),
            spare(10, "b1", "b"),
            spare(11, "c1", "c"),
        ];
        let part = need(0, place("a1", "a"), place("b1", "b"));
        assert_eq!(chosen(&spares, std::slice::from_ref(&part), &[]), [(0, 10)]);
        assert_eq!(
            chosen(&spares[..2], std::slice::from_ref(&part), &[]),
            [(0, 9)]
        );
        // No other spare exists.
        assert_eq!(chosen(&spares[..1], &[part], &[]), [(0, 8)]);
        // A replica in the failed domain does not attract a spare to that domain.
        let part = need(0, place("a1", "a"), place("a2", "a"));
        assert_eq!(chosen(&spares, &[part], &[("b2", 1), ("b1", 2)]), [(0, 11)]);
    }

    #[test]
    fn load_decides_between_equals_and_grows() {
        let spares = [
            spare(8, "b1", "b"),
            spare(9, "b2", "b"),
            spare(10, "b2", "b"),
        ];
        let from = |worker| need(worker, place("a1", "a"), place("c1", "c"));
        assert_eq!(
            chosen(&spares, &[from(0)], &[("b1", 2), ("b2", 1)]),
            [(0, 9)]
        );
        assert_eq!(
            chosen(
                &spares,
                &[from(0), from(1), from(2)],
                &[("b1", 0), ("b2", 0)]
            ),
            [(0, 8), (1, 9), (2, 10)]
        );
    }

    #[test]
    fn every_failed_domain_is_avoided_by_every_part() {
        let spares = [
            spare(8, "a1", "a"),
            spare(9, "b1", "b"),
            spare(10, "c1", "c"),
        ];
        let needs = [
            need(0, place("a2", "a"), place("b2", "b")),
            need(1, place("b2", "b"), place("a2", "a")),
        ];
        assert_eq!(chosen(&spares, &needs, &[]), [(0, 10), (1, 8)]);
    }
}
