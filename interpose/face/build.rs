//! Sets the soname and the linker options of the preload library.

fn main() {
    // The soname satisfies the program's dependency on libmpi, so ld.so never loads the real libmpi
    // into the program's namespace.
    let has_feature =
        |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let soname = match (
        has_feature("STANDARD"),
        has_feature("DEBIAN"),
        has_feature("MPICH"),
    ) {
        (true, ..) => "libmpi_abi.so.1",
        (_, true, _) => "libmpich.so.12",
        (.., true) => "libmpi.so.12",
        _ => "libmpi.so.40",
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // The constructor runs before that of any other library, including the program's libc.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-link-lib=dylib=c");
    println!("cargo:rerun-if-changed=build.rs");
}
