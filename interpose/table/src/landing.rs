//! Generator of landings: the program's memory that the library may write by a network device.
//!
//! A procedure with a receive buffer notes the buffer (`interpose/mpi/src/landings.rs`) before the
//! library is called.

use crate::kind::ParamKind;
use crate::length::{LengthTerm, length_terms};
use crate::model::{Class, Flag, Parameter, Procedure, Rule};
use crate::types::identifier;

/// Returns the statements that note the receive buffers of a procedure, by buffer.
///
/// No statement is returned for a procedure whose library code only uses the processor: one that
/// is local or packs data. Files are read by the runtime itself, not by the library.
pub(crate) fn statements(procedure: &Procedure) -> Vec<String> {
    let is_of_processor =
        procedure.is(Rule::Local) || matches!(procedure.class, Class::Pack | Class::Tool);
    if is_of_processor || procedure.class == Class::Io {
        return Vec::new();
    }
    let buffers = procedure
        .parameters
        .iter()
        .filter(|parameter| matches!(parameter.kind, ParamKind::BufOut | ParamKind::BufInOut));
    buffers
        .map(|buffer| {
            let condition = significance(procedure)
                .map_or(String::new(), |condition| format!(" && {condition}"));
            format!(
                "if landings::is_landing({}){condition} {{ {} }}",
                identifier(buffer),
                note(procedure, buffer)
            )
        })
        .collect()
}

/// Returns the condition for a valid receive buffer in a collective with a root.
///
/// The root of an intercommunicator's collective passes the constant `MPI_ROOT`, which is negative.
fn significance(procedure: &Procedure) -> Option<String> {
    let mut parameters = procedure.parameters.iter();
    let root = identifier(parameters.find(|parameter| parameter.kind == ParamKind::Root)?);
    Some(match procedure.is(Rule::ToRoot) {
        true => format!("landings::is_root({}, {root})", comm(procedure)),
        false => format!("{root} >= 0"),
    })
}

fn comm(procedure: &Procedure) -> String {
    identifier(
        procedure
            .communicator()
            .expect("a collective has a communicator"),
    )
}

/// Returns the statement that notes a buffer.
fn note(procedure: &Procedure, buffer: &Parameter) -> String {
    let name = |word: &str| {
        let mut parameters = procedure.parameters.iter();
        let found = parameters.find(|parameter| parameter.name == word);
        found.unwrap_or_else(|| panic!("`{}` has no `{word}`", procedure.name))
    };
    let duration = match procedure.has(Flag::Persistent) {
        true => "Duration::Instance",
        false => "Duration::Operation",
    };
    let blocks = |counts: &str| match name(counts).length.as_deref() {
        Some("indegree") => format!("degrees({}).0", comm(procedure)),
        _ => format!("members({})", comm(procedure)),
    };
    let pointer = identifier(buffer);
    let (mut elements, mut datatype) = (None, None);
    let mut factors = Vec::new();
    for term in length(procedure, buffer) {
        match term {
            LengthTerm::SpanW(counts, displacements, datatypes) => {
                return format!(
                    "landings::note_blocks({duration}, {pointer}, ({counts}, {displacements}, \
                     {datatypes}), {});",
                    blocks(&counts)
                );
            }
            LengthTerm::Span(counts, displacements) => {
                let blocks = blocks(&counts);
                elements = Some(format!(
                    "landings::elements_of_all_blocks({counts}, {displacements}, {blocks})"
                ));
            }
            LengthTerm::Own(counts) => {
                elements = Some(format!(
                    "landings::elements_of_this_rank({counts}, {})",
                    comm(procedure)
                ));
            }
            LengthTerm::Word(word) => match word.as_str() {
                "comm_size" => factors.push(format!("members({}) as i64", comm(procedure))),
                "indegree" => factors.push(format!("degrees({}).0 as i64", comm(procedure))),
                word if name(word).kind == ParamKind::Datatype => {
                    datatype = Some(identifier(name(word)));
                }
                word => factors.push(match name(word).c_type.as_str() {
                    "int" => format!("i64::from({})", identifier(name(word))),
                    _ => identifier(name(word)),
                }),
            },
            LengthTerm::Sum(_) | LengthTerm::Last(_) => unknown(procedure),
        }
    }
    let product = match factors.is_empty() {
        true => "1".to_owned(),
        false => factors.join(" * "),
    };
    let elements = elements.unwrap_or_else(|| format!("landings::first_elements({product})"));
    let datatype = datatype.unwrap_or_else(|| unknown(procedure));
    format!("landings::note({duration}, {pointer}, {elements}, {datatype});")
}

fn length(procedure: &Procedure, buffer: &Parameter) -> Vec<LengthTerm> {
    let terms = buffer.length.as_deref().and_then(length_terms);
    terms.unwrap_or_else(|| unknown(procedure))
}

fn unknown<T>(procedure: &Procedure) -> T {
    panic!(
        "the length of a receive buffer of `{}` is unknown",
        procedure.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn statement(name: &str) -> String {
        statements(table().procedure(name).expect("a procedure")).concat()
    }

    #[test]
    fn buffers_are_noted_with_their_elements() {
        for (name, expected) in [
            (
                "MPI_Irecv",
                "if landings::is_landing(buf) { landings::note(Duration::Operation, buf, \
                 landings::first_elements(i64::from(count)), datatype); }",
            ),
            (
                "MPI_Gather_init",
                "if landings::is_landing(recvbuf) && landings::is_root(comm, root) { \
                 landings::note(Duration::Instance, recvbuf, \
                 landings::first_elements(i64::from(recvcount) * members(comm) as i64), \
                 recvtype); }",
            ),
            (
                "MPI_Bcast_c",
                "if landings::is_landing(buffer) && root >= 0 { landings::note(\
                 Duration::Operation, buffer, landings::first_elements(count), datatype); }",
            ),
            (
                "MPI_Neighbor_alltoallv",
                "if landings::is_landing(recvbuf) { landings::note(Duration::Operation, recvbuf, \
                 landings::elements_of_all_blocks(recvcounts, rdispls, degrees(comm).0), \
                 recvtype); }",
            ),
            (
                "MPI_Alltoallw",
                "if landings::is_landing(recvbuf) { landings::note_blocks(Duration::Operation, \
                 recvbuf, (recvcounts, rdispls, recvtypes), members(comm)); }",
            ),
            ("MPI_Send", ""),
            ("MPI_Unpack", ""),
        ] {
            assert_eq!(statement(name), expected, "{name}");
        }
    }

    /// Each buffer that a procedure receives by messages is noted once.
    #[test]
    fn only_buffers_that_the_processor_writes_are_not_noted() {
        let procedures = table().procedures.iter();
        let is_written = |parameter: &&Parameter| {
            matches!(parameter.kind, ParamKind::BufOut | ParamKind::BufInOut)
        };
        let mut unnoted: Vec<&str> = procedures
            .filter(|procedure| {
                let buffers = procedure.parameters.iter().filter(is_written).count();
                let noted = statements(procedure).len();
                assert!(noted == 0 || noted == buffers, "{}", procedure.name);
                noted < buffers && !matches!(procedure.class, Class::Io | Class::Tool)
            })
            .map(|procedure| procedure.name.trim_end_matches("_c"))
            .collect();
        unnoted.sort_unstable();
        unnoted.dedup();
        let expected = [
            "MPI_Abi_get_fortran_booleans",
            "MPI_Pack",
            "MPI_Pack_external",
            "MPI_Reduce_local",
            "MPI_Unpack",
            "MPI_Unpack_external",
        ];
        assert_eq!(unnoted, expected);
    }
}
