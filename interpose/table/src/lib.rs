//! The call table: every procedure and every other symbol that libmpi exports, and the code made from it.
//!
//! Face and runtime include what this crate generates in their build scripts, so both number the slots alike. The data
//! are two text files (`data/procedures.tbl`, `data/exports.tbl`); neither MPI nor its header is needed to build.
//!
//! The procedures' meaning is that of the MPI 4.1 standard, the set of symbols that of Open MPI 5.0.11.

mod abi;
mod collective;
#[cfg(test)]
mod columns;
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
    Support, Table,
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

/// Rust source for the journal: what each procedure writes on the user side. Its types must be in scope where it is
/// included.
pub fn runtime_outputs() -> String {
    outcome::source(table())
}

/// The procedures that the sources in a directory have a handler for: every `extern "C" fn MPI_…` or `MPIX_…`, and every
/// such name in a row of a macro that makes handlers, which is a line that begins with one and a comma.
///
/// # Errors
/// If the directory or a file cannot be read.
pub fn implemented(directory: &std::path::Path) -> std::io::Result<Vec<String>> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                &mut directories
            } else {
                &mut files
            }
            .push(path);
        }
    }
    files.sort();
    let mut names = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(&file)?.lines() {
            let words = line
                .split([' ', ',', ';', '(', '<'])
                .filter(|word| !word.is_empty());
            let is_row = words
                .clone()
                .next()
                .is_some_and(|first| line.trim_start().starts_with(&format!("{first},")));
            let candidates: Vec<&str> = match line.split_once("extern \"C\" fn ") {
                Some((_, head)) => head.split(['(', '<']).take(1).collect(),
                None if is_row => words.collect(),
                None => Vec::new(),
            };
            let is_procedure = |name: &&str| table().procedure(name).is_some();
            names.extend(
                candidates
                    .into_iter()
                    .filter(is_procedure)
                    .map(str::to_owned),
            );
        }
    }
    // An argument on a line of its own reads like a row of a macro.
    names.sort_unstable();
    names.dedup();
    Ok(names)
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

/// Rust source of the handle types `RealComm`, … and of `Status` (for `understudy_mpi`).
pub fn real_types() -> String {
    prelude::real_types()
}

/// Rust source of the callback types, and of the real procedures behind a table of addresses (for `understudy_mpi`).
pub fn real_procedures() -> String {
    real::source(table())
}

/// A Markdown listing of the procedures with their class and support.
///
/// # Panics
/// If a name in `implemented` is no procedure or occurs twice.
pub fn support_table(implemented: &[&str]) -> String {
    listing::markdown(table(), implemented)
}

/// A Markdown listing of what MPICH has besides, and what becomes of it.
///
/// # Panics
/// If a file that this crate was built with is malformed.
pub fn mpich_table() -> String {
    listing::mpich(table(), MPICH)
}

/// The listing of the call table as comma-separated values.
///
/// # Panics
/// If a name in `implemented` is no procedure or occurs twice.
pub fn support_csv(implemented: &[&str]) -> String {
    listing::csv(table(), implemented)
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
