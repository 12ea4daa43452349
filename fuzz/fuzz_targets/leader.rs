//! The leader of a job under nodes that report anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_launch::hostile::report(bytes));
