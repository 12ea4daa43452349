//! Random bytes through what `make fuzz` drives for longer and with more insight: nothing panics, and nothing allocates what bytes only claim.

use fuzz::{epochs, events, watch};
use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

fn limited(most: usize, act: impl FnOnce()) -> Result<(), TestCaseError> {
    let got = watch::largest(act);
    prop_assert!(got <= most, "{got} bytes at once");
    Ok(())
}

/// Small numbers make up most of what a decoder takes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![3 => 0u8..8, 1 => any::<u8>()], 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages(bytes in bytes()) {
        limited(ckptd::wire::DECODE_LIMIT, || fuzz::messages(&bytes))?;
    }

    #[test]
    fn event_files(bytes in bytes()) {
        limited(events::MOST, || events::drive(&bytes))?;
    }

    #[test]
    fn epochs_on_disk(bytes in bytes()) {
        limited(epochs::MOST, || epochs::drive(&bytes))?;
    }
}
