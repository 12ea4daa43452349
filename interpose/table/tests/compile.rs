//! The generated sources compile where what they need is defined.
#![cfg(target_arch = "x86_64")]

use std::path::PathBuf;
use std::process::Command;
use understudy_table::{face_thunks, real_procedures, real_types, runtime_dispatch, virt_types};

/// Runs the compiler up to (not including) code, warnings being errors; gives its complaints. `others` are crates
/// that were compiled before.
fn compile(name: &str, source: &str, others: &[&str]) -> Result<(), String> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("{name}.rs"));
    std::fs::write(&file, source).expect("the directory for tests is writable");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "-Cpanic=abort",
            "-Dwarnings",
            "--out-dir",
        ])
        .args([&directory, &file])
        .args(others.iter().flat_map(|other| {
            let metadata = directory.join(format!("lib{other}.rmeta"));
            [
                "--extern".to_owned(),
                format!("{other}={}", metadata.display()),
            ]
        }))
        .output()
        .expect("rustc runs");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn the_face_compiles_without_std() {
    let entry = "pub mod entry { pub static ENTRY: [usize; 3] = [0; 3]; }";
    let source = format!(
        "#![no_std]\n{entry}\npub mod generated {{\n{}\n}}\n",
        face_thunks()
    );
    compile("face", &source, &[]).unwrap();
}

const REAL_OF: &str = "
macro_rules! real { ($($name:ident $virt:ident $real:ident;)*) => { $(
    pub fn $name(_: &crate::calls::Runtime, handle: $virt) -> $real { $real(handle.0) }
)* }; }
use crate::understudy_mpi::real_types::*;
real! {
    real_comm VirtComm RealComm;
    real_group VirtGroup RealGroup;
    real_datatype VirtDatatype RealDatatype;
    real_op VirtOp RealOp;
    real_info VirtInfo RealInfo;
}
";

const RAISE: &str = "
use crate::dispatch::Proc;
use core::ffi::c_int;
pub fn finish(_: &crate::calls::Runtime, _: Proc, rc: c_int, _: Option<crate::handles::VirtComm>) -> c_int { rc }
pub fn unsupported(_: &crate::calls::Runtime, _: Proc) -> c_int { 1 }
pub fn unsupported_file(_: &crate::calls::Runtime, _: Proc) -> c_int { 1 }
pub fn refused(_: u32) -> c_int { 1 }
";

const IN_PLACE: &str = "pub const IN_PLACE: *const core::ffi::c_void = core::ptr::null();\n";

const CALLS: &str = "
use crate::dispatch::callbacks::*;
use crate::handles::*;
use core::ffi::c_int;
pub struct Runtime;
pub fn runtime() -> &'static Runtime { &Runtime }
pub unsafe fn init_collective(_: &Runtime, _: crate::dispatch::Proc, _: VirtComm, _: Vec<crate::requests::Argument>, _: *mut VirtRequest) -> c_int { 0 }
pub fn is_root(_: &Runtime, _: VirtComm, _: c_int) -> bool { true }
pub fn local_size(_: &Runtime, _: VirtComm) -> usize { 0 }
pub fn peer_count(_: &Runtime, _: VirtComm) -> usize { 0 }
pub extern \"C\" fn MPI_Comm_rank(_: VirtComm, _: *mut c_int) -> c_int { 0 }
pub extern \"C\" fn MPI_Op_create(_: UserFunction<VirtDatatype>, _: c_int, _: *mut VirtOp) -> c_int { 0 }
pub extern \"C\" fn ompi_op_set_cxx_callback(_: VirtOp, _: UserFunction<VirtDatatype>) {}
pub extern \"C\" fn MPI_Comm_f2c(_: c_int) -> VirtComm { VirtComm(core::ptr::null_mut()) }
";

