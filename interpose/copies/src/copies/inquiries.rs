//! Questions to holders for pages that they have themselves (`UNDERSTUDY_SHARED_PAGES`).
//!
//! An inquiry takes a message to the holder and one back before any page is sent, so by default a
//! sample is asked for now and then, and everything only where that finds something.

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

/// How far it has come at one holder.
#[derive(Debug, PartialEq, Eq)]
enum Inquiry {
    /// This is to be asked.
    Due(Question),
    /// These pages have been asked for.
    Asked { pages: Vec<PageRun>, is_all: bool },
    /// Nothing more is asked.
    Over,
}

/// What is asked about one checkpoint, by layer.
pub struct Inquiries {
    layers: Vec<Inquiry>,
    /// Pages that the holder has.
    alike: Vec<u64>,
    /// The making of all pages' identities, and these.
    identifying: Option<Task>,
    identities: Option<Vec<u64>>,
}

impl Inquiries {
    /// Those that are due.
    pub fn due(rt: &Runtime, delta: &Delta, habits: &[Habit]) -> Inquiries {
        let setting = match world::get(rt).redundancy.is_parity() {
            // What is sent are no pages of anybody.
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

    /// Whether everything is sent at once in a layer.
    pub fn is_over(&self, layer: usize) -> bool {
        self.layers
            .get(layer)
            .is_none_or(|inquiry| *inquiry == Inquiry::Over)
    }

    /// How many pages the holder of a layer has itself.
    pub fn alike(&self, layer: usize) -> u64 {
        self.alike.get(layer).copied().unwrap_or(0)
    }

    /// Goes as far as it can: asks, hears answers, and sends what the holders do not have. The
    /// checksums are noted.
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

    /// Nothing is under way any more.
    pub fn end(self, helper: &Helper) {
        if let Some(task) = self.identifying {
            helper.end(task);
        }
    }
}

/// Tells partners which of their pages this worker has in its own image after `delta`. Its
/// checksums are noted.
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
