//! Settings, fault points, warnings of failures, and addresses of daemons.
#![no_main]

use understudy_fuzz::{recording_allocator, settings_text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| settings_text::drive(bytes));
    assert!(
        got <= settings_text::max_allocation(bytes.len()),
        "{got} bytes at once"
    );
});
