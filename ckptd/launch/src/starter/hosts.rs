//! Hosts of a job in the formats of Open MPI's mpirun.
//!
//! A list is `a:2,b:2`; a file has lines such as `a slots=2`.

use crate::Error;
use std::net::Ipv6Addr;
use std::path::Path;
use understudy_numbers::Guardian;

/// A host and its number of slots for processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub name: String,
    pub slots: u32,
}

/// Order in which ranks are assigned to hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RankOrder {
    /// Fills the slots of a host before those of the next host.
    #[default]
    Slot,
    /// Assigns one rank to each host in turn.
    Node,
}

impl std::str::FromStr for RankOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<RankOrder, String> {
        match text {
            "slot" => Ok(RankOrder::Slot),
            "node" => Ok(RankOrder::Node),
            _ => Err("ranks are distributed by `slot` or by `node`".into()),
        }
    }
}

/// Parses the hosts of `--host`; a name without a number adds one slot.
///
/// # Errors
/// [`Error::Hosts`].
pub fn hosts_of_list(list: &str) -> Result<Vec<Host>, Error> {
    let mut hosts = Vec::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        let (name, slots) = split_host(item);
        add(&mut hosts, name, slots)?;
    }
    Ok(hosts)
}

/// Reads the hosts of a file.
///
/// # Errors
/// [`Error::Hosts`], [`Error::System`].
pub fn hosts_of_file(path: &Path) -> Result<Vec<Host>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::system(path.display().to_string()))?;
    hosts_of_text(&text)
}

/// Parses the content of a file of hosts.
///
/// # Errors
/// [`Error::Hosts`].
pub fn hosts_of_text(text: &str) -> Result<Vec<Host>, Error> {
    let mut hosts = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let (name, given) = split_host(first);
        let slots = words.find_map(|word| word.strip_prefix("slots="));
        add(&mut hosts, name, slots.unwrap_or(given))?;
    }
    Ok(hosts)
}

/// Splits `a:2`, `[fd00::1]:2`, `a` or `fd00::1` into a name and a number of slots.
fn split_host(item: &str) -> (&str, &str) {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    let unbracketed = item.strip_prefix('[');
    let alone = unbracketed.and_then(|item| item.strip_suffix(']'));
    match unbracketed.and_then(|item| item.split_once("]:")) {
        Some((name, slots)) if is_address(name) => (name, slots),
        _ if is_address(alone.unwrap_or(item)) => (alone.unwrap_or(item), "1"),
        _ => item.split_once(':').unwrap_or((item, "1")),
    }
}

pub(super) fn add(hosts: &mut Vec<Host>, name: &str, slots: &str) -> Result<(), Error> {
    let wrong = || {
        Error::Hosts(format!(
            "`{name}:{slots}` is not a host with a number of slots"
        ))
    };
    // The agent would interpret a name with a leading hyphen as an option.
    if name.is_empty() || name.starts_with('-') {
        return Err(wrong());
    }
    let slots: u32 = slots.parse().map_err(|_| wrong())?;
    match hosts.iter_mut().find(|host| host.name == name) {
        Some(host) => host.slots = host.slots.checked_add(slots).ok_or_else(wrong)?,
        None => hosts.push(Host {
            name: name.to_owned(),
            slots,
        }),
    }
    Ok(())
}

/// Returns the number of slots of all hosts, at most `u32::MAX`.
pub fn total_slots(hosts: &[Host]) -> u32 {
    let slots = hosts.iter().map(|host| host.slots);
    slots.fold(0, u32::saturating_add)
}

/// Assigns ranks to hosts; returns the ranks of each host.
///
/// # Errors
/// [`Error::Slots`].
pub fn assign_ranks(
    hosts: &[Host],
    size: u32,
    rank_order: RankOrder,
) -> Result<Vec<Vec<Guardian>>, Error> {
    let slots = total_slots(hosts);
    if slots < size {
        return Err(Error::Slots { slots, size });
    }
    let mut slots_in_order: Vec<(u32, usize)> = Vec::new();
    for (host_index, host) in hosts.iter().enumerate() {
        slots_in_order.extend((0..host.slots.min(size)).map(|round| (round, host_index)));
    }
    match rank_order {
        RankOrder::Slot => {}
        RankOrder::Node => slots_in_order.sort_unstable(),
    }
    let mut ranks = vec![Vec::new(); hosts.len()];
    for (rank, (_, host_index)) in (0..size).zip(slots_in_order) {
        ranks[host_index].push(Guardian(rank));
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(of: &[(&str, u32)]) -> Vec<Host> {
        let host = |&(name, slots): &(&str, u32)| Host {
            name: name.into(),
            slots,
        };
        of.iter().map(host).collect()
    }

    #[test]
    fn hosts_are_those_of_mpirun() {
        assert_eq!(
            hosts_of_list("a:2,b").expect("good"),
            hosts(&[("a", 2), ("b", 1)])
        );
        assert_eq!(
            hosts_of_list("a,b,a").expect("good"),
            hosts(&[("a", 2), ("b", 1)])
        );
        assert_eq!(
            hosts_of_list("fd00::1,[fd00::2],[fd00::3]:2").expect("good"),
            hosts(&[("fd00::1", 1), ("fd00::2", 1), ("fd00::3", 2)])
        );
        assert!(hosts_of_list("[fd00::3]:").is_err() && hosts_of_list("[a]:2x").is_err());
        assert!(
            hosts_of_list("a:two").is_err()
                && hosts_of_list("-oProxyCommand=x").is_err()
                && hosts_of_list(":2").is_err()
        );
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(
            file.path(),
            "# today\na slots=2 max_slots=4\n\nb\nc:3 # two are down\n",
        )
        .expect("written");
        assert_eq!(
            hosts_of_file(file.path()).expect("good"),
            hosts(&[("a", 2), ("b", 1), ("c", 3)])
        );
    }

    #[test]
    fn ranks_fill_hosts_or_are_dealt_out() {
        let hosts = hosts(&[("a", 2), ("b", 1), ("c", 3)]);
        let numbers =
            |ranks: Vec<Guardian>| ranks.into_iter().map(|rank| rank.0).collect::<Vec<_>>();
        let dealt = |rank_order| {
            assign_ranks(&hosts, 5, rank_order)
                .expect("room")
                .into_iter()
                .map(numbers)
                .collect::<Vec<_>>()
        };
        assert_eq!(dealt(RankOrder::Slot), [vec![0, 1], vec![2], vec![3, 4]]);
        assert_eq!(dealt(RankOrder::Node), [vec![0, 3], vec![1], vec![2, 4]]);
        assert!(matches!(
            assign_ranks(&hosts, 7, RankOrder::Slot),
            Err(Error::Slots { slots: 6, size: 7 })
        ));
    }

    /// Large numbers of slots are accepted unless the sum of a host overflows.
    ///
    /// Regression test: sums of slots overflowed, and a list had an element for each slot.
    #[test]
    fn numbers_of_slots_may_be_large_but_their_sum_is_checked() {
        let most = u32::MAX;
        assert!(hosts_of_list(&format!("a:{most},a:1")).is_err());
        let hosts = hosts_of_list(&format!("a:{most},b:{most}")).expect("good");
        let ranks = assign_ranks(&hosts, 4, RankOrder::Node).expect("room");
        assert_eq!(
            ranks,
            [[0, 2].map(Guardian), [1, 3].map(Guardian)].map(Vec::from)
        );
        let ranks = assign_ranks(&hosts, 2, RankOrder::Slot).expect("room");
        assert_eq!(ranks, [vec![Guardian(0), Guardian(1)], Vec::new()]);
    }
}
