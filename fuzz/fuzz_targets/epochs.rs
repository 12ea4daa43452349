//! Files of the disk level.
#![no_main]

use understudy_fuzz::{epochs, watch};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = watch::largest(|| epochs::drive(bytes));
    assert!(got <= epochs::MOST.max(4 * bytes.len()), "{got} bytes at once");
});
