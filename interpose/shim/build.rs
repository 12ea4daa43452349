//! Build script: the shim links libc only and is found by its soname.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_shim.so");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-link-lib=dylib=c");
    println!("cargo:rerun-if-changed=build.rs");
}
