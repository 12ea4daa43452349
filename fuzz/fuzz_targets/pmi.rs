//! Servers of PMI-1 on two nodes, with ranks that send arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| understudy_pmi::hostile::drive(bytes));
