//! Generator of the table of outputs: memory of the program that each procedure writes.
//!
//! The set-up log records these outputs (`interpose/journal`).

use crate::kind::ParamKind;
use crate::length::{LengthTerm, length_terms};
use crate::model::{Class, Direction, Flag, Handle, Parameter, Procedure, Rule, Table};
use std::fmt::Write;

/// Constants of `mpi.h` (Open MPI 5.0) that occur in lengths, with their values.
const CONSTANTS: &[(&str, u32)] = &[
    ("MPI_MAX_DATAREP_STRING", 128),
    ("MPI_MAX_ERROR_STRING", 256),
    ("MPI_MAX_INFO_KEY", 36),
    ("MPI_MAX_LIBRARY_VERSION_STRING", 256),
    ("MPI_MAX_OBJECT_NAME", 64),
    ("MPI_MAX_PORT_NAME", 1024),
    ("MPI_MAX_PROCESSOR_NAME", 256),
    ("MPI_F_STATUS_SIZE", 6),
];

/// Returns the size in bytes of a numeric C type.
fn number_size(c_type: &str) -> Option<usize> {
    Some(match c_type {
        "int" | "MPI_Fint" => 4,
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => 8,
        _ => return None,
    })
}

/// Returns the size in bytes of a pointer's target; `None` if it is unknown.
fn item_size(c_type: &str) -> Option<usize> {
    let name = c_type.strip_suffix('*')?;
    number_size(name).or_else(|| match name {
        "MPI_Status" | "MPI_F08_status" => Some(24),
        name => Handle::from_c_type(name).map(|_| 8),
    })
}

fn is_buffer(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParamKind::BufOut | ParamKind::BufInOut)
}

/// Returns the expression for the processes in which a call writes an output.
///
/// A buffer of a collective with a root may be written by the root only, or by all other processes
/// only.
fn members(procedure: &Procedure, parameter: &Parameter) -> String {
    let root = procedure
        .parameters
        .iter()
        .position(|other| other.kind == ParamKind::Root);
    match root.filter(|_| is_buffer(parameter)) {
        Some(root) if parameter.kind == ParamKind::BufInOut => format!("Members::AllBut({root})"),
        Some(root) if procedure.is(Rule::ToRoot) => format!("Members::Only({root})"),
        _ => "Members::All".into(),
    }
}

/// Returns the runtime's expression for a number or an array of numbers.
fn numbers(procedure: &Procedure, index: usize) -> Option<String> {
    let base = procedure.parameters[index]
        .c_type
        .trim_start_matches("const ");
    let bytes = number_size(base.trim_end_matches('*'))?;
    Some(format!("Numbers({index}, {bytes})"))
}

/// Returns the unit of a buffer that several calls fill one after the other (`MPI_Pack`).
///
/// The length of such a buffer in the table is its capacity, not the size of the output.
fn packed(procedure: &Procedure, parameter: &Parameter) -> Option<String> {
    let index = |name: &str| {
        procedure
            .parameters
            .iter()
            .position(|other| other.name == name)
    };
    let (count, position, datatype) = (index("incount")?, index("position")?, index("datatype")?);
    let [count, position] = [numbers(procedure, count)?, numbers(procedure, position)?];
    is_buffer(parameter).then(|| format!("Unit::Packed({count}, {datatype}, {position})"))
}

fn is_new_window(parameter: &Parameter) -> bool {
    parameter.c_type == "MPI_Win*" && parameter.direction == Direction::Out
}

