//! ckptd's connections and service under clients that send anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_daemon::hostile::drive(bytes));
