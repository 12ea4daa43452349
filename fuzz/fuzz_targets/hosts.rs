//! Lists and files of hosts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_launch::hostile::list_hosts(bytes));
