//! Event files: reader, follower and report.
#![no_main]

use understudy_fuzz::{events, watch};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = watch::largest(|| events::drive(bytes));
    assert!(got <= events::MOST, "{got} bytes at once");
});
