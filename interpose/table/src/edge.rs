//! Generator of the edges between ABIs.
//!
//! For each procedure, an edge has a function that translates the arguments, calls the procedure,
//! and translates the results back. The function is generic in `E: Edge` (`understudy_mpi::abi`),
//! which defines caller and callee: the program and the runtime, or the runtime and the real
//! library.

use crate::abi::domain;
use crate::kind::ParamKind;
use crate::length::{LengthTerm, length_terms};
use crate::model::{Direction, Flag, Handle, Parameter, Procedure, Rule, Source, Table};
use crate::real::{addresses, stack_words};
use crate::types::identifier;
use std::fmt::Write;

/// Returns the Rust type of a parameter in an edge, whatever the ABI.
fn edge_type(c_type: &str) -> &'static str {
    match c_type {
        _ if c_type.ends_with('*') => "*mut u8",
        "int" | "MPI_Fint" => "c_int",
        "double" => "f64",
        "MPI_Aint" => "isize",
        "MPI_Offset" | "MPI_Count" => "i64",
        _ if Handle::from_c_type(c_type).is_some() => "u64",
        // Functions, and objects of the tool interface.
        _ => "*mut u8",
    }
}

/// Returns the type of handle to which a pointer parameter points.
fn pointee(parameter: &Parameter) -> Option<Handle> {
    let c_type = parameter
        .c_type
        .strip_prefix("const ")
        .unwrap_or(&parameter.c_type);
    Handle::from_c_type(c_type.strip_suffix('*')?)
}

/// Returns an expression for the number of elements of an array.
fn length(procedure: &Procedure, parameter: &Parameter) -> String {
    let Some(terms) = parameter
        .length
        .as_deref()
        .map(|length| length_terms(length).unwrap_or_default())
    else {
        return "1".to_owned();
    };
    let communicator = || identifier(procedure.communicator().expect("a communicator"));
    // Processes other than the root may pass undefined arrays, so the length is zero there.
    let at_root = procedure
        .is(Rule::AtRoot)
        .then(|| format!("usize::from(E::rank(v_{}) == v_root)", communicator()));
    let factor = |term: &LengthTerm| match term {
        LengthTerm::Word(word) => match word.as_str() {
            "comm_size" => format!("E::members(v_{})", communicator()),
            "indegree" if !has(procedure, "indegree") => {
                format!("E::degrees(v_{}).0", communicator())
            }
            "outdegree" if !has(procedure, "outdegree") => {
                format!("E::degrees(v_{}).1", communicator())
            }
            word => format!("number({word})"),
        },
        LengthTerm::Sum(word) => format!("sum_of({word}, number(n))"),
        other => panic!("`{}` has an array of length {other:?}", procedure.name),
    };
    terms
        .iter()
        .map(factor)
        .chain(at_root)
        .collect::<Vec<_>>()
        .join(" * ")
}

fn has(procedure: &Procedure, name: &str) -> bool {
    procedure
        .parameters
        .iter()
        .any(|parameter| parameter.name == name)
}

fn direction(parameter: &Parameter) -> &'static str {
    match parameter.direction {
        Direction::In => "Direction::In",
        Direction::Out => "Direction::Out",
        Direction::InOut => "Direction::InOut",
    }
}

/// Number of elements of an array that need no memory on the heap.
const INLINE_ELEMENTS: &str = "64";

/// Returns the number of elements that need no memory on the heap.
///
/// `length` is the expression for the number of all elements.
fn inline_elements(length: &str) -> &str {
    match length {
        "1" => length,
        _ => INLINE_ELEMENTS,
    }
}

/// Translation of an argument.
enum ArgumentTranslation {
    /// Argument that is equal in all ABIs.
    None,
    /// Argument that is replaced by the value of this expression.
    Value(String),
    /// Argument that is replaced by the address of converted elements.
    ///
    /// The expression creates the object that contains the elements, and that converts the results
    /// after the call.
    Object {
        expression: String,
        /// True if the callee may use the elements after its return.
        is_kept: bool,
    },
}

