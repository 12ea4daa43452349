//! Messages of the launcher's processes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_launch::hostile::decode_messages(bytes));
