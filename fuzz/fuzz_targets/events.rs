//! Event files: reader, follower and report.
#![no_main]

use understudy_fuzz::{event_reader, recording_allocator};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| event_reader::drive(bytes));
    assert!(got <= event_reader::MAX_ALLOCATION, "{got} bytes at once");
});
