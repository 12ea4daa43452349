//! Messages on the sockets between ranks, guardians and node managers of a job.
#![no_main]

use understudy_fuzz::{line_messages, recording_allocator};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| line_messages::drive(bytes));
    assert!(got <= line_messages::MAX_ALLOCATION, "{got} bytes at once");
});
