//! Checkpoint files of the disk level.
#![no_main]

use understudy_fuzz::{epoch_reader, recording_allocator};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| epoch_reader::drive(bytes));
    assert!(got <= epoch_reader::MAX_ALLOCATION.max(4 * bytes.len()), "{got} bytes at once");
});
