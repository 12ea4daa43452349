//! Jobs that cannot be protected and stop at once.

use crate::print_message::print_message_to;
use crate::streams::Streams;
use std::fmt::Display;
use understudy_catalogue::exit_status;
use understudy_settings::refusal;

/// Reports that a job of [`crate::starter`] stops before it has begun.
///
/// Returns its exit status.
pub fn refuse(why: impl Display, streams: &Streams) -> i32 {
    print_message_to(
        &streams.stderr,
        refusal::message(why, refusal::stops(false, false)),
    );
    exit_status::REFUSED
}