/// Returns expressions for the unit and the amounts of an output.
///
/// The product of the unit and all amounts is the size of the output.
///
/// `None` if the size is unknown. For example, a buffer of length `recvcount*recvtype*comm_size`
/// has the unit `Unit::Datatype`, and the amounts `Amount::Value` and `Amount::Members`.
fn unit_and_amounts(procedure: &Procedure, parameter: &Parameter) -> Option<(String, Vec<String>)> {
    // Names and values of the tool interface have various lengths, or no length in the table. Data
    // that other processes write into a window is not recorded.
    if procedure.class == Class::Tool || is_new_window(parameter) {
        return None;
    }
    if let Some(unit) = packed(procedure, parameter) {
        return Some((unit, Vec::new()));
    }
    let index = |name: &str| {
        procedure
            .parameters
            .iter()
            .position(|other| other.name == name)
    };
    let mut unit = match parameter.kind {
        ParamKind::StringOut => "Unit::Text".to_owned(),
        ParamKind::AddressOut | ParamKind::AttrVal => "Unit::Bytes(8)".to_owned(),
        _ if is_buffer(parameter) => "Unit::Bytes(1)".to_owned(),
        _ => format!("Unit::Bytes({})", item_size(&parameter.c_type)?),
    };
    let mut amounts = Vec::new();
    let terms = parameter
        .length
        .as_deref()
        .map_or(Some(Vec::new()), length_terms)?;
    for term in terms {
        let word = match &term {
            LengthTerm::Word(word) => word.as_str(),
            LengthTerm::Own(counts) => {
                amounts.push(format!(
                    "Amount::OwnCount({})",
                    numbers(procedure, index(counts)?)?
                ));
                continue;
            }
            LengthTerm::Span(counts, displs) => {
                let counts = index(counts)?;
                let length = procedure.parameters[counts].length.as_deref();
                let is_neighbour = length == Some("indegree");
                let [counts, displs] = [
                    numbers(procedure, counts)?,
                    numbers(procedure, index(displs)?)?,
                ];
                amounts.push(format!("Amount::Span({counts}, {displs}, {is_neighbour})"));
                continue;
            }
            LengthTerm::Sum(_) | LengthTerm::Last(_) | LengthTerm::SpanW(..) => return None,
        };
        let number = CONSTANTS.iter().find(|(name, _)| *name == word);
        match (index(word), number, word) {
            (Some(index), ..) => match procedure.parameters[index].c_type.as_str() {
                "MPI_Datatype" => unit = format!("Unit::Datatype({index})"),
                c_type => {
                    let variant = if c_type.ends_with('*') {
                        "PointedValue"
                    } else {
                        "Value"
                    };
                    amounts.push(format!("Amount::{variant}({})", numbers(procedure, index)?));
                }
            },
            (None, Some((_, number)), _) => amounts.push(format!("Amount::Constant({number})")),
            (None, None, "comm_size") => amounts.push("Amount::Members".into()),
            (None, None, "indegree") => amounts.push("Amount::Neighbours".into()),
            _ => return None,
        }
    }
    Some((unit, amounts))
}

/// Returns the expression that describes an output.
fn output(procedure: &Procedure, argument: usize, parameter: &Parameter) -> String {
    let (unit, amounts) = unit_and_amounts(procedure, parameter)
        .unwrap_or_else(|| ("Unit::Unknown".to_owned(), Vec::new()));
    let later = is_buffer(parameter)
        && (procedure.has(Flag::Nonblocking) || procedure.has(Flag::Persistent));
    format!(
        "Output {{ argument: {argument}, unit: {unit}, amounts: &[{}], members: {}, later: \
         {later} }}",
        amounts.join(", "),
        members(procedure, parameter)
    )
}

fn is_output(parameter: &Parameter) -> bool {
    parameter.direction != Direction::In
        && !matches!(parameter.kind, ParamKind::Argc | ParamKind::Argv)
}

/// Returns the row of a procedure.
fn row(procedure: &Procedure) -> String {
    let parameters = &procedure.parameters;
    let outputs: Vec<String> = parameters
        .iter()
        .enumerate()
        .filter(|(_, parameter)| is_output(parameter))
        .map(|(argument, parameter)| output(procedure, argument, parameter))
        .collect();
    let position = |c_type: &str| {
        parameters
            .iter()
            .position(|parameter| parameter.c_type == c_type)
    };
    let (comm, request) = (position("MPI_Comm"), position("MPI_Request*"));
    let widths: Vec<u8> = parameters
        .iter()
        .map(|parameter| {
            if matches!(parameter.c_type.as_str(), "int" | "MPI_Fint") {
                4
            } else {
                8
            }
        })
        .collect();
    format!(
        "Row {{ outputs: &[{}], comm: {comm:?}, request: {request:?}, widths: &{widths:?} }}",
        outputs.join(", ")
    )
}

