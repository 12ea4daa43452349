//! Decision for `UNDERSTUDY_STATIC=auto`: whether replicas omit static data.
//!
//! Each worker decides after the trial replay of its phase.

use super::replay_settings::replays;
use crate::Runtime;
use crate::copies::Script;
use crate::{events, journal, sys, told, world};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::PAGE_SIZE;
use understudy_settings::Static;

fn is_open(rt: &Runtime) -> bool {
    rt.rehearsal.is_open.get()
}

/// Decides against replays if no trial replay can follow.
///
/// `has_none` is true if there is no replay plan.
pub fn look(rt: &Runtime, has_none: bool) {
    if is_open(rt) && has_none && !journal::is_under_way(rt) {
        decide(rt, false, "the set-up phase was not recorded to its end");
    }
}

/// Starts the decision at the begin of the set-up phase.
pub fn begin(rt: &Runtime) {
    rt.rehearsal
        .is_open
        .set(told::config().static_data == Static::Auto);
    if is_open(rt) && !replays() {
        decide(rt, false, "parity is computed from all data");
    }
}

/// Decides whether replicas omit the pages that a trial replay has made right.
///
/// `different` are the pages of the replay plan that differ; `None` if the trial replay failed.
pub fn accept(rt: &Runtime, script: &Script, different: Option<&[u64]>) -> bool {
    if !is_open(rt) {
        return different.is_some();
    }
    let pages = script.page_count();
    let rebuilt = different.map(|different| pages - different.len() as u64);
    let is_worth_it = rebuilt.is_some_and(|rebuilt| {
        2 * rebuilt >= pages && rebuilt * PAGE_SIZE as u64 > script.journal() + script.inputs()
    });
    let why = match rebuilt {
        Some(rebuilt) => format!(
            "{} of {pages} pages differ in a trial replay; the set-up log has {} bytes",
            pages - rebuilt,
            script.journal()
        ),
        None => "the trial replay has failed".into(),
    };
    decide(rt, is_worth_it, &why);
    is_worth_it
}

fn decide(rt: &Runtime, replay: bool, why: &str) {
    rt.rehearsal.is_open.set(false);
    let way = if replay { "replay" } else { "image" };
    events::emit(Kind::StaticData {
        worker: world::worker(rt),
        way: way.into(),
        reason: why.into(),
    });
    if world::is_first_worker(rt) {
        sys::say(message::static_way(way, why));
    } else {
        log::info!("UNDERSTUDY_STATIC=auto uses {way} ({why})");
    }
}
