//! Generates the declarations of the real MPI library, and what is known of other ABIs, from the tables.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    let write = |file: &str, text: String| {
        std::fs::write(out.join(file), text).expect("OUT_DIR is writable")
    };
    write("real.rs", understudy_table::real_procedures());
    write("real_types.rs", understudy_table::real_types());
    write("abis.rs", understudy_table::abis());
    write("edges.rs", understudy_table::edges());
    // For tests/header.rs.
    write("header.rs", understudy_table::header_comparison());
}
