//! Handlers of collectives, which all have a template.
//!
//! A cut may be taken before a blocking one, and a process may fail in it. One that fails must not leave a transfer under
//! way: see the runtime's module `blocking`, whose functions are called here.

use crate::amount::handed_over;
use crate::model::{Parameter, Procedure};
use crate::runtime::translated;
use crate::types::{self, Side};
use std::fmt::Write;

/// How a blocking collective is kept from leaving a transfer under way. The texts are Rust expressions in terms of its
/// parameters.
enum Way {
    /// It carries no data.
    Plain,
    /// It runs as its non-blocking twin if this is true, which it is in all members or in none.
    Twin(&'static str),
    /// A reduction. If the first is true, it writes to other memory: the number of elements in the receive buffer, and
    /// whether its contents matter before.
    Reduction(&'static str, &'static str, &'static str),
    /// It receives these blocks in other memory.
    Neighbours(&'static str),
}

const IN_PLACE: &str = "sendbuf == IN_PLACE";
const BLOCK: &str = "block(comm, count, datatype)";

/// The way of each blocking collective that has a template.
fn way(procedure: &Procedure) -> Way {
    match procedure.name.as_str() {
        "MPI_Barrier" => Way::Plain,
        "MPI_Bcast" => Way::Twin(BLOCK),
        "MPI_Allgather" | "MPI_Alltoall" => Way::Twin("blocks(comm, recvcount, recvtype)"),
        "MPI_Allgatherv" => Way::Twin("unsafe { lists(comm, recvcounts, recvtype) }"),
        "MPI_Gather" => Way::Twin(
            "if sendbuf == IN_PLACE { blocks(comm, recvcount, recvtype) } else { blocks(comm, sendcount, sendtype) }",
        ),
        "MPI_Scatter" => Way::Twin(
            "if recvbuf.cast_const() == IN_PLACE { blocks(comm, sendcount, sendtype) } \
             else { blocks(comm, recvcount, recvtype) }",
        ),
        "MPI_Gatherv" | "MPI_Scatterv" | "MPI_Alltoallv" => Way::Twin("always(comm)"),
        "MPI_Neighbor_allgather" | "MPI_Neighbor_alltoall" => Way::Neighbours("regular(comm, recvcount, recvtype)"),
        "MPI_Neighbor_allgatherv" => Way::Neighbours("listed(comm, recvcounts, displs, recvtype)"),
        "MPI_Neighbor_alltoallv" => Way::Neighbours("listed(comm, recvcounts, rdispls, recvtype)"),
        "MPI_Allreduce" | "MPI_Scan" => Way::Reduction(BLOCK, "i64::from(count)", IN_PLACE),
        // The first member's receive buffer stays as it is.
        "MPI_Exscan" => Way::Reduction(BLOCK, "i64::from(count)", "true"),
        "MPI_Reduce" => Way::Reduction(BLOCK, "at_root(comm, count, root)", IN_PLACE),
        "MPI_Reduce_scatter_block" => Way::Reduction(
            "blocks(comm, recvcount, datatype)",
            "of_blocks(comm, recvcount, sendbuf == IN_PLACE)",
            IN_PLACE,
        ),
        "MPI_Reduce_scatter" => Way::Reduction(
            "unsafe { lists(comm, recvcounts, datatype) }",
            "unsafe { of_lists(comm, recvcounts, sendbuf == IN_PLACE) }",
            IN_PLACE,
        ),
        name => panic!("it is not known how `{name}` is kept from leaving a transfer under way"),
    }
}

/// The name of the non-blocking twin in the real library.
fn twin(procedure: &Procedure) -> String {
    let rest = procedure.name.strip_prefix("MPI_").expect("an MPI procedure");
    format!("PMPI_I{}", rest.to_lowercase())
}

fn comm(procedure: &Procedure) -> String {
    procedure
        .communicator()
        .map(types::identifier)
        .expect("a collective has a communicator")
}

fn arguments(procedure: &Procedure) -> String {
    let argument = |parameter: &Parameter| match parameter.c_type.as_str() {
        "MPI_Request*" => "&mut real_request".to_owned(),
        _ => translated(parameter),
    };
    procedure.parameters.iter().map(argument).collect::<Vec<_>>().join(", ")
}

fn head(out: &mut String, procedure: &Procedure) {
    let parameters = types::parameter_list(procedure, Side::Virt);
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn h_{}({parameters}) -> c_int {{",
        procedure.name
    );
}

/// The end of a handler: `rc` is an expression of what `recovery::check` makes of the real procedure's.
fn tail(out: &mut String, procedure: &Procedure, rc: &str, after: &str) {
    let (name, comm) = (&procedure.name, comm(procedure));
    let _ = write!(
        out,
        "        let rc = match {rc} {{\n            Ok(rc) => rc,\n            Err(_) => return 0,\n        }};\n\
         {after}        crate::raise::finish(Proc::{name}, rc, Some({comm}))\n    }}\n\n"
    );
}

/// Counts the call, if anything is counted.
fn count(out: &mut String, procedure: &Procedure) {
    let (comm, amount) = (comm(procedure), handed_over(procedure));
    let _ = write!(
        out,
        "        if crate::traffic::is_on() {{\n            // SAFETY: the program's arrays.\n\
         \x20           let amount = {amount};\n            crate::traffic::collective({comm}, amount);\n        }}\n"
    );
}

const SAFETY: &str = "        // SAFETY: the program's arguments are handed on.\n";

/// The handler of a blocking collective.
pub(crate) fn blocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let call = format!("unsafe {{ real::{}({arguments}) }}", procedure.real_name());
    head(out, procedure);
    let _ = writeln!(
        out,
        "        if crate::cut::collective({comm}).is_err() {{\n            return 0;\n        }}"
    );
    count(out, procedure);
    let name = &procedure.name;
    let otherwise = match way(procedure) {
        Way::Plain => None,
        Way::Neighbours(blocks) => {
            let _ = write!(
                out,
                "{SAFETY}        let neighbours = unsafe {{ Neighbours::begin({comm}, recvbuf, {blocks}) }};\n\
                 \x20       let recvbuf = neighbours.place();\n{SAFETY}"
            );
            let rc = format!("crate::recovery::check(neighbours.end({call}))");
            return tail(out, procedure, &rc, "");
        }
        Way::Twin(condition) => Some((
            condition,
            format!(
                "            // SAFETY: as above.\n\
                 \x20           let start = |request: &mut RealRequest| unsafe {{ real::{}({arguments}, request) }};\n",
                twin(procedure)
            ),
            format!("run({comm}, start)"),
        )),
        Way::Reduction(condition, received, fill) => Some((
            condition,
            format!(
                "            // SAFETY: as above.\n\
                 \x20           let received = {received};\n\
                 \x20           // SAFETY: as above.\n\
                 \x20           let reduction = unsafe {{ Reduction::begin(recvbuf, received, datatype, {fill}) }};\n\
                 \x20           let recvbuf = reduction.place();\n"
            ),
            format!("crate::recovery::check(reduction.end({call}))"),
        )),
    };
    if let Some((condition, before, rc)) = otherwise {
        let _ = write!(
            out,
            "{SAFETY}        if {condition} {{\n{before}\
             \x20           // SAFETY: as above.\n\
             \x20           let rc = {rc};\n\
             \x20           return match rc {{\n\
             \x20               Ok(rc) => crate::raise::finish(Proc::{name}, rc, Some({comm})),\n\
             \x20               Err(_) => 0,\n            }};\n        }}\n"
        );
    }
    out.push_str(SAFETY);
    tail(out, procedure, &format!("crate::recovery::check({call})"), "");
}

/// The handler of a non-blocking collective, whose request is put on record.
pub(crate) fn nonblocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let request = procedure.parameters.last().map(types::identifier).expect("a request");
    head(out, procedure);
    count(out, procedure);
    let _ = write!(
        out,
        "        let mut real_request = RealRequest(core::ptr::null_mut());\n{SAFETY}"
    );
    let rc = format!(
        "crate::recovery::check(unsafe {{ real::{}({arguments}) }})",
        procedure.real_name()
    );
    let after = format!(
        "        if rc == 0 {{\n            // SAFETY: the program's argument.\n\
         \x20           unsafe {{ {request}.write(crate::requests::add_collective({comm}, real_request)) }};\n        }}\n"
    );
    tail(out, procedure, &rc, &after);
}
