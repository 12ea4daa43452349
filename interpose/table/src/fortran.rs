//! Fortran procedures (MPI 4.1, 19.1) that are generated from their C bindings.
//!
//! Most of Open MPI's own bindings call its C procedures and need no replacement. Bindings with
//! requests, callbacks, attributes or new groups read the library's objects behind handles, which
//! fails for virtual handles. understudy replaces these bindings. The column `fortran` of the call
//! table names the module with a procedure's binding, or states that the binding is generated.

use crate::kind::ParamKind;
use crate::model::{Direction, Handle, Parameter, Procedure, Table};
use std::fmt::Write;

/// Word of the column `fortran` for a generated binding.
const GENERATED: &str = "generated";

/// Returns a procedure's name in Fortran without `mpi_`.
fn short_name(procedure: &Procedure) -> String {
    procedure.name["MPI_".len()..].to_lowercase()
}

pub(crate) fn source(table: &Table) -> String {
    let mut out = String::new();
    let generated: Vec<&Procedure> = table
        .procedures
        .iter()
        .filter(|procedure| procedure.fortran.as_deref() == Some(GENERATED))
        .collect();
    out.push_str("mod procedures {\n    use crate::mpi::*;\n    use core::ffi::{c_int, c_void};\n");
    generated
        .iter()
        .for_each(|procedure| write_procedure(&mut out, procedure));
    out.push_str(
        "}\n\nuse crate::{attributes, callbacks, datareps, datatypes, requests, \
        strings};\n\nnames! {\n",
    );
    for procedure in &table.procedures {
        match procedure.fortran.as_deref() {
            Some(GENERATED) => write_names(&mut out, "procedures", &short_name(procedure)),
            Some(module) => write_names(&mut out, module, &short_name(procedure)),
            None => {}
        }
    }
    out.push_str("}\n");
    out
}

/// Writes the names that compilers and Open MPI's modules use for a procedure.
fn write_names(out: &mut String, module: &str, name: &str) {
    let upper = name.to_uppercase();
    let _ = writeln!(
        out,
        "    {module}::{name}: mpi_{name} mpi_{name}_ mpi_{name}__ MPI_{upper} pmpi_{name} \
         pmpi_{name}_ pmpi_{name}__ PMPI_{upper} ompi_{name}_f pompi_{name}_f;"
    );
}

/// Returns the type of a parameter of the C binding.
fn c_type(parameter: &Parameter) -> &'static str {
    let plain = parameter.c_type.trim_start_matches("const ");
    match plain {
        "int" => "c_int",
        "int*" | "int[3]*" => "*const c_int",
        "MPI_Aint*" => "*const isize",
        "void*" => "*mut c_void",
        _ if Handle::from_c_type(plain).is_some() => "Handle",
        _ if parameter.direction == Direction::In => "*const Handle",
        _ => "*mut Handle",
    }
}

/// Returns the type of a parameter in Fortran's binding, where each parameter is an address.
fn fortran_type(parameter: &Parameter) -> &'static str {
    match (c_type(parameter), parameter.direction) {
        ("*mut c_void", _) => "*mut c_void",
        ("*const isize", _) => "*const isize",
        (_, Direction::In) => "*const c_int",
        _ => "*mut c_int",
    }
}

/// Returns the type of handle in the names of its conversions, such as `PMPI_Type_f2c`.
fn conversion(parameter: &Parameter) -> &'static str {
    match parameter.kind {
        ParamKind::Datatype | ParamKind::DatatypeArray => "Type",
        ParamKind::Comm => "Comm",
        ParamKind::Op => "Op",
        ParamKind::Info => "Info",
        ParamKind::Request => "Request",
        ParamKind::Group => "Group",
        other => panic!("{}: no conversion for {}", parameter.name, other.name()),
    }
}

/// Writes the declaration of the C procedure, and the Fortran procedure that calls it.
fn write_procedure(out: &mut String, procedure: &Procedure) {
    let name = short_name(procedure);
    let c_parameters: Vec<String> = procedure
        .parameters
        .iter()
        .map(|parameter| format!("{}: {}", parameter.name, c_type(parameter)))
        .collect();
    let fortran_parameters: Vec<String> = procedure
        .parameters
        .iter()
        .map(|parameter| format!("{}: {}", parameter.name, fortran_type(parameter)))
        .collect();
    let _ = write!(
        out,
        "\n    unsafe extern \"C\" {{\n        fn P{}({}) -> c_int;\n    }}\n\n    pub unsafe \
         extern \"C\" fn {name}({}, ierr: *mut c_int) {{\n        // SAFETY: arguments of the \
         program, as the standard says.\n        unsafe {{\n",
        procedure.name,
        c_parameters.join(", "),
        fortran_parameters.join(", ")
    );
    let mut arguments = Vec::new();
    let mut stores = String::new();
    for parameter in &procedure.parameters {
        let name = &parameter.name;
        match (c_type(parameter), parameter.direction) {
            ("Handle", _) => {
                let _ = writeln!(
                    out,
                    "            let {name} = PMPI_{}_f2c(*{name});",
                    conversion(parameter)
                );
                arguments.push(name.clone());
            }
            ("*const Handle", _) => arguments.push(format!("{name}.as_ptr()")),
            ("*mut Handle", _) => {
                let _ = writeln!(out, "            let mut own_{name} = NO_HANDLE;");
                let _ = writeln!(
                    stores,
                    "                *{name} = PMPI_{}_c2f(own_{name});",
                    conversion(parameter)
                );
                arguments.push(format!("&mut own_{name}"));
            }
            ("c_int", _) => arguments.push(format!("*{name}")),
            ("*mut c_void", _) => arguments.push(format!("data({name})")),
            _ => arguments.push(name.clone()),
        }
    }
    for parameter in procedure
        .parameters
        .iter()
        .filter(|parameter| parameter.kind == ParamKind::DatatypeArray)
    {
        let (name, length) = (&parameter.name, length(parameter));
        // The datatypes are ignored if this buffer is MPI_IN_PLACE.
        let buffer = if name.starts_with("send") {
            "sendbuf"
        } else {
            "recvbuf"
        };
        let _ = writeln!(
            out,
            "            let {name} = types({name}, data({buffer}), || {length}(comm));"
        );
    }
    let _ = writeln!(
        out,
        "            let rc = P{}({});",
        procedure.name,
        arguments.join(", ")
    );
    if !stores.is_empty() {
        let _ = write!(
            out,
            "            if rc == SUCCESS {{\n{stores}            }}\n"
        );
    }
    out.push_str("            put(ierr, rc);\n        }\n    }\n");
}

/// Returns the function that computes the number of elements of an array.
fn length(parameter: &Parameter) -> &'static str {
    match parameter.length.as_deref() {
        Some("comm_size") => "peer_count",
        Some("indegree") => "source_count",
        Some("outdegree") => "destination_count",
        other => panic!("{}: of length {other:?}", parameter.name),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn procedures_that_create_requests_or_groups_have_a_fortran_binding() {
        let source = super::source(crate::table());
        for name in [
            "ibarrier",
            "ialltoallw",
            "ineighbor_alltoallw",
            "alltoallw",
            "bcast_init",
            "group_incl",
            "group_range_excl",
            "wait",
        ] {
            assert!(
                source.contains(&format!(": mpi_{name} mpi_{name}_ ")),
                "{name}"
            );
        }
        assert!(!source.contains("mpi_ibcast_c") && !source.contains("mpi_group_size"));
    }
}
