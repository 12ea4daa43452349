//! Sets the soname and the linker options; the library is linked with libc only.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunderstudy_fortran.so");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-link-lib=dylib=c");
    println!("cargo:rerun-if-changed=build.rs");
}
