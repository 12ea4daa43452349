//! How many bytes a process hands to a collective to be sent, which the runtime counts.

use crate::model::Procedure;

const IN_PLACE: &str = "sendbuf == IN_PLACE";

/// What the send buffer has, or, in place, the receive buffer.
fn or_in_place(in_place: &str, otherwise: &str) -> String {
    format!("if {IN_PLACE} {{ {in_place} }} else {{ {otherwise} }}")
}

/// A Rust expression in terms of the parameters of a collective of any kind. Arguments that the standard lets the
/// process leave open are not looked at.
pub(crate) fn handed_over(procedure: &Procedure) -> String {
    let name = procedure.short_name().to_lowercase();
    let name = name.strip_prefix("mpi_").unwrap_or_default();
    let name = name.strip_suffix("_init").unwrap_or(name);
    match name.strip_prefix('i').unwrap_or(name) {
        "barrier" => "0".into(),
        "bcast" => "if is_root(rt, comm, root) { one(rt, count, datatype) } else { 0 }".into(),
        "reduce" => "if sends_to(root) { one(rt, count, datatype) } else { 0 }".into(),
        "allreduce" | "scan" | "exscan" => "one(rt, count, datatype)".into(),
        "reduce_scatter_block" => "each(rt, members(rt, comm), recvcount, datatype)".into(),
        "reduce_scatter" => "unsafe { list(rt, members(rt, comm), recvcounts, datatype) }".into(),
        "gather" => to_root(&or_in_place(
            "one(rt, recvcount, recvtype)",
            "one(rt, sendcount, sendtype)",
        )),
        "gatherv" => to_root(&or_in_place(
            "unsafe { block_of(rt, root as usize, recvcounts, recvtype) }",
            "one(rt, sendcount, sendtype)",
        )),
        "scatter" => "if is_root(rt, comm, root) { each(rt, peers(rt, comm), sendcount, sendtype) } else { 0 }".into(),
        "scatterv" => {
            "if is_root(rt, comm, root) { unsafe { list(rt, peers(rt, comm), sendcounts, sendtype) } } else { 0 }"
                .into()
        }
        "allgather" => or_in_place("one(rt, recvcount, recvtype)", "one(rt, sendcount, sendtype)"),
        "allgatherv" => or_in_place(
            "unsafe { block_of(rt, my_rank(rt, comm), recvcounts, recvtype) }",
            "one(rt, sendcount, sendtype)",
        ),
        "alltoall" => or_in_place(
            "each(rt, peers(rt, comm), recvcount, recvtype)",
            "each(rt, peers(rt, comm), sendcount, sendtype)",
        ),
        "alltoallv" => or_in_place(
            "unsafe { list(rt, peers(rt, comm), recvcounts, recvtype) }",
            "unsafe { list(rt, peers(rt, comm), sendcounts, sendtype) }",
        ),
        "alltoallw" => or_in_place(
            "unsafe { typed_list(rt, peers(rt, comm), recvcounts, recvtypes) }",
            "unsafe { typed_list(rt, peers(rt, comm), sendcounts, sendtypes) }",
        ),
        "neighbor_alltoallw" => "unsafe { typed_list(rt, neighbours(rt, comm), sendcounts, sendtypes) }".into(),
        "neighbor_allgather" | "neighbor_allgatherv" => "one(rt, sendcount, sendtype)".into(),
        "neighbor_alltoall" => "each(rt, neighbours(rt, comm), sendcount, sendtype)".into(),
        "neighbor_alltoallv" => "unsafe { list(rt, neighbours(rt, comm), sendcounts, sendtype) }".into(),
        _ => panic!("it is not known how much `{}` is handed", procedure.name),
    }
}

fn to_root(amount: &str) -> String {
    format!("if sends_to(root) {{ {amount} }} else {{ 0 }}")
}
