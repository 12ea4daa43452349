//! Messages between node managers, the leader, the starter and its hosts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_launch::hostile::decode_messages(bytes));
