//! docs/calls.md: the MPI procedures, and what becomes of each of them.

use crate::large::{How, counts_elements_only, served};
use crate::model::{Class, Procedure, Source, Table};
use std::fmt::Write;

const HEAD: &str = "\
# MPI procedures

Generated from the call table (`interpose/table/data/procedures.tbl`) by `make generate`; not to be edited.

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

fn word(source: Source) -> &'static str {
    match source {
        Source::Manual => "by hand",
        Source::Refused => "refused",
        _ => "generated",
    }
}

/// Returns docs/calls.md; `list` has the procedures that only MPICH has.
pub(crate) fn page(table: &Table, list: &str) -> String {
    format!("{HEAD}{}{MPICH}{}", procedures(table), mpich(table, list))
}

fn procedures(table: &Table) -> String {
    let count = |test: &dyn Fn(&Procedure) -> bool| {
        let rows = table.procedures.iter();
        rows.filter(|procedure| test(procedure)).count()
    };
    let is_refused = |procedure: &Procedure| procedure.source == Source::Refused;
    let mut out =
        String::from("| class | procedures | supported | refused |\n|---|---:|---:|---:|\n");
    for &class in Class::ALL {
        let all = count(&|procedure| procedure.class == class);
        let refused = count(&|procedure| procedure.class == class && is_refused(procedure));
        let _ = writeln!(
            out,
            "| {} | {all} | {} | {refused} |",
            class.name(),
            all - refused
        );
    }
    let (all, refused) = (table.procedures.len(), count(&is_refused));
    let _ = writeln!(out, "| **all** | {all} | {} | {refused} |\n", all - refused);
    out.push_str("| procedure | class | handler |\n|---|---|---|\n");
    for procedure in &table.procedures {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            procedure.name,
            procedure.class.name(),
            word(procedure.source)
        );
    }
    out
}

/// Procedures that only MPICH has.
fn mpich(table: &Table, list: &str) -> String {
    let mut out = String::from("| procedure | now |\n|---|---|\n");
    for (name, how) in served(table, list) {
        let now = match how {
            How::Narrow(twin, what) if counts_elements_only(twin, what) => {
                format!("`{}`", twin.name)
            }
            How::Narrow(twin, _) => format!("`{}`, with some numbers of 31 bits", twin.name),
            How::As(other) => format!("`{other}`"),
            How::Handle(other) => format!("the handle itself; `{other}` with the standard ABI"),
            How::ByHand => "by hand".to_owned(),
            How::Refused => "refused".to_owned(),
        };
        let _ = writeln!(out, "| `{name}` | {now} |");
    }
    out
}
