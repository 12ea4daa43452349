//! Sets the soname; the library needs nothing but libc.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_fortran.so");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-link-lib=dylib=c");
    println!("cargo:rerun-if-changed=build.rs");
}
