//! Deduplication queries to buddies (`UNDERSTUDY_SHARED_PAGES`).
//!
//! A query costs a message to the buddy and a message back before any page is sent. By default,
//! only a sample of the pages is therefore queried from time to time, and all pages only if the
//! buddy has enough pages of the sample.

use super::buddies::buddies_by_layer;
use super::checkpoint_parts::CheckpointParts;
use super::replica::EncodedState;
use super::transfer::Transfer;
use crate::{fault, process_info, world};
use std::mem::replace;
use understudy_image::deduplication::{self, PageQuery};
use understudy_image::helper::{Helper, HelperTask};
use understudy_image::image_delta::Delta;
use understudy_image::pages::{self, PageRun};
use understudy_image::sums;
use understudy_image::wire::SendOptions;
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_policy::query_policy::{PageQueryKind, QueryHistory};
use understudy_settings::SharedPages;

/// Pages in a sample.
const SAMPLE_PAGES: u64 = 64;

/// Progress of the query to one buddy.
#[derive(Debug, PartialEq, Eq)]
enum QueryProgress {
    /// The query is to be sent.
    Due(PageQueryKind),
    /// Pages that have been queried.
    Sent { pages: Vec<PageRun>, is_all: bool },
    /// The whole image is to be sent instead, to a buddy without a replica.
    WholeImage,
    /// No further query.
    Over,
}

/// Queries about one checkpoint, by layer.
pub struct PageQueries {
    layers: Vec<QueryProgress>,
    /// Number of pages that each buddy has itself.
    equal_pages: Vec<u64>,
    /// Computation of all pages' identities, and its result.
    identifying: Option<HelperTask>,
    identities: Option<Vec<u64>>,
}

impl PageQueries {
    /// Determines the queries to make for a checkpoint.
    pub fn determine(rt: &Runtime, delta: &Delta, parts: &CheckpointParts) -> PageQueries {
        let setting = match world::get(rt).redundancy.is_parity() {
            // Only parity is sent, and its pages do not equal any worker's pages.
            true => SharedPages::Never,
            false => process_info::config().shared_pages,
        };
        let question = |history: &QueryHistory| {
            let question = history.question(setting, delta.epoch(), delta.page_count());
            match question {
                PageQueryKind::Nothing => QueryProgress::Over,
                question => QueryProgress::Due(question),
            }
        };
        let progress =
            |(layer, history): (usize, &QueryHistory)| match parts.whole_layers & (1 << layer) {
                0 => question(history),
                _ => QueryProgress::WholeImage,
            };
        let histories = parts.query_histories.iter().enumerate();
        let layers: Vec<QueryProgress> = histories.map(progress).collect();
        PageQueries {
            equal_pages: vec![0; layers.len()],
            layers,
            identifying: None,
            identities: None,
        }
    }

    /// True if nothing about this layer is to be sent or awaited.
    pub fn is_over(&self, layer: usize) -> bool {
        self.layers
            .get(layer)
            .is_none_or(|progress| *progress == QueryProgress::Over)
    }

    /// Returns the number of pages that the buddy of a layer has itself.
    pub fn equal_pages(&self, layer: usize) -> u64 {
        self.equal_pages.get(layer).copied().unwrap_or(0)
    }

    /// Sends queries, receives answers, and sends the pages that the buddies do not have.
    ///
    /// Sends whole images, too. Advances as far as possible.
    ///
    /// The checksums must have been stored.
    pub fn advance(
        &mut self,
        rt: &Runtime,
        transfers: &mut [Transfer],
        (delta, state): (&Delta, &EncodedState),
        parts: &mut CheckpointParts,
    ) -> mpi::Result<()> {
        if (0..self.layers.len()).all(|layer| self.is_over(layer)) {
            return Ok(());
        }
        for ((layer, transfer), (to, _)) in
            transfers.iter_mut().enumerate().zip(buddies_by_layer(rt))
        {
            let comm = world::private(rt);
            let query = match self.layers.get(layer) {
                None | Some(QueryProgress::Over | QueryProgress::Due(PageQueryKind::Nothing)) => {
                    continue;
                }
                Some(QueryProgress::Due(PageQueryKind::Sample)) => {
                    let runs = deduplication::sample(delta.runs(), SAMPLE_PAGES);
                    let identities = parts.store.identities(&runs);
                    Some((PageQuery::new(&runs, identities, parts.store), false))
                }
                Some(QueryProgress::Due(PageQueryKind::All)) => {
                    self.identities(delta, parts).map(|identities| {
                        let wanted = PageQuery::new(delta.runs(), identities.clone(), parts.store);
                        (wanted, true)
                    })
                }
                Some(QueryProgress::Sent { .. }) => None,
                Some(QueryProgress::WholeImage) => {
                    transfer.set_image(&parts.own.image.after(delta), state.clone(), parts.store);
                    transfer.ship(comm, to)?;
                    self.layers[layer] = QueryProgress::Over;
                    continue;
                }
            };
            if let Some((wanted, is_all)) = query {
                transfer.send_query(comm, to, &wanted)?;
                fault::point("ask.begin", delta.epoch());
                let pages = wanted.pages().to_vec();
                self.layers[layer] = QueryProgress::Sent { pages, is_all };
            }
            let Some(answer) = transfer.take_answer()? else {
                continue;
            };
            let QueryProgress::Sent { pages, is_all } =
                replace(&mut self.layers[layer], QueryProgress::Over)
            else {
                continue;
            };
            let theirs = deduplication::decode_answer(&pages, &answer);
            let counts = [&pages, &theirs].map(|pages| pages::total(pages));
            parts.query_histories[layer].record_answer(delta.epoch(), delta.page_count(), counts);
            if parts.query_histories[layer].is_worthwhile()
                && !is_all
                && counts[0] < delta.page_count()
            {
                self.layers[layer] = QueryProgress::Due(PageQueryKind::All);
                continue;
            }
            self.equal_pages[layer] = counts[1];
            let outgoing = delta.outgoing(theirs, parts.store, SendOptions::default());
            let sums = parts.store.sums(&outgoing.runs);
            transfer.set_outgoing(outgoing, state.clone());
            transfer.set_sums(sums);
            transfer.ship(comm, to)?;
        }
        Ok(())
    }

    fn identities(&mut self, delta: &Delta, parts: &CheckpointParts) -> Option<&Vec<u64>> {
        if self.identities.is_none() {
            let start = || {
                parts
                    .helper
                    .start(Box::new(sums::identities_work(delta.runs(), parts.store)))
            };
            let task = self.identifying.get_or_insert_with(start);
            if !parts.helper.poll(task) {
                return None;
            }
            self.identities = self.identifying.take().map(|task| parts.helper.wait(task));
        }
        self.identities.as_ref()
    }

    /// Ends all queries, and waits for the helper thread.
    pub fn finish(self, helper: &Helper) {
        if let Some(task) = self.identifying {
            helper.wait(task);
        }
    }
}

/// Answers the queries of other workers about their pages in this worker's image after `delta`.
///
/// The checksums of the delta must have been stored.
pub fn answer_queries(
    transfers: &mut [Transfer],
    delta: &Delta,
    parts: &mut CheckpointParts,
) -> mpi::Result<()> {
    for transfer in transfers {
        if let Some(wanted) = transfer.take_query() {
            let found = wanted.find_in(&parts.own.image.after(delta), parts.store);
            fault::point("ask.end", delta.epoch());
            transfer.send_answer(wanted.encode_answer(&found), found, parts.store)?;
        }
    }
    Ok(())
}
