//! Call table, and generators of files from the tables of the workspace.
//!
//! The call table contains every procedure and every other symbol that libmpi exports. The
//! catalogue of messages is a table of `ckptd/catalogue`.
//!
//! The generated files are checked in, in folders `generated` of the crates that use them.
//! `make generate` writes them, and a test compares them with the tables. Each procedure has a
//! *slot*, the number of its row. The sources of the preload library and of the runtime are
//! generated from the same rows, so a procedure has the same slot in both.
//!
//! The procedures are described as in the MPI 4.1 standard. The set of symbols is that of Open MPI
//! 5.0.11.

mod abi;
mod catalogue;
mod collective;
mod edge;
mod exit_statuses;
mod fortran;
mod header;
mod kind;
mod landing;
mod large;
mod length;
mod line_breaking;
mod listing;
mod model;
mod named_enum;
mod outputs;
mod parse;
mod preload_library;
mod prelude;
mod real;
mod runtime;
mod template;
mod types;

pub use kind::ParamKind;
pub use length::{LengthTerm, SPECIAL_LENGTHS, length_terms};
pub use line_breaking::HEADER;
pub use model::{
    Class, Data, Direction, Flag, Function, Handle, Parameter, Policy, Procedure, Rule, Source,
    Table,
};
pub use parse::{TableError, parse, parse_procedures};

use std::sync::OnceLock;

/// Text of `procedures.tbl`.
pub const PROCEDURES: &str = include_str!("../data/procedures.tbl");
/// Text of `exports.tbl`.
pub const EXPORTS: &str = include_str!("../data/exports.tbl");

/// Text of `abis.tbl`.
pub const ABIS: &str = include_str!("../data/abis.tbl");

/// Text of `mpich.tbl`.
pub const MPICH: &str = include_str!("../data/mpich.tbl");

/// Text of the catalogue of messages.
const MESSAGES: &str = include_str!("../../../ckptd/catalogue/data/messages.toml");
/// Text of the exit statuses.
const EXIT_STATUSES: &str = include_str!("../../../ckptd/catalogue/data/exit_statuses.toml");

/// Returns the call table, which is parsed once.
///
/// # Panics
/// Panics if the tables that this crate was built with are malformed.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        parse(PROCEDURES, EXPORTS).unwrap_or_else(|error| panic!("call table: {error}"))
    })
}

/// A generated file.
pub struct GeneratedFile {
    /// Path from the root of the repository.
    pub path: &'static str,
    pub text: String,
}

/// Returns the sources that are generated from the call table and the tables of ABIs.
///
/// # Panics
/// Panics if the tables that this crate was built with are malformed.
pub fn generated_sources() -> Vec<GeneratedFile> {
    let table = table();
    let files = [
        (
            "interpose/face/src/generated/thunks.rs",
            preload_library::source(table),
        ),
        (
            "interpose/face/src/generated/mpich.rs",
            large::source(table, MPICH, ABIS),
        ),
        (
            "interpose/fortran/src/generated/procedures.rs",
            fortran::source(table),
        ),
        ("interpose/mpi/src/generated/abis.rs", abi::source(ABIS)),
        ("interpose/mpi/src/generated/edges.rs", edge::source(table)),
        (
            "interpose/mpi/tests/generated/header.rs",
            header::source(table, ABIS),
        ),
        ("interpose/mpi/src/generated/real.rs", real::source(table)),
        (
            "interpose/mpi/src/generated/real_types.rs",
            prelude::real_types(),
        ),
        (
            "interpose/runtime/src/generated/handlers.rs",
            runtime::handler_source(table),
        ),
        (
            "interpose/journal/src/generated/outputs.rs",
            outputs::source(table),
        ),
        (
            "interpose/base/src/generated/procedures.rs",
            runtime::procedure_source(table),
        ),
        (
            "interpose/objects/src/generated/virt_types.rs",
            prelude::virt_types(),
        ),
    ];
    files
        .into_iter()
        .map(|(path, source)| GeneratedFile {
            path,
            text: line_breaking::lay_out(&source),
        })
        .collect()
}

/// Returns all generated files, including the catalogue of messages and documents.
///
/// # Panics
/// Panics if the tables, the catalogue or the exit statuses are malformed.
pub fn generated_files() -> Vec<GeneratedFile> {
    let mut files = generated_sources();
    let others = [
        (
            "ckptd/catalogue/src/generated/message.rs",
            catalogue::texts(MESSAGES),
        ),
        (
            "ckptd/catalogue/src/generated/table.rs",
            catalogue::table(MESSAGES),
        ),
        (
            "ckptd/catalogue/src/generated/exit_status.rs",
            exit_statuses::source(EXIT_STATUSES),
        ),
        ("docs/reference/calls.md", listing::page(table(), MPICH)),
        ("docs/reference/messages.md", catalogue::page(MESSAGES)),
        (
            "docs/reference/exit-statuses.md",
            exit_statuses::page(EXIT_STATUSES, MESSAGES),
        ),
    ];
    files.extend(others.map(|(path, text)| GeneratedFile { path, text }));
    files
}

/// Returns the tests that messages name, as `(identifier, test)`.
pub fn tests_of_messages() -> Vec<(String, String)> {
    catalogue::tests(MESSAGES)
}
