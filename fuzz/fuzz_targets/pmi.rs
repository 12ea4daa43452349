//! Servers of PMI-1 on two nodes under ranks that send anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_pmi::hostile::drive(bytes));
