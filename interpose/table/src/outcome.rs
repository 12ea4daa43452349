//! What each procedure writes on the user side: the outcome that a journal records.

use crate::kind::ParamKind;
use crate::length::{LengthTerm, length_terms};
use crate::model::{Direction, Flag, Handle, Parameter, Procedure, Table};
use std::fmt::Write;

/// Values of the words in a length that stand for a number (`mpi.h` of Open MPI 5.0).
const NUMBERS: &[(&str, u32)] = &[
    ("MPI_MAX_DATAREP_STRING", 128),
    ("MPI_MAX_ERROR_STRING", 256),
    ("MPI_MAX_INFO_KEY", 36),
    ("MPI_MAX_LIBRARY_VERSION_STRING", 256),
    ("MPI_MAX_OBJECT_NAME", 64),
    ("MPI_MAX_PORT_NAME", 1024),
    ("MPI_MAX_PROCESSOR_NAME", 256),
    ("MPI_F_STATUS_SIZE", 6),
];

/// Bytes of what a C pointer type points to; nothing for a buffer.
fn item_size(c_type: &str) -> Option<usize> {
    Some(match c_type.strip_suffix('*')? {
        "int" | "MPI_Fint" => 4,
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => 8,
        "MPI_Status" | "MPI_F08_status" => 24,
        name if Handle::from_c_type(name).is_some() => 8,
        _ => return None,
    })
}

fn is_buffer(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParamKind::BufOut | ParamKind::BufInOut)
}

/// Who has the output of a collective with a root.
fn members(procedure: &Procedure, parameter: &Parameter) -> String {
    let root = procedure.parameters.iter().position(|other| other.name == "root");
    match root {
        Some(root) if parameter.kind == ParamKind::BufInOut => format!("Members::AllBut({root})"),
        Some(root) if !procedure.name.contains("catter") => format!("Members::Only({root})"),
        _ => "Members::All".into(),
    }
}

/// The unit and the amounts of a length; nothing if it is not known here.
fn amount(procedure: &Procedure, parameter: &Parameter) -> Option<(String, Vec<String>)> {
    let index = |name: &str| procedure.parameters.iter().position(|other| other.name == name);
    let is_neighbour = procedure.name.contains("eighbor");
    let mut unit = match parameter.kind {
        ParamKind::StringOut => "Unit::Text".to_owned(),
        ParamKind::AddressOut | ParamKind::AttrVal => "Unit::Bytes(8)".to_owned(),
        _ if is_buffer(parameter) => "Unit::Bytes(1)".to_owned(),
        _ => format!("Unit::Bytes({})", item_size(&parameter.c_type)?),
    };
    let mut amounts = Vec::new();
    let terms = parameter.length.as_deref().map_or(Some(Vec::new()), length_terms)?;
    for term in terms {
        let word = match &term {
            LengthTerm::Word(word) => word.as_str(),
            LengthTerm::Own(counts) => {
                amounts.push(format!("Amount::Own({})", index(counts)?));
                continue;
            }
            LengthTerm::Span(counts, displs) => {
                let (counts, displs) = (index(counts)?, index(displs)?);
                amounts.push(format!("Amount::Span({counts}, {displs}, {is_neighbour})"));
                continue;
            }
            LengthTerm::Sum(_) | LengthTerm::Last(_) | LengthTerm::SpanW(..) => return None,
        };
        let number = NUMBERS.iter().find(|(name, _)| *name == word);
        match (index(word), number, word) {
            (Some(index), ..) => match procedure.parameters[index].c_type.as_str() {
                "MPI_Datatype" => unit = format!("Unit::Datatype({index})"),
                "int" => amounts.push(format!("Amount::Int({index})")),
                "int*" => amounts.push(format!("Amount::IntAt({index})")),
                "MPI_Aint" | "MPI_Count" => amounts.push(format!("Amount::Long({index})")),
                _ => return None,
            },
            (None, Some((_, number)), _) => amounts.push(format!("Amount::Number({number})")),
            (None, None, "comm_size") => amounts.push("Amount::Members".into()),
            (None, None, "indegree") => amounts.push("Amount::Neighbours".into()),
            _ => return None,
        }
    }
    Some((unit, amounts))
}

fn output(procedure: &Procedure, argument: usize, parameter: &Parameter) -> String {
    let (unit, amounts) = amount(procedure, parameter).unwrap_or_else(|| ("Unit::Unknown".to_owned(), Vec::new()));
    let later = is_buffer(parameter) && (procedure.has(Flag::Nonblocking) || procedure.has(Flag::Persistent));
    format!(
        "Output {{ argument: {argument}, unit: {unit}, amounts: &[{}], members: {}, later: {later} }}",
        amounts.join(", "),
        members(procedure, parameter)
    )
}

/// The row of a procedure.
fn row(procedure: &Procedure) -> String {
    let is_output = |parameter: &Parameter| {
        parameter.direction != Direction::In && !matches!(parameter.kind, ParamKind::Argc | ParamKind::Argv)
    };
    let parameters = &procedure.parameters;
    let outputs: Vec<String> = parameters
        .iter()
        .enumerate()
        .filter(|(_, parameter)| is_output(parameter))
        .map(|(argument, parameter)| output(procedure, argument, parameter))
        .collect();
    let position = |c_type: &str| parameters.iter().position(|parameter| parameter.c_type == c_type);
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

/// The table of what each procedure writes, by slot.
pub(crate) fn source(table: &Table) -> String {
    let mut out = String::from(
        "// Generated from the call table; not to be edited.\n\n\
         /// What each procedure writes on the user side, by slot.\n\
         pub static OUTPUTS: &[Row] = &[\n",
    );
    for procedure in &table.procedures {
        let _ = writeln!(out, "    {}, // {}", row(procedure), procedure.name);
    }
    out.push_str("];\n");
    out
}
