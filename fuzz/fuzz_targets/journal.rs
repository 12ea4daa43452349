//! Set-up logs.
#![no_main]

use understudy_fuzz::recording_allocator;

#[path = "../src/journal_reader.rs"]
mod journal_reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let got = recording_allocator::largest(|| journal_reader::drive(bytes));
    assert!(
        got <= journal_reader::max_allocation(bytes.len()),
        "{got} bytes at once"
    );
});
