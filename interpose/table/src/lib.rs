//! The call table: every procedure and every other symbol that libmpi exports, and the code made from it.
//!
//! Face and runtime include what this crate generates in their build scripts, so both number the slots alike. The data
//! are two text files (`data/procedures.tbl`, `data/exports.tbl`); neither MPI nor its header is needed to build.
//!
//! The procedures' meaning is that of the MPI 4.1 standard, the set of symbols that of Open MPI 5.0.11.

mod abi;
mod collective;
mod edge;
mod face;
mod fortran;
mod kind;
mod large;
mod length;
mod listing;
mod model;
mod outcome;
mod parse;
mod prelude;
mod real;
mod runtime;
mod types;

pub use kind::ParamKind;
pub use length::{LengthTerm, SPECIAL_LENGTHS, length_terms};
pub use model::{
    Class, Data, Direction, Flag, Function, Handle, Parameter, Policy, Procedure, Rule, Source,
    Table,
};
pub use parse::{TableError, parse, parse_procedures};

use std::sync::OnceLock;

/// The text of `procedures.tbl`.
pub const PROCEDURES: &str = include_str!("../data/procedures.tbl");
/// The text of `exports.tbl`.
pub const EXPORTS: &str = include_str!("../data/exports.tbl");

/// The text of `abis.tbl`.
pub const ABIS: &str = include_str!("../data/abis.tbl");

/// The text of `mpich.tbl`.
pub const MPICH: &str = include_str!("../data/mpich.tbl");

/// The table, read once.
///
/// # Panics
/// If the files that this crate was built with are malformed.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        parse(PROCEDURES, EXPORTS).unwrap_or_else(|error| panic!("call table: {error}"))
    })
}

/// Rust source for the face: a thunk for every exported function, storage for every exported object, and lists of both.
///
/// It is to be included in a module that allows `unsafe_code`; `crate::entry::ENTRY` must be an array of pointers, one for
/// each of the generated `STACK_WORDS`,
/// that hold the addresses the thunks jump to, with the slot in `eax` and all argument registers as they were.
pub fn face_thunks() -> String {
    face::source(table())
}

/// Rust source for the Fortran procedures that Open MPI's own bindings cannot do on the program's handles, under all their names.
pub fn fortran_procedures() -> String {
    fortran::source(table())
}

/// Rust source for MPICH's face: a function for each procedure that the call table does not have, and their names.
///
/// It is to be included in a module beside `large`, `by_hand` and `refuse`.
///
/// # Panics
/// If a file that this crate was built with is malformed.
pub fn mpich_procedures() -> String {
    large::source(table(), MPICH, ABIS)
}

/// Rust source for the runtime: names of the slots, declarations of the real procedures, the generated handlers and the
/// table of all handlers.
///
/// A manual row is handled by `crate::calls::NAME`. The real procedures are external symbols.
pub fn runtime_dispatch() -> String {
    runtime::source(table())
}

/// Rust source for the journal: what each procedure writes on the user side. Its types must be in scope where it is
/// included.
pub fn runtime_outputs() -> String {
    outcome::source(table())
}

/// Rust source of the handle types `VirtComm`, … (for `crate::handles`).
pub fn virt_types() -> String {
    prelude::virt_types()
}

/// Rust source of the handle types `RealComm`, … and of `Status` (for `understudy_mpi`).
pub fn real_types() -> String {
    prelude::real_types()
}

/// Rust source of the callback types, and of the real procedures behind a table of addresses (for `understudy_mpi`).
pub fn real_procedures() -> String {
    real::source(table())
}

/// A Markdown listing of the procedures with their class and the origin of their handlers.
pub fn support_table() -> String {
    listing::markdown(table())
}

/// A Markdown listing of what MPICH has besides, and what becomes of it.
///
/// # Panics
/// If a file that this crate was built with is malformed.
pub fn mpich_table() -> String {
    listing::mpich(table(), MPICH)
}

/// Rust source of the descriptions of other ABIs than Open MPI's (for `understudy_mpi::abi`).
///
/// # Panics
/// If the file that this crate was built with is malformed.
pub fn abis() -> String {
    abi::source(ABIS)
}

/// Rust source of the functions that translate between ABIs (for `understudy_mpi::abi`).
pub fn edges() -> String {
    edge::source(table())
}