fn translation(procedure: &Procedure, parameter: &Parameter) -> ArgumentTranslation {
    let name = identifier(parameter);
    let is_pointer = parameter.c_type.ends_with('*');
    if let Some(handle) = Handle::from_c_type(&parameter.c_type) {
        return ArgumentTranslation::Value(format!(
            "E::handle(HandleKind::{}, {name})",
            handle.name()
        ));
    }
    // The library may read the arrays of such a call after its return.
    let is_kept = procedure.has(Flag::Nonblocking) || procedure.has(Flag::Persistent);
    if let Some(handle) = pointee(parameter) {
        let (length, direction) = (length(procedure, parameter), direction(parameter));
        return ArgumentTranslation::Object {
            expression: format!(
                "Handles::<E, {}>::new(HandleKind::{}, {name}, {length}, {direction})",
                inline_elements(&length),
                handle.name()
            ),
            is_kept: is_kept && parameter.direction == Direction::In,
        };
    }
    match parameter.kind {
        ParamKind::Status | ParamKind::StatusArray => {
            let pointer = if parameter.kind == ParamKind::Status {
                "Status"
            } else {
                "Statuses"
            };
            let (length, direction) = (length(procedure, parameter), direction(parameter));
            ArgumentTranslation::Object {
                expression: format!(
                    "Statuses::<E, {}>::new(Pointer::{pointer}, {name}, {length}, {direction})",
                    inline_elements(&length)
                ),
                is_kept: false,
            }
        }
        ParamKind::BufIn | ParamKind::BufOut | ParamKind::BufInOut => {
            ArgumentTranslation::Value(format!("pointer::<E>(Pointer::Buffer, {name})"))
        }
        ParamKind::ToolPvar if !is_pointer => ArgumentTranslation::Value(format!(
            "pointer::<E>(Pointer::ToolPvar, {name}.cast()).cast()"
        )),
        ParamKind::WeightArray => {
            ArgumentTranslation::Value(format!("pointer::<E>(Pointer::Weights, {name})"))
        }
        ParamKind::Displacement => ArgumentTranslation::Value(format!("displacement::<E>({name})")),
        kind => match domain(kind.name()) {
            None => ArgumentTranslation::None,
            Some(domain) if is_pointer => {
                assert!(!is_kept, "`{}` would keep integers", procedure.name);
                let length = length(procedure, parameter);
                ArgumentTranslation::Object {
                    expression: format!(
                        "Integers::<E, {}>::new(Domain::{domain}, {name}, {length})",
                        inline_elements(&length)
                    ),
                    is_kept: false,
                }
            }
            Some(domain) => {
                ArgumentTranslation::Value(format!("value::<E>(Domain::{domain}, {name})"))
            }
        },
    }
}

/// Returns the expression that translates the result, if it needs a translation.
fn returned(procedure: &Procedure) -> Option<String> {
    if let Some(handle) = Handle::from_c_type(&procedure.returns) {
        return Some(format!(
            "E::handle_back(HandleKind::{}, result)",
            handle.name()
        ));
    }
    match procedure.returns.as_str() {
        "int" if !procedure.has(Flag::NoProfile) => Some("E::error_for_caller(result)".to_owned()),
        _ => None,
    }
}

/// Returns true if a procedure copies a status between C and Fortran.
///
/// Both statuses have equal layouts in all ABIs except Open MPI's.
fn copies_status(procedure: &Procedure) -> bool {
    let is_status = |parameter: &Parameter| {
        matches!(
            parameter.kind,
            ParamKind::Status | ParamKind::FStatus | ParamKind::F08Status
        )
    };
    matches!(&procedure.parameters[..], [from, to] if is_status(from) && is_status(to))
}

/// Returns true if a procedure needs no translation in any ABI.
fn is_plain(procedure: &Procedure) -> bool {
    let is_unchanged = |parameter: &Parameter| {
        matches!(translation(procedure, parameter), ArgumentTranslation::None)
    };
    returned(procedure).is_none() && procedure.parameters.iter().all(is_unchanged)
}

