//! The call table: every procedure and every other symbol that libmpi exports, and the code made from it.
//!
//! Face and runtime include what this crate generates in their build scripts, so both number the slots alike. The data
//! are two text files (`data/procedures.tbl`, `data/exports.tbl`); neither MPI nor its header is needed to build.
//!
//! The procedures' meaning is that of the MPI 4.1 standard, the set of symbols that of Open MPI 5.0.11.

mod face;
mod kind;
mod length;
mod listing;
mod model;
mod parse;
mod prelude;
mod real;
mod runtime;
mod types;

pub use kind::ParamKind;
pub use length::{LengthTerm, SPECIAL_LENGTHS, length_terms};
pub use model::{Class, Data, Direction, Flag, Function, Handle, Parameter, Policy, Procedure, Support, Table};
pub use parse::{TableError, parse, parse_procedures};

use std::sync::OnceLock;

/// The text of `procedures.tbl`.
pub const PROCEDURES: &str = include_str!("../data/procedures.tbl");
/// The text of `exports.tbl`.
pub const EXPORTS: &str = include_str!("../data/exports.tbl");

/// The table, read once.
///
/// # Panics
/// If the files that this crate was built with are malformed.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| parse(PROCEDURES, EXPORTS).unwrap_or_else(|error| panic!("call table: {error}")))
}

/// Rust source for the face: a thunk for every exported function, storage for every exported object, and lists of both.
///
/// It is to be included in a module that allows `unsafe_code`; `crate::entry::ENTRY` must be a static of pointer size
/// that holds the address every thunk jumps to, with the slot in `eax` and all argument registers as they were.
pub fn face_thunks() -> String {
    face::source(table())
}

/// Rust source for the runtime: names of the slots, declarations of the real procedures, the generated handlers and the
/// table of all handlers.
///
/// A row of the table is handled by `crate::calls::NAME` if `implemented` has its name, whatever its support says. A
/// manual row that is not in `implemented` is refused like an unsupported one.
///
/// The real procedures are external symbols.
///
/// # Panics
/// If a name in `implemented` is no procedure or occurs twice.
pub fn runtime_dispatch(implemented: &[&str]) -> String {
    runtime::source(table(), implemented)
}

/// Every manual row: what `implemented` of [`runtime_dispatch`] comes to in the end.
pub fn manual_names() -> Vec<&'static str> {
    let manual = |procedure: &&Procedure| procedure.support == Support::Manual;
    table()
        .procedures
        .iter()
        .filter(manual)
        .map(|procedure| procedure.name.as_str())
        .collect()
}

/// Rust source of the handle types `VirtComm`, … (for `crate::handles`).
pub fn virt_types() -> String {
    prelude::virt_types()
}

/// Rust source of the handle types `RealComm`, … and of `Status` (for `crate::real_types`).
pub fn real_types() -> String {
    prelude::real_types()
}

/// A Markdown listing of the procedures with their class and support.
///
/// # Panics
/// If a name in `implemented` is no procedure or occurs twice.
pub fn support_table(implemented: &[&str]) -> String {
    listing::markdown(table(), implemented)
}

/// The same as comma-separated values.
///
/// # Panics
/// If a name in `implemented` is no procedure or occurs twice.
pub fn support_csv(implemented: &[&str]) -> String {
    listing::csv(table(), implemented)
}
