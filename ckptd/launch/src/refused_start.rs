//! Jobs that cannot be protected and stop at once.

use crate::Error;
use crate::print_message::print_message_to;
use crate::streams::Streams;
use understudy_settings::refusal;

/// Exit status of a job that cannot be protected and must be (EX_CONFIG of sysexits.h).
pub const EXIT_REFUSED: i32 = 78;

/// Reports that a job of [`crate::starter`] stops before it has begun.
///
/// Returns its exit status.
pub fn refuse(why: &Error, streams: &Streams) -> i32 {
    print_message_to(
        &streams.stderr,
        format_args!("{why}; {}", refusal::outcome(refusal::stops(false, false))),
    );
    EXIT_REFUSED
}