const AROUND: &str = "
pub mod objects { pub mod comm {
    use crate::calls::Runtime;
    use crate::handles::*;
    pub fn degrees(_: &Runtime, _: VirtComm) -> (i32, i32) { (0, 0) }
    pub mod firsts {
        use super::*;
        pub fn note(_: &Runtime, _: VirtComm, _: crate::dispatch::Proc, _: bool, _: Option<VirtOp>) {}
    }
} }
pub mod cut {
    use crate::calls::Runtime;
    use crate::handles::VirtComm;
    pub fn collective(_: &Runtime, _: VirtComm) -> Result<(), ()> { Ok(()) }
    pub fn withdraw(_: &Runtime, _: VirtComm, _: core::ffi::c_int) {}
}
pub mod recovery { pub fn check(_: &crate::calls::Runtime, rc: core::ffi::c_int) -> Result<core::ffi::c_int, ()> { Ok(rc) } }
pub mod requests {
    use crate::handles::{VirtComm, VirtDatatype, VirtRequest};
    use crate::understudy_mpi::real_types::RealRequest;
    use core::ffi::c_int;
    pub enum Argument { Word(u64), Datatype(u64), Op(u64), Comm(u64), Info(u64) }
    impl Argument {
        pub unsafe fn integers(_: *const c_int, _: usize) -> Argument { Argument::Word(0) }
        pub unsafe fn longs(_: *const i64, _: usize) -> Argument { Argument::Word(0) }
        pub unsafe fn datatypes(_: *const VirtDatatype, _: usize) -> Argument { Argument::Word(0) }
    }
    pub fn add_collective(_: &crate::calls::Runtime, _: VirtComm, _: Option<VirtDatatype>, request: RealRequest) -> VirtRequest { VirtRequest(request.0) }
}
";

/// Stand in for modules of `interpose/mpi`.
const CALL: &str = "
macro_rules! through {
    ($table:path, $slot:expr, $($call:ident)?) => { core::arch::naked_asm!(\"ud2\") };
}
pub(crate) use through;
";
const LIBRARY: &str = "
use core::ffi::CStr;
pub struct Procedure;
impl Procedure {
    pub const fn new(_: &CStr) -> Procedure { Procedure }
}
pub fn all() -> usize { crate::real_source::PROCEDURES.len() }
";

fn compile_mpi(name: &str) {
    let source = format!(
        "#[allow(dead_code)]\npub mod library {{{LIBRARY}}}\npub mod real_types {{\n{}}}\n\
         pub mod call {{{CALL}}}\nmod real_source {{\n{}}}\npub use real_source::{{callbacks, real}};\n",
        real_types(),
        real_procedures(),
    );
    compile(name, &source, &[]).unwrap();
}

fn compile_runtime(name: &str, calls: &str) -> Result<(), String> {
    let mpi = format!("{name}_understudy_mpi");
    compile_mpi(&mpi);
    let dispatch = runtime_dispatch(&["MPI_Comm_rank", "MPI_Op_create", "MPI_Comm_f2c"]);
    let source = format!(
        "extern crate {mpi} as understudy_mpi;\npub mod handles {{\n{}{REAL_OF}{IN_PLACE}}}\npub mod raise {{{RAISE}}}\n{AROUND}\
         #[allow(non_snake_case)]\npub mod calls {{{calls}}}\npub mod dispatch {{\n{dispatch}}}\n",
        virt_types(),
    );
    compile(name, &source, &[&mpi])
}

#[test]
fn the_runtime_compiles() {
    compile_runtime("runtime", CALLS).unwrap();
}

#[test]
fn a_handler_of_another_signature_does_not_compile() {
    let calls = CALLS.replace("MPI_Comm_rank(_: VirtComm,", "MPI_Comm_rank(_: VirtGroup,");
    assert_ne!(calls, CALLS);
    let complaints = compile_runtime("runtime_mismatch", &calls).unwrap_err();
    assert!(
        complaints.contains("E0308") && complaints.contains("MPI_Comm_rank"),
        "{complaints}"
    );
}
