//! Generates the dispatch table and its handlers.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    let write = |file: &str, text: String| {
        std::fs::write(out.join(file), text).expect("OUT_DIR is writable")
    };
    write("dispatch.rs", understudy_table::runtime_dispatch());
    write("outputs.rs", understudy_table::runtime_outputs());
    write("virt_types.rs", understudy_table::virt_types());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_runtime.so");
}
