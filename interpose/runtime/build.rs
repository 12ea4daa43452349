//! Sets the soname by which the library is found.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_runtime.so");
    println!("cargo:rerun-if-changed=build.rs");
}
