//! The decoder of messages between ckptd and its clients.
#![no_main]

use understudy_fuzz::{messages, recording_allocator};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| messages(bytes));
    assert!(got <= understudy_wire::DECODE_LIMIT, "{got} bytes at once");
});