/// Writes the function that translates the calls of a procedure.
fn function(out: &mut String, table: &Table, slot: usize, procedure: &Procedure) {
    // A refused procedure reads no argument.
    let parameters: &[Parameter] = match procedure.source {
        Source::Refused => &[],
        _ => &procedure.parameters,
    };
    let list = |with: &dyn Fn(&Parameter) -> String| {
        parameters.iter().map(with).collect::<Vec<_>>().join(", ")
    };
    let typed = list(&|parameter| {
        format!(
            "{}: {}",
            identifier(parameter),
            edge_type(&parameter.c_type)
        )
    });
    let types = list(&|parameter| edge_type(&parameter.c_type).to_owned());
    let result = edge_type(&procedure.returns);
    let name = &procedure.name;
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn {name}<E: Edge>({typed}) -> {result} {{\n\x20       // \
         SAFETY: the caller's arguments, translated, for the procedure of this slot.\n        \
         unsafe {{\n\x20           let _guard = E::guard();"
    );
    if copies_status(procedure) {
        let [from, to] = [0, 1].map(|index| identifier(&parameters[index]));
        let _ = writeln!(
            out,
            "            copy_status::<E>({from}, {to})\n        }}\n    }}\n"
        );
        return;
    }
    // The length of an array may depend on the translated communicator, so all values are
    // translated before the arrays.
    let translations: Vec<(&Parameter, ArgumentTranslation)> = parameters
        .iter()
        .map(|parameter| (parameter, translation(procedure, parameter)))
        .collect();
    for (parameter, translation) in &translations {
        if let ArgumentTranslation::Value(expression) = translation {
            let _ = writeln!(
                out,
                "            let v_{} = {expression};",
                identifier(parameter)
            );
        }
    }
    for (parameter, translation) in &translations {
        if let ArgumentTranslation::Object {
            expression,
            is_kept,
        } = translation
        {
            let name = identifier(parameter);
            let _ = writeln!(
                out,
                "            let mut v_{name} = {expression};\n            \
                 v_{name}.convert_arguments();"
            );
            if *is_kept {
                let _ = writeln!(out, "            v_{name}.keep();");
            }
        }
    }
    let arguments: Vec<String> = translations
        .iter()
        .map(|(parameter, translation)| match translation {
            ArgumentTranslation::None => identifier(parameter),
            ArgumentTranslation::Value(_) => format!("v_{}", identifier(parameter)),
            ArgumentTranslation::Object { .. } => {
                format!("v_{}.callee_pointer()", identifier(parameter))
            }
        })
        .collect();
    let _ = writeln!(
        out,
        "            let callee: unsafe extern \"C\" fn({types}) -> {result} = \
         core::mem::transmute(E::callee({slot}));\n\x20           let result = callee({});",
        arguments.join(", ")
    );
    if let Some(expression) = returned(procedure) {
        if result == "c_int" {
            out.push_str(
                "            if E::is_void(result) {\n                return result;\n            \
                }\n",
            );
            out.push_str("            let is_success = result == 0;\n");
        } else {
            out.push_str("            let is_success = true;\n");
        }
        out.push_str("            let _ = is_success;\n");
        for (parameter, translation) in &translations {
            if matches!(translation, ArgumentTranslation::Object { .. })
                && parameter.direction != Direction::In
            {
                let _ = writeln!(
                    out,
                    "            v_{}.convert_results(is_success);",
                    identifier(parameter)
                );
            }
        }
        if procedure.is(Rule::Contents) {
            let is_large = procedure
                .parameters
                .iter()
                .any(|parameter| parameter.kind == ParamKind::BigCount);
            let envelope = match is_large {
                true => "MPI_Type_get_envelope_c",
                false => "MPI_Type_get_envelope",
            };
            let mut names = table.procedures.iter().map(|procedure| &procedure.name);
            let envelope = names.position(|name| *name == envelope);
            let envelope = envelope.expect("a procedure of the standard");
            let _ = writeln!(
                out,
                "            contents::<E>(v_datatype, array_of_integers, is_success, \
                 {is_large}, {envelope});"
            );
        }
        let _ = writeln!(out, "            {expression}");
    } else {
        out.push_str("            result\n");
    }
    out.push_str("        }\n    }\n\n");
}

/// Writes functions that call the procedures of a library with another ABI.
fn foreign_calls(out: &mut String, table: &Table) {
    let count = table.procedures.len();
    addresses(
        out,
        table,
        "the procedures of a library of another ABI",
        "FOREIGN",
    );
    out.push_str("\n/// Procedures of libraries with another ABI.\nmod foreign {\n");
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let words = stack_words(procedure);
        let _ = write!(
            out,
            "    #[unsafe(naked)]\n\
             \x20   pub(super) unsafe extern \"C\" fn call_{slot}() {{\n\
             \x20       crate::call::through!(super::FOREIGN, {slot}, call_{words})\n\
             \x20   }}\n",
        );
    }
    let _ = writeln!(
        out,
        "}}\n\n/// Callers of the procedures of a library with another ABI, by slot.\n\
         pub(crate) static FOREIGN_CALLS: [unsafe extern \"C\" fn(); {count}] = ["
    );
    for slot in 0..count {
        let _ = writeln!(out, "    foreign::call_{slot},");
    }
    out.push_str("];\n");
}

/// Returns the functions, and the table of an edge's functions.
pub(crate) fn source(table: &Table) -> String {
    let mut out = String::from(
        "/// Functions that translate the calls of procedures that differ between \
         ABIs.\n#[allow(non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc, \
         clippy::let_unit_value, clippy::let_and_return)]\nmod procedures {\n    use \
         super::*;\n\n",
    );
    for (slot, procedure) in table
        .procedures
        .iter()
        .enumerate()
        .filter(|(_, procedure)| !is_plain(procedure))
    {
        function(&mut out, table, slot, procedure);
    }
    let _ = writeln!(
        out,
        "}}\n\n/// Functions of an edge, by slot; null if the procedure is equal in all ABIs.\n\
         pub fn table<E: Edge>() -> [*const (); {}] {{\n    [",
        table.procedures.len()
    );
    for procedure in &table.procedures {
        let _ = match is_plain(procedure) {
            true => writeln!(out, "        core::ptr::null(), // {}", procedure.name),
            false => writeln!(
                out,
                "        procedures::{}::<E> as *const (),",
                procedure.name
            ),
        };
    }
    out.push_str("    ]\n}\n");
    foreign_calls(&mut out, table);
    out
}
