//! Decision for `UNDERSTUDY_STATIC=auto`: whether replicas omit static data.
//!
//! Each worker decides after the trial replay of its phase, or before if none is possible.

use super::replay_settings::replays;
use crate::Runtime;
use crate::copies::ReplayPlan;
use crate::{events, journal, process_info, system_calls, world};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_settings::StaticData;

fn is_undecided(rt: &Runtime) -> bool {
    rt.static_data.is_undecided.get()
}

/// Decides against replays if no trial replay can follow.
pub fn check_possible(rt: &Runtime, has_plan: bool) {
    if is_undecided(rt) && !has_plan && !journal::is_under_way(rt) {
        decide(rt, false, "the set-up phase was not recorded to its end");
    }
}

/// Starts the decision at the beginning of the set-up phase.
pub fn begin(rt: &Runtime) {
    rt.static_data
        .is_undecided
        .set(process_info::config().static_data == StaticData::Auto);
    if is_undecided(rt) && !replays() {
        decide(rt, false, "parity is computed from all data");
    }
}

/// Returns true if replicas omit the pages that a trial replay has rebuilt.
///
/// `different` are the pages of the replay plan that differ after the trial replay; `None` if the
/// trial replay failed. In the mode `auto`, replicas omit the rebuilt pages if these are at least
/// half of the plan's pages, and take more memory than the plan's journal and inputs.
pub fn decide_on_trial(rt: &Runtime, plan: &ReplayPlan, different: Option<&[u64]>) -> bool {
    if !is_undecided(rt) {
        return different.is_some();
    }
    let pages = plan.page_count();
    let rebuilt = different.map(|different| pages - different.len() as u64);
    let is_worth_it = rebuilt.is_some_and(|rebuilt| {
        2 * rebuilt >= pages
            && rebuilt * PAGE_SIZE as u64 > plan.journal_bytes() + plan.input_bytes()
    });
    let why = match rebuilt {
        Some(rebuilt) => format!(
            "{} of {pages} pages differ in a trial replay; the set-up log has {} bytes",
            pages - rebuilt,
            plan.journal_bytes()
        ),
        None => "the trial replay has failed".into(),
    };
    decide(rt, is_worth_it, &why);
    is_worth_it
}

fn decide(rt: &Runtime, use_replays: bool, why: &str) {
    rt.static_data.is_undecided.set(false);
    let method = if use_replays { "replay" } else { "image" };
    events::emit(Kind::StaticData {
        worker: world::worker(rt),
        way: method.into(),
        reason: why.into(),
    });
    if world::is_first_worker(rt) {
        system_calls::print_message(message::static_way(method, why));
    } else {
        log::info!("UNDERSTUDY_STATIC=auto uses {method} ({why})");
    }
}
