//! Generator of a Rust test that compares the tables with mpi.h of Open MPI.
//!
//! The crate `mpi-sys` contains the header's declarations in Rust.

use crate::model::{Flag, Handle, Parameter, Procedure, Table};
use crate::parse::rows;
use crate::types::{CALLBACKS, Side, rust_type};
use std::fmt::Write;

/// Kinds of constants that are pointers in mpi.h, which bindgen omits.
const POINTERS: [&str; 6] = [
    "Address",
    "BufIn",
    "Status",
    "StatusArray",
    "WeightArray",
    "ToolPvar",
];

/// Constants that mpi.h of Open MPI 5.0 lacks; some of them are in its mpi-ext.h.
const MISSING_CONSTANTS: [&str; 5] = [
    "MPI_ERR_ABI",
    "MPI_ERR_ERRHANDLER",
    "MPIX_ERR_PROC_FAILED",
    "MPIX_ERR_PROC_FAILED_PENDING",
    "MPIX_ERR_REVOKED",
];

/// Predefined objects that Open MPI may lack; some are understudy's own.
const MISSING_OBJECTS: [&str; 5] = [
    "understudy_logical16",
    "understudy_bfloat16",
    "ompi_mpi_short_float",
    "ompi_mpi_lb",
    "ompi_mpi_ub",
];

/// Procedures with variable arguments after those in the table, which understudy does not use.
const VARIADIC: [&str; 1] = ["MPI_Pcontrol"];

/// Returns true if mpi.h of Open MPI 5.0 declares this procedure.
fn is_declared(procedure: &Procedure) -> bool {
    let is_extension = procedure.name.starts_with("MPIX_");
    !is_extension && !procedure.has(Flag::Newer) && !procedure.has(Flag::Removed)
}

/// Returns lists of constants and objects, and a function for each procedure.
///
/// A function does not compile if the procedure's type differs from the table.
pub(crate) fn source(table: &Table, abis: &str) -> String {
    let mut out = String::from("// Generated from the tables; not to be edited.\n");
    constants(&mut out, abis);
    procedures(&mut out, table);
    out
}

fn constants(out: &mut String, abis: &str) {
    let (mut numbers, mut objects) = (String::new(), String::new());
    for (_, row) in rows(abis) {
        let (name, kind, value) = (row[0], row[1], row[2]);
        if Handle::from_name(kind).is_some() {
            if !MISSING_OBJECTS.contains(&value) {
                let _ = writeln!(
                    objects,
                    "    let _ = &raw const mpi_sys::{value}; // {name}"
                );
            }
        } else if kind != "Layout"
            && value != "-"
            && !POINTERS.contains(&kind)
            && !MISSING_CONSTANTS.contains(&name)
        {
            let _ = writeln!(
                numbers,
                "    (\"{name}\", {value}, mpi_sys::{name} as i64),"
            );
        }
    }
    let _ = write!(
        out,
        "\n/// Name, value in the table, value in the header.\n\
         const CONSTANTS: &[(&str, i64, i64)] = &[\n{numbers}];\n\
         \n/// Names all predefined objects; it is never called.\n\
         #[allow(dead_code)]\nfn objects() {{\n{objects}}}\n"
    );
}

/// Returns bindgen's Rust type of a parameter.
fn parameter_header_type(parameter: &Parameter) -> String {
    header_type(&parameter.c_type)
}

/// Returns bindgen's Rust type of a C type.
fn header_type(c_type: &str) -> String {
    // bindgen includes the pointer in the type of a pointer to a function.
    if let Some(function) = c_type.strip_suffix('*')
        && (function.ends_with("_function") || function.ends_with("_fn"))
    {
        return format!("mpi_sys::{function}");
    }
    let base = c_type.trim_start_matches("const ").trim_end_matches('*');
    let runtime_type =
        rust_type(c_type, Side::Real).unwrap_or_else(|| format!("mpi_sys::{c_type}"));
    if !base.starts_with("MPI_") || base == "MPI_Fint" {
        return runtime_type;
    }
    // `shape` has the pointers of the type around an int. The header's type then replaces the int.
    let shape = rust_type(&c_type.replace(base, "int"), Side::Real);
    let shape = shape.unwrap_or_else(|| panic!("no Rust type for `{c_type}`"));
    shape.replace("c_int", &format!("mpi_sys::{base}"))
}

/// Writes a function for each callback type, which converts understudy's type to the header's.
fn callbacks(out: &mut String, declared: &[&Procedure]) {
    let parameters = || declared.iter().flat_map(|procedure| &procedure.parameters);
    for (kind, handle, signature) in CALLBACKS {
        let Some(parameter) = parameters().find(|parameter| parameter.kind == *kind) else {
            continue;
        };
        let handle = handle.map_or("()".into(), |handle| {
            format!("mpi_sys::MPI_{}", handle.name())
        });
        let signature = signature
            .replace('H', &handle)
            .replace("Status", "mpi_sys::MPI_Status");
        let _ = writeln!(
            out,
            "    fn {}(callback: Option<unsafe extern \"C\" fn{signature}>) -> {} {{\n\
             \x20       callback\n    }}",
            kind.name(),
            parameter_header_type(parameter),
        );
    }
}

fn procedures(out: &mut String, table: &Table) {
    let declared: Vec<&Procedure> = table
        .procedures
        .iter()
        .filter(|procedure| is_declared(procedure))
        .collect();
    let names: Vec<String> = declared
        .iter()
        .map(|procedure| format!("    \"{}\",\n", procedure.name))
        .collect();
    let _ = write!(
        out,
        "\n/// Procedures that are compared.\nconst PROCEDURES: &[&str] = &[\n{}];\n\
         \n/// Each procedure as the table has it; none of the functions is called.\n\
         #[allow(dead_code, non_snake_case, clippy::type_complexity)]\nmod prototypes {{\n\
         \x20   use core::ffi::{{c_char, c_double, c_int, c_void}};\n",
        names.concat()
    );
    callbacks(out, &declared);
    for procedure in declared {
        let mut types: Vec<String> = procedure
            .parameters
            .iter()
            .map(parameter_header_type)
            .collect();
        types.extend(
            VARIADIC
                .contains(&procedure.name.as_str())
                .then(|| "...".into()),
        );
        let _ = writeln!(
            out,
            "    fn {name}() -> unsafe extern \"C\" fn({}) -> {} {{\n\
             \x20       mpi_sys::{name}\n    }}",
            types.join(", "),
            header_type(&procedure.returns),
            name = procedure.name,
        );
    }
    out.push_str("}\n");
}
