//! Sizes of a journal by procedure and call site, for the event files.

use super::address_names;
use super::clock_sources;
use super::format::{END_SLOT, Site};
use crate::generated::Proc;
use std::collections::HashMap;
use understudy_formats::events::{Amount, JournalCalls, JournalRow, Worker};

/// Number of call sites that are listed; all other sites are added up.
const MAX_LISTED_SITES: usize = 40;

/// Calls and bytes by site.
#[derive(Default)]
pub struct SiteSizes {
    sites: HashMap<Site, Amount>,
}

impl SiteSizes {
    /// Counts a call.
    pub fn count_call(&mut self, site: Site) {
        self.sites.entry(site).or_default().count += 1;
    }

    /// Adds bytes that the journal takes for a call.
    pub fn add_bytes(&mut self, site: Site, bytes: usize) {
        self.sites.entry(site).or_default().bytes += bytes as u64;
    }

    /// Returns the table for a journal with these totals.
    ///
    /// `stored` is the length in bytes of the compressed journal, if it is stored.
    pub fn table(&self, worker: Worker, journal: Amount, stored: Option<u64>) -> JournalCalls {
        let mut sites: Vec<(Site, Amount)> = self
            .sites
            .iter()
            .map(|(&site, &calls)| (site, calls))
            .collect();
        sites.sort_by_key(|&(site, calls)| (std::cmp::Reverse((calls.bytes, calls.count)), site));
        let (listed, rest) = sites.split_at(sites.len().min(MAX_LISTED_SITES));
        let mut others = Amount::default();
        rest.iter().for_each(|(_, calls)| others += *calls);
        let addresses: Vec<u64> = listed.iter().map(|((_, address), _)| *address).collect();
        let names = address_names::names(&addresses).into_iter();
        let rows = listed
            .iter()
            .zip(names)
            .map(|(&((slot, _), calls), place)| JournalRow {
                procedure: name(slot).into(),
                place: if slot == END_SLOT {
                    String::new()
                } else {
                    place
                },
                calls,
            });
        JournalCalls {
            worker,
            journal,
            kept: stored,
            rows: rows.collect(),
            other_places: rest.len() as u64,
            others,
        }
    }
}

fn name(slot: u16) -> &'static str {
    match Proc::from_slot(slot.into()) {
        Some(procedure) => procedure.name(),
        None if slot == END_SLOT => "receives that were complete at the last cut",
        None => clock_sources::name_of(slot.into()).unwrap_or("?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_biggest_places_are_listed() {
        let mut sizes = SiteSizes::default();
        for place in 0..50 {
            sizes.count_call((1, place));
            sizes.add_bytes((1, place), place as usize + 1);
        }
        // Call site p has p + 1 bytes.
        let table = sizes.table(
            Worker(3),
            Amount {
                count: 50,
                bytes: 1275,
            },
            Some(9),
        );
        assert_eq!((table.rows.len(), table.other_places), (40, 10));
        let first = Amount {
            count: 1,
            bytes: 50,
        };
        assert_eq!(
            (table.rows[0].calls, table.others),
            (
                first,
                Amount {
                    count: 10,
                    bytes: 55
                }
            )
        );
        let listed: u64 = table.rows.iter().map(|row| row.calls.bytes).sum();
        assert_eq!(listed + table.others.bytes, table.journal.bytes);
    }
}
