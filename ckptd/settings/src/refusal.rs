//! Jobs that cannot be protected.

use super::settings_files::with_places;
use super::values::{Require, Restart, require, restart};
use std::fmt::Display;

/// Returns the reason why the job must stop, if it must.
///
/// `has_launcher` is true if the program could run without understudy. `is_split` is true if the
/// job has other nodes, which may protect their ranks: these would wait for ever for the ranks of
/// this node.
pub fn stops(has_launcher: bool, is_split: bool) -> Option<&'static str> {
    let set_to = |name| std::env::var(name).unwrap_or_default();
    let is_required = require(&set_to("UNDERSTUDY_REQUIRE")).is_ok_and(|it| it != Require::Never);
    let is_restart = restart(&set_to("UNDERSTUDY_RESTART")).is_ok_and(|it| it != Restart::Never);
    let reasons = [
        (is_required, "UNDERSTUDY_REQUIRE=1"),
        (!has_launcher, "ckptd launch runs nothing unprotected"),
        (is_restart, "UNDERSTUDY_RESTART=1"),
        (is_split, "its other nodes may not refuse"),
    ];
    reasons
        .into_iter()
        .find(|(holds, _)| *holds)
        .map(|(_, why)| why)
}

/// Returns the message about a job that cannot be protected, with the consequence.
///
/// `stops` is the reason why the job must stop, if it must.
pub fn message(reason: impl Display, stops: Option<&str>) -> String {
    let outcome = stops.map_or_else(
        || "the program runs unprotected".into(),
        |why| format!("the job stops ({why})"),
    );
    format!("{}; {outcome}", with_places(reason))
}
