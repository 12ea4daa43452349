//! Prints docs/calls.md, the list of all MPI procedures and what becomes of each of them:
//!
//! ```text
//! cargo run -p understudy-table --example support-table > docs/calls.md
//! ```
//!
//! A test compares that file with [`document`].

const HEAD: &str = "\
# MPI procedures

Generated from the call table (`interpose/table/data/procedures.tbl`); not to be edited.
To make it again: `cargo run -p understudy-table --example support-table > docs/calls.md`.

The names are those of the MPI 4.1 standard that Open MPI 5.0.11 has, and of Open MPI's extensions (`MPIX_`); and 110 more of
MPI 4.1 and 5.0, most of them for large counts, which only programs of MPICH and of the standard ABI find. Every one of them can also be called by its profiling
name (`PMPI_…`).

The column **handler** says what serves a call: `generated`, a handler that is made from the table;
`by hand`, one of `interpose/runtime/src/calls`;
`refused`, the call fails with `MPI_ERR_UNSUPPORTED_OPERATION` and a message.
With the default error handler, `MPI_ERRORS_ARE_FATAL`, a refused call ends the job.

All of this is about programs under protection. In a program that runs without (`UNDERSTUDY_DISABLE=1`, or a job that was
refused before `MPI_Init`) every call goes to the MPI library as it is.

";

const MPICH: &str = "
# What MPICH has besides

Programs of MPICH, and of the standard ABI, may call these, too (`interpose/table/data/mpich.tbl`). In the face, on the program's side, each calls what is
named here, and the runtime knows only that. More elements of a datatype than fit in 31 bits are handed on as one of a datatype that holds them all;
what only asks (sizes, extents, numbers of elements) has 63 bits as well. A unit of displacements in a window that does not fit in 31 bits is an
error, `MPI_ERR_COUNT`, with a line that says so. A refused procedure ends the job with a line that names it.

- A datatype made by a procedure for large counts describes itself by `MPI_Type_get_envelope_c` and `MPI_Type_get_contents_c` only, as in MPICH; Open MPI 5.0 has no such procedures.

";

pub fn document() -> String {
    let calls = understudy_table::support_table();
    let besides = understudy_table::mpich_table();
    format!("{HEAD}{calls}{MPICH}{besides}")
}

#[allow(dead_code, reason = "the test includes this file for `document`")]
fn main() {
    print!("{}", document());
}
