//! Generator of the descriptions of ABIs (`data/abis.tbl`) for `understudy_mpi::abi`.

use crate::model::Handle;
use crate::parse::rows;
use std::fmt::Write;

/// Kinds of parameters with values that differ between ABIs, and their variants of `Domain`.
const DOMAINS: [(&str, &str); 20] = [
    ("Rank", "Rank"),
    ("Tag", "Tag"),
    ("Keyval", "Keyval"),
    ("Topology", "Topology"),
    ("Combiner", "Combiner"),
    ("Order", "Order"),
    ("DistributionArray", "Distribution"),
    ("DistributionArgumentArray", "DistributionArgument"),
    ("TypeClass", "TypeClass"),
    ("SplitType", "SplitType"),
    ("Comparison", "Comparison"),
    ("ThreadLevel", "ThreadLevel"),
    ("ErrorCode", "ErrorCode"),
    ("LockType", "LockType"),
    ("Assert", "Assert"),
    ("FileMode", "FileMode"),
    ("Whence", "Whence"),
    ("Displacement", "Displacement"),
    // Kinds of the values of windows' attributes.
    ("WinFlavor", "WinFlavor"),
    ("WinModel", "WinModel"),
];

/// Kinds of pointers that have constants among their values, and their variants of `Pointer`.
const POINTERS: [(&str, &str); 5] = [
    ("BufIn", "Buffer"),
    ("Status", "Status"),
    ("StatusArray", "Statuses"),
    ("WeightArray", "Weights"),
    ("ToolPvar", "ToolPvar"),
];

/// Column of `abis.tbl` that describes an ABI other than Open MPI's.
struct AbiColumn {
    index: usize,
    /// Name of the generated static.
    constant: &'static str,
    /// Name in documentation.
    name: &'static str,
}

const OTHER_ABIS: [AbiColumn; 2] = [
    AbiColumn {
        index: 3,
        constant: "MPICH",
        name: "MPICH",
    },
    AbiColumn {
        index: 4,
        constant: "STANDARD",
        name: "the standard ABI",
    },
];

/// Returns the domain of a kind of parameter.
pub(crate) fn domain(kind: &str) -> Option<&'static str> {
    let kind = if matches!(kind, "Root" | "RankArray") {
        "Rank"
    } else {
        kind
    };
    DOMAINS
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, domain)| *domain)
}

fn number(text: &str) -> i64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("abis.tbl: `{text}` is no number"))
}

/// Returns an ABI's rows of one kind: name, Open MPI's value, the ABI's value.
fn rows_of_kind<'t>(
    rows: &[Vec<&'t str>],
    kind: &str,
    column: usize,
) -> Vec<(&'t str, &'t str, &'t str)> {
    let rows = rows
        .iter()
        .filter(|row| row[1] == kind && row[column] != "-");
    rows.map(|row| (row[0], row[2], row[column])).collect()
}

/// Writes an enum without values.
fn enumeration(out: &mut String, name: &str, doc: &str, variants: &[(&str, &str)]) {
    let names: Vec<&str> = variants.iter().map(|(_, variant)| *variant).collect();
    let _ = writeln!(
        out,
        "/// {doc}\n#[allow(missing_docs)]\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub \
         enum {name} {{ {} }}\n",
        names.join(", ")
    );
}

/// Writes an ABI's handles of predefined objects.
fn handles(out: &mut String, rows: &[Vec<&str>], column: usize) {
    out.push_str("    handles: &[\n");
    for kind in Handle::ALL {
        for (name, symbol, value) in rows_of_kind(rows, kind.name(), column) {
            let value = number(value);
            let _ = writeln!(
                out,
                "        PredefinedHandle {{ kind: HandleKind::{}, symbol: c\"{symbol}\", value: \
                 {value:#x} }}, // {name}",
                kind.name()
            );
        }
    }
    out.push_str("    ],\n");
}

/// Constants for the preload library, with their types in Rust.
const PRELOAD_CONSTANTS: [(&str, &str); 25] = [
    ("MPI_COMM_WORLD", "usize"),
    ("MPI_BYTE", "usize"),
    ("MPI_DATATYPE_NULL", "usize"),
    ("MPI_INT", "usize"),
    ("MPI_FLOAT", "usize"),
    ("MPI_DOUBLE", "usize"),
    ("MPI_LONG", "usize"),
    ("MPI_SHORT", "usize"),
    ("MPI_LONG_DOUBLE", "usize"),
    ("MPI_FLOAT_INT", "usize"),
    ("MPI_DOUBLE_INT", "usize"),
    ("MPI_LONG_INT", "usize"),
    ("MPI_2INT", "usize"),
    ("MPI_SHORT_INT", "usize"),
    ("MPI_LONG_DOUBLE_INT", "usize"),
    ("MPI_ERR_COUNT", "c_int"),
    ("MPI_ERR_UNSUPPORTED_OPERATION", "c_int"),
    ("MPI_T_ERR_INVALID_HANDLE", "c_int"),
    ("MPI_T_ERR_INVALID_INDEX", "c_int"),
    ("MPI_T_ERR_INVALID_NAME", "c_int"),
    ("MPI_STATUS_IGNORE", "usize"),
    ("HANDLE", "usize"),
    ("STATUS_SOURCE", "usize"),
    ("STATUS_TAG", "usize"),
    ("STATUS_ERROR", "usize"),
];

