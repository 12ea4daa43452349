//! ckptd's connections and service under clients that send anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ckptd::daemon::hostile::drive(bytes));
