//! Random steps of clients and of time.

use proptest::collection::vec;
use proptest::prelude::*;

/// A step of a client or of time.
///
/// Numbers are taken modulo the number of objects.
#[derive(Debug, Clone)]
pub enum Step {
    Register {
        job: u8,
        rank: u8,
        maximum: u8,
        minimum: u8,
    },
    Beat {
        ticket: u8,
    },
    Lease {
        job: u8,
        workers: Vec<u8>,
        failed: u8,
        copy: u8,
    },
    /// Repetition of an earlier request.
    Repeat {
        request: u8,
    },
    GiveBack {
        lease: u8,
    },
    Play {
        ticket: u8,
    },
    Leave {
        ticket: u8,
    },
    Lost {
        ticket: u8,
    },
    Close {
        job: u8,
    },
    Pass {
        millis: u16,
    },
}

/// Returns the strategy for random steps.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5u8, 0..12u8, 1..8u8, 0..5u8).prop_map(|(job, rank, maximum, minimum)| Step::Register { job, rank, maximum, minimum }),
        6 => any::<u8>().prop_map(|ticket| Step::Beat { ticket }),
        3 => (0..5u8, vec(0..8u8, 0..4), any::<u8>(), any::<u8>())
            .prop_map(|(job, workers, failed, copy)| Step::Lease { job, workers, failed, copy }),
        2 => any::<u8>().prop_map(|request| Step::Repeat { request }),
        1 => any::<u8>().prop_map(|lease| Step::GiveBack { lease }),
        1 => any::<u8>().prop_map(|ticket| Step::Play { ticket }),
        1 => any::<u8>().prop_map(|ticket| Step::Leave { ticket }),
        1 => any::<u8>().prop_map(|ticket| Step::Lost { ticket }),
        1 => (0..5u8).prop_map(|job| Step::Close { job }),
        5 => (0..900u16).prop_map(|millis| Step::Pass { millis }),
    ]
}
