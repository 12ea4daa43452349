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
    let name = procedure.name.to_lowercase();
    let name = name.strip_prefix("mpi_").unwrap_or_default();
    let name = name.strip_suffix("_init").unwrap_or(name);
    match name.strip_prefix('i').unwrap_or(name) {
        "barrier" => "0".into(),
        "bcast" => "if is_root(comm, root) { one(count, datatype) } else { 0 }".into(),
        "reduce" => "if sends_to(root) { one(count, datatype) } else { 0 }".into(),
        "allreduce" | "scan" | "exscan" => "one(count, datatype)".into(),
        "reduce_scatter_block" => "each(members(comm), recvcount, datatype)".into(),
        "reduce_scatter" => "unsafe { list(members(comm), recvcounts, datatype) }".into(),
        "gather" => to_root(&or_in_place("one(recvcount, recvtype)", "one(sendcount, sendtype)")),
        "gatherv" => to_root(&or_in_place(
            "unsafe { block_of(root as usize, recvcounts, recvtype) }",
            "one(sendcount, sendtype)",
        )),
        "scatter" => "if is_root(comm, root) { each(peers(comm), sendcount, sendtype) } else { 0 }".into(),
        "scatterv" => "if is_root(comm, root) { unsafe { list(peers(comm), sendcounts, sendtype) } } else { 0 }".into(),
        "allgather" => or_in_place("one(recvcount, recvtype)", "one(sendcount, sendtype)"),
        "allgatherv" => or_in_place(
            "unsafe { block_of(my_rank(comm), recvcounts, recvtype) }",
            "one(sendcount, sendtype)",
        ),
        "alltoall" => or_in_place(
            "each(peers(comm), recvcount, recvtype)",
            "each(peers(comm), sendcount, sendtype)",
        ),
        "alltoallv" => or_in_place(
            "unsafe { list(peers(comm), recvcounts, recvtype) }",
            "unsafe { list(peers(comm), sendcounts, sendtype) }",
        ),
        "alltoallw" => or_in_place(
            "unsafe { typed_list(peers(comm), recvcounts, recvtypes) }",
            "unsafe { typed_list(peers(comm), sendcounts, sendtypes) }",
        ),
        "neighbor_alltoallw" => "unsafe { typed_list(neighbours(comm), sendcounts, sendtypes) }".into(),
        "neighbor_allgather" | "neighbor_allgatherv" => "one(sendcount, sendtype)".into(),
        "neighbor_alltoall" => "each(neighbours(comm), sendcount, sendtype)".into(),
        "neighbor_alltoallv" => "unsafe { list(neighbours(comm), sendcounts, sendtype) }".into(),
        _ => panic!("it is not known how much `{}` is handed", procedure.name),
    }
}

fn to_root(amount: &str) -> String {
    format!("if sends_to(root) {{ {amount} }} else {{ 0 }}")
}
