//! A trial replay of the set-up phase as a row of a table.

use understudy_formats::events::Kind;
use understudy_report::{bytes, count};

/// Returns the row of a trial replay; `None` for another event.
pub fn replay_row(kind: &Kind) -> Option<[String; 4]> {
    let Kind::TrialReplay {
        worker,
        journal,
        pages,
        different,
        places,
        failure,
        ..
    } = kind
    else {
        return None;
    };
    let equal = pages.saturating_sub(*different);
    Some([
        worker.to_string(),
        bytes(*journal),
        failure.clone().unwrap_or_else(|| {
            format!(
                "{equal} of {} can be rebuilt",
                count(*pages, "page", "pages")
            )
        }),
        places.join(", "),
    ])
}
