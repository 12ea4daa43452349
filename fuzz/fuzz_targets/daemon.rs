//! Connections and service of the daemon, with clients that send arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_daemon::hostile::drive(bytes));
