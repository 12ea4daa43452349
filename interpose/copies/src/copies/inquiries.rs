//! Deduplication queries to buddies (`UNDERSTUDY_SHARED_PAGES`).
//!
//! A query takes a message to the buddy and one back before any page is sent. So by default a
//! sample is queried now and then, and all pages only if the sample has found enough equal ones.

use super::buddies::buddies;
use super::copy::State;
use super::hands::Hands;
use super::transfer::Transfer;
use crate::{fault, told, world};
use std::mem::replace;
use understudy_image::alike::{self, Wanted};
use understudy_image::epoch::Delta;
use understudy_image::helper::{Helper, Task};
use understudy_image::runs::{self, PageRun};
use understudy_image::sums;
use understudy_image::wire::SendOptions;
use understudy_job::Runtime;
use understudy_mpi as mpi;
use understudy_policy::habit::{Habit, Question};
use understudy_settings::SharedPages;

/// Pages in a sample.
const SAMPLE: u64 = 64;

/// Progress of the query to one buddy.
#[derive(Debug, PartialEq, Eq)]
enum Inquiry {
    /// The query is to be sent.
    Due(Question),
    /// Pages that have been queried.
    Asked { pages: Vec<PageRun>, is_all: bool },
    /// No further query.
    Over,
}

/// Queries about one checkpoint, by layer.
pub struct Inquiries {
    layers: Vec<Inquiry>,
    /// Number of pages that the buddy has itself.
    alike: Vec<u64>,
    /// Computation of all pages' identities, and its result.
    identifying: Option<Task>,
    identities: Option<Vec<u64>>,
}

impl Inquiries {
    /// Determines the queries to make for a checkpoint.
    pub fn due(rt: &Runtime, delta: &Delta, habits: &[Habit]) -> Inquiries {
        let setting = match world::get(rt).redundancy.is_parity() {
            // Parity is sent, which consists of no worker's pages.
            true => SharedPages::Never,
            false => told::config().shared_pages,
        };
        let inquiry =
            |habit: &Habit| match habit.question(setting, delta.epoch(), delta.page_count()) {
                Question::Nothing => Inquiry::Over,
                question => Inquiry::Due(question),
            };
        Inquiries {
            layers: habits.iter().map(inquiry).collect(),
            alike: vec![0; habits.len()],
            identifying: None,
            identities: None,
        }
    }

    /// True if all pages of a layer may be sent without a query.
    pub fn is_over(&self, layer: usize) -> bool {
        self.layers
            .get(layer)
            .is_none_or(|inquiry| *inquiry == Inquiry::Over)
    }

    /// Returns the number of pages that the buddy of a layer has itself.
    pub fn alike(&self, layer: usize) -> u64 {
        self.alike.get(layer).copied().unwrap_or(0)
    }

    /// Advances as far as possible: sends queries, receives answers, and sends the other pages.
    ///
    /// The checksums must have been stored.
    pub fn advance(
        &mut self,
        rt: &Runtime,
        transfers: &mut [Transfer],
        (delta, state): (&Delta, &State),
        hands: &mut Hands,
    ) -> mpi::Result<()> {
        if (0..self.layers.len()).all(|layer| self.is_over(layer)) {
            return Ok(());
        }
        for ((layer, transfer), (to, _)) in transfers.iter_mut().enumerate().zip(buddies(rt)) {
            let comm = world::private(rt);
            let asked = match self.layers.get(layer) {
                None | Some(Inquiry::Over | Inquiry::Due(Question::Nothing)) => continue,
                Some(Inquiry::Due(Question::Sample)) => {
                    let runs = alike::sample(delta.runs(), SAMPLE);
                    let identities = hands.store.identities(&runs);
                    Some((Wanted::new(&runs, identities, hands.store), false))
                }
                Some(Inquiry::Due(Question::All)) => {
                    self.identities(delta, hands).map(|identities| {
                        let wanted = Wanted::new(delta.runs(), identities.clone(), hands.store);
                        (wanted, true)
                    })
                }
                Some(Inquiry::Asked { .. }) => None,
            };
            if let Some((wanted, is_all)) = asked {
                transfer.ask(comm, to, &wanted)?;
                fault::point("ask.begin", delta.epoch());
                let pages = wanted.pages().to_vec();
                self.layers[layer] = Inquiry::Asked { pages, is_all };
            }
            let Some(answer) = transfer.take_answer()? else {
                continue;
            };
            let Inquiry::Asked { pages, is_all } = replace(&mut self.layers[layer], Inquiry::Over)
            else {
                continue;
            };
            let theirs = alike::found(&pages, &answer);
            let counts = [&pages, &theirs].map(|pages| runs::total(pages));
            hands.habits[layer].note(delta.epoch(), delta.page_count(), counts);
            if hands.habits[layer].is_worth() && !is_all && counts[0] < delta.page_count() {
                self.layers[layer] = Inquiry::Due(Question::All);
                continue;
            }
            self.alike[layer] = counts[1];
            let outgoing = delta.outgoing(theirs, hands.store, SendOptions::default());
            let sums = hands.store.sums(&outgoing.runs);
            transfer.give(outgoing, state.clone());
            transfer.sums_before(sums);
            transfer.ship(comm, to)?;
        }
        Ok(())
    }

    fn identities(&mut self, delta: &Delta, hands: &Hands) -> Option<&Vec<u64>> {
        if self.identities.is_none() {
            let start = || {
                hands
                    .helper
                    .start(Box::new(sums::identify(delta.runs(), hands.store)))
            };
            let task = self.identifying.get_or_insert_with(start);
            if !hands.helper.is_over(task) {
                return None;
            }
            self.identities = self.identifying.take().map(|task| hands.helper.end(task));
        }
        self.identities.as_ref()
    }

    /// Ends all queries, and waits for the helper thread.
    pub fn end(self, helper: &Helper) {
        if let Some(task) = self.identifying {
            helper.end(task);
        }
    }
}

/// Answers the queries of other workers about their pages in this worker's image after `delta`.
///
/// The checksums of the delta must have been stored.
pub fn answer(transfers: &mut [Transfer], delta: &Delta, hands: &mut Hands) -> mpi::Result<()> {
    for transfer in transfers {
        if let Some(wanted) = transfer.take_question() {
            let found = wanted.found_in(&hands.own.image.after(delta), hands.store);
            fault::point("ask.end", delta.epoch());
            transfer.answer(wanted.answer(&found), found, hands.store)?;
        }
    }
    Ok(())
}