/// Writes the [`PRELOAD_CONSTANTS`] of the ABI whose static is `abi`.
///
/// `text` is that of `abis.tbl`; `condition` is the configuration (`cfg`) for these constants.
pub(crate) fn constants(out: &mut String, text: &str, abi: &str, condition: &str) {
    let column = OTHER_ABIS
        .iter()
        .find(|column| column.constant == abi)
        .expect("an ABI");
    for (name, c_type) in PRELOAD_CONSTANTS {
        let (_, row) = rows(text)
            .find(|(_, row)| row[0] == name)
            .expect("a row of abis.tbl");
        let short = name.strip_prefix("MPI_").unwrap_or(name);
        // An identifier of Rust cannot begin with a digit (MPI_2INT).
        let prefix = if short.starts_with(|first: char| first.is_ascii_digit()) {
            "_"
        } else {
            ""
        };
        let value = number(row[column.index]);
        let _ = writeln!(
            out,
            "#[cfg({condition})]\npub const {prefix}{short}: {c_type} = {value}_i64 as {c_type};"
        );
    }
    out.push('\n');
}

/// Returns the source, which has one static for each ABI other than Open MPI's.
pub(crate) fn source(text: &str) -> String {
    let rows: Vec<Vec<&str>> = rows(text).map(|(_, columns)| columns).collect();
    let mut out = String::from("// Generated from the table of ABIs; not to be edited.\n\n");
    enumeration(
        &mut out,
        "Domain",
        "Kinds of integers some values of which are constants.",
        &DOMAINS,
    );
    enumeration(
        &mut out,
        "Pointer",
        "Kinds of pointers some values of which are constants.",
        &POINTERS,
    );
    for AbiColumn {
        index: column,
        constant,
        name,
    } in OTHER_ABIS
    {
        let _ = writeln!(
            out,
            "/// Differences between Open MPI and {name}.\n\
             pub static {constant}: Abi = Abi {{\n    name: \"{name}\","
        );
        let layout = |name: &str| {
            rows_of_kind(&rows, "Layout", column)
                .iter()
                .find(|row| row.0 == name)
                .map_or(0, |row| number(row.2))
        };
        let _ = writeln!(
            out,
            "    handle: {},\n    status: StatusLayout {{ size: {}, source: {}, tag: {}, error: \
             {}, bytes: {} }},",
            layout("HANDLE"),
            layout("STATUS"),
            layout("STATUS_SOURCE"),
            layout("STATUS_TAG"),
            layout("STATUS_ERROR"),
            layout("STATUS_BYTES")
        );
        handles(&mut out, &rows, column);
        out.push_str("    values: [\n");
        for (kind, _) in DOMAINS {
            let pairs = rows_of_kind(&rows, kind, column);
            let pairs: Vec<String> = pairs
                .iter()
                .map(|row| format!("({}, {})", number(row.1), number(row.2)))
                .collect();
            let _ = writeln!(out, "        &[{}],", pairs.join(", "));
        }
        out.push_str("    ],\n    pointers: [\n");
        for (kind, _) in POINTERS {
            let pair = |row: &(&str, &str, &str)| match row.2.strip_prefix('*') {
                Some(variable) => format!(
                    "({}, ConstantValue::Variable(c\"{variable}\"))",
                    number(row.1)
                ),
                None => format!(
                    "({}, ConstantValue::Constant({}))",
                    number(row.1),
                    number(row.2)
                ),
            };
            let pairs: Vec<String> = rows_of_kind(&rows, kind, column).iter().map(pair).collect();
            let _ = writeln!(out, "        &[{}],", pairs.join(", "));
        }
        out.push_str("    ],\n    limits: &[\n");
        for (name, open_mpi, other) in rows_of_kind(&rows, "Size", column) {
            let _ = writeln!(
                out,
                "        (\"{name}\", {}, {}),",
                number(open_mpi),
                number(other)
            );
        }
        out.push_str("    ],\n};\n\n");
    }
    out
}
