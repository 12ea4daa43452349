//! The leader of a job, with nodes that send arbitrary reports.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_launch::hostile::report(bytes));
