//! Generates the dispatch table and the declarations of the real MPI.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=src/calls");
    println!("cargo:rerun-if-changed=build.rs");
    let implemented = implemented();
    let names: Vec<&str> = implemented.iter().map(String::as_str).collect();
    let write = |file: &str, text: String| std::fs::write(out.join(file), text).expect("OUT_DIR is writable");
    write("dispatch.rs", understudy_table::runtime_dispatch(&names));
    write("real_types.rs", understudy_table::real_types());
    write("virt_types.rs", understudy_table::virt_types());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_runtime.so");
}

/// The procedures that `src/calls/` has a handler for: every `extern "C" fn MPI_…` or `MPIX_…` there.
fn implemented() -> Vec<String> {
    let mut names = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir("src/calls")
        .expect("src/calls exists")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        for line in text.lines() {
            let Some((_, rest)) = line.split_once("extern \"C\" fn MPI") else {
                continue;
            };
            let end = rest.find(['(', '<']).unwrap_or(rest.len());
            let name = format!("MPI{}", &rest[..end]);
            if understudy_table::table().procedure(&name).is_some() {
                names.push(name);
            }
        }
    }
    names
}