/// Returns the table of the outputs of each procedure, by slot.
pub(crate) fn source(table: &Table) -> String {
    let mut out = String::from(
        "/// Memory of the program that each procedure writes, by slot.\n\
         pub static OUTPUTS: &[Row] = &[\n",
    );
    for procedure in &table.procedures {
        let _ = writeln!(out, "    {}, // {}", row(procedure), procedure.name);
    }
    out.push_str("];\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Source;
    use crate::table;

    /// Returns the generated outputs of procedures that are not refused.
    fn outputs() -> Vec<(&'static str, &'static Parameter, String)> {
        let procedures = table().procedures.iter();
        let procedures = procedures.filter(|procedure| procedure.source != Source::Refused);
        let all = procedures.flat_map(|procedure| {
            let parameters = procedure.parameters.iter().enumerate();
            let outputs = parameters.filter(|(_, parameter)| is_output(parameter));
            outputs.map(|(index, parameter)| {
                (
                    procedure.name.as_str(),
                    parameter,
                    output(procedure, index, parameter),
                )
            })
        });
        all.collect()
    }

    /// Returns the procedures whose outputs contain `unit`, without their twins for large counts.
    fn procedures_with(unit: &str) -> Vec<&'static str> {
        let found = outputs()
            .into_iter()
            .filter(|(_, _, output)| output.contains(unit));
        let is_twin = |name: &str| {
            name.strip_suffix("_c")
                .is_some_and(|name| table().procedure(name).is_some())
        };
        found
            .map(|(name, ..)| name)
            .filter(|name| !is_twin(name))
            .collect()
    }

    #[test]
    fn procedures_for_large_counts_write_what_their_twins_write() {
        let short = |output: &str| {
            output
                .replace(", 8)", ", 4)")
                .replace("Bytes(8)", "Bytes(4)")
        };
        let all = outputs();
        for (name, parameter, output) in &all {
            let large = table().procedure(name).and_then(crate::parse::large_twin);
            let is_twin = |other: &str| large.as_ref().is_some_and(|large| large.name == other);
            let twin = all.iter().find(|(other, other_parameter, _)| {
                is_twin(other) && other_parameter.name == parameter.name
            });
            if let Some((twin, _, twin_output)) = twin {
                assert_eq!(short(twin_output), short(output), "{twin}");
            }
        }
    }

    /// Only these procedures and the tool interface have outputs of unknown length.
    ///
    /// A call of one of them ends the recording.
    #[test]
    fn outputs_of_unknown_length_are_those_with_a_datatype_for_each_block() {
        let unknown = [
            "MPI_Alltoallw",
            "MPI_Neighbor_alltoallw",
            "MPI_Ialltoallw",
            "MPI_Ineighbor_alltoallw",
            "MPI_Alltoallw_init",
            "MPI_Neighbor_alltoallw_init",
            "MPI_Win_allocate",
            "MPI_Win_allocate_shared",
            "MPI_Win_create",
            "MPI_Win_create_dynamic",
            "MPI_Comm_spawn_multiple",
        ];
        let others = procedures_with("Unit::Unknown").into_iter();
        let others: Vec<_> = others.filter(|name| !name.starts_with("MPI_T_")).collect();
        assert_eq!(others, unknown);
    }

    /// No output is a whole buffer of bytes, except for two truth values of Fortran.
    ///
    /// A buffer that the program provides for later use (`MPI_Buffer_attach`) is not an output.
    #[test]
    fn no_output_is_a_whole_buffer_of_bytes() {
        assert_eq!(
            procedures_with("Unit::Bytes(1)"),
            ["MPI_Abi_get_fortran_booleans"; 2]
        );
        assert_eq!(
            procedures_with("Unit::Packed"),
            ["MPI_Pack_external", "MPI_Pack"]
        );
        let memory = outputs()
            .into_iter()
            .filter(|(procedure, ..)| procedure.starts_with("MPI_Buffer_"));
        let memory: Vec<_> = memory
            .map(|(procedure, parameter, _)| (procedure, parameter.name.as_str()))
            .collect();
        let expected = [
            ("MPI_Buffer_detach", "buffer"),
            ("MPI_Buffer_detach", "size"),
            ("MPI_Buffer_detach_c", "buffer"),
            ("MPI_Buffer_detach_c", "size"),
            ("MPI_Buffer_iflush", "request"),
        ];
        assert_eq!(memory, expected);
    }

    #[test]
    fn outputs_with_a_request_are_read_at_its_completion() {
        for (name, parameter, output) in outputs() {
            let procedure = table()
                .procedures
                .iter()
                .find(|procedure| procedure.name == name);
            let makes_request = procedure.is_some_and(|procedure| {
                procedure.has(Flag::Nonblocking) || procedure.has(Flag::Persistent)
            });
            let is_later = output.contains("later: true");
            assert_eq!(
                is_later,
                makes_request && is_buffer(parameter),
                "{name}, {}",
                parameter.name
            );
        }
    }

    /// Every process writes all outputs except buffers.
    ///
    /// For example, each process has a request, even if only the root receives data.
    #[test]
    fn only_buffers_are_written_by_some_processes_only() {
        for (name, parameter, output) in outputs() {
            let is_of_all = output.contains("Members::All,");
            assert!(
                is_of_all || is_buffer(parameter),
                "{name}, {}: {output}",
                parameter.name
            );
        }
    }
}
