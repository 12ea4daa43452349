//! Handlers that call a function of the runtime's `calls`, which serves several procedures.
//!
//! The column `source` contains the path of the function in `calls`, and arguments for the
//! function.

use crate::kind::ParamKind;
use crate::model::{Direction, Handle, Parameter, Procedure, Source, Table};
use crate::types::{self, Side, identifier, translated};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns true for sources that are served by a function of `calls`.
pub(crate) fn is_shared(source: Source) -> bool {
    matches!(
        source,
        Source::Call | Source::Construct | Source::Derive | Source::Tool
    )
}

/// Writes the imports of the modules of `calls` whose functions serve procedures.
pub(crate) fn imports(out: &mut String, table: &Table) {
    let procedures = table.procedures.iter();
    let shared = procedures.filter(|procedure| is_shared(procedure.source));
    let modules: BTreeSet<&str> = shared
        .filter_map(|procedure| procedure.arguments.first()?.split("::").next())
        .chain(["conversion"])
        .collect();
    let modules: Vec<&str> = modules.into_iter().collect();
    let _ = write!(
        out,
        "    use crate::calls::{{{}}};\n    use crate::generated::HandleKind;\n\
         \x20   use crate::objects::datatype::CountSize;\n\
         \x20   use crate::objects::lookup::{{from_fortran, to_fortran}};\n",
        modules.join(", ")
    );
}

/// Returns the path of the function that serves a procedure.
fn function(procedure: &Procedure) -> &str {
    let first = procedure.arguments.first();
    first.unwrap_or_else(|| panic!("`{}` has no function", procedure.name))
}

/// Returns the last parameter, in which a constructor stores the handle.
fn handle_output(procedure: &Procedure) -> &Parameter {
    let last = procedure.parameters.last();
    let output = last.filter(|parameter| parameter.direction != Direction::In);
    output.unwrap_or_else(|| panic!("`{}` creates no handle", procedure.name))
}

/// Returns the call of the library's procedure; `argument` translates a parameter.
fn library_call(procedure: &Procedure, argument: impl Fn(&Parameter) -> String) -> String {
    let arguments: Vec<String> = procedure.parameters.iter().map(argument).collect();
    format!("real::{}({})", procedure.real_name(), arguments.join(", "))
}

/// Returns the call of a constructor of the library, which stores the handle in `new`.
fn constructor_call(procedure: &Procedure) -> String {
    let output = handle_output(procedure);
    library_call(procedure, |parameter| match parameter == output {
        true => "new".to_owned(),
        false => translated(parameter),
    })
}

/// Returns the function's call with the remaining words of the column and all arguments.
fn call(procedure: &Procedure) -> String {
    let arguments: Vec<String> = ["rt".to_owned(), format!("Proc::{}", procedure.name)]
        .into_iter()
        .chain(procedure.arguments.iter().skip(1).cloned())
        .chain(procedure.parameters.iter().map(identifier))
        .collect();
    format!("{}({})", function(procedure), arguments.join(", "))
}

/// Returns the call of the function that creates an object from a communicator.
///
/// The arguments are the communicator, if any, the pointer that receives the handle, and a closure
/// that calls the library's constructor.
fn construct(procedure: &Procedure) -> String {
    let parent = procedure
        .parameters
        .iter()
        .find(|parameter| parameter.c_type == "MPI_Comm");
    let parent = parent.map_or(String::new(), |parent| format!("{}, ", identifier(parent)));
    format!(
        "{}(rt, Proc::{}, {parent}{}, |new| {})",
        function(procedure),
        procedure.name,
        identifier(handle_output(procedure)),
        constructor_call(procedure)
    )
}

/// Returns the call of the function that creates a datatype from another one.
///
/// The arguments are the old datatype, the pointer that receives the handle, and a closure that
/// calls the library's constructor. The column may name another constructor than the procedure
/// itself.
fn derive(procedure: &Procedure) -> String {
    let mut parameters = procedure.parameters.iter();
    let old = parameters.find(|parameter| parameter.kind == ParamKind::Datatype);
    let old = identifier(old.expect("an old datatype"));
    let mut parameters = procedure.parameters.iter();
    let counts = match parameters.any(|parameter| parameter.c_type.contains("MPI_Count")) {
        true => "Large",
        false => "Int",
    };
    let output = handle_output(procedure);
    let argument = |parameter: &Parameter| match parameter == output {
        true => "new".to_owned(),
        false => identifier(parameter),
    };
    let arguments: Vec<String> = procedure.parameters.iter().map(argument).collect();
    let name = procedure.real_name();
    format!(
        "{}(rt, (Proc::{}, CountSize::{counts}), {old}, {}, |{old}, new| real::{}({}))",
        function(procedure),
        procedure.name,
        identifier(output),
        procedure.arguments.get(1).unwrap_or(&name),
        arguments.join(", ")
    )
}

/// Returns the function's call with a closure that calls the library.
fn query(procedure: &Procedure) -> String {
    format!(
        "{}(rt, || {})",
        function(procedure),
        library_call(procedure, translated)
    )
}

/// Returns the type of the handle that a conversion takes or returns.
fn converted(procedure: &Procedure) -> Handle {
    let types = procedure.parameters.iter();
    let mut handles = types
        .map(|parameter| parameter.c_type.as_str())
        .chain([procedure.returns.as_str()])
        .filter_map(Handle::from_c_type);
    handles.next().expect("a conversion has a handle")
}

/// Returns a conversion of a handle to Fortran's number.
///
/// The library converts predefined handles.
fn to_fortran(procedure: &Procedure) -> String {
    format!(
        "to_fortran(HandleKind::{}, {}.0, || {})",
        converted(procedure).name(),
        identifier(&procedure.parameters[0]),
        library_call(procedure, translated)
    )
}

/// Returns a conversion of Fortran's number to a handle.
///
/// The library converts the numbers of predefined handles.
fn from_fortran(procedure: &Procedure) -> String {
    let kind = format!("HandleKind::{}", converted(procedure).name());
    format!(
        "Virt{}(from_fortran(rt, {kind}, {}, |index| conversion::exists(rt, {kind}, index), || \
         {}.0))",
        converted(procedure).name(),
        identifier(&procedure.parameters[0]),
        library_call(procedure, translated)
    )
}

/// Writes a handler that consists of one call of a function.
pub(crate) fn handler(out: &mut String, procedure: &Procedure) {
    let expression = match procedure.source {
        Source::Call => call(procedure),
        Source::Construct => construct(procedure),
        Source::Derive => derive(procedure),
        Source::Tool => query(procedure),
        Source::ToFortran => to_fortran(procedure),
        Source::FromFortran => from_fortran(procedure),
        other => panic!(
            "`{}`: {} has another template",
            procedure.name,
            other.name()
        ),
    };
    let _ = write!(
        out,
        "    pub unsafe extern \"C\" fn h_{}({}) -> {} {{\n\
         \x20       let rt = crate::calls::runtime();\n\
         \x20       // SAFETY: the program's arguments are passed on.\n\
         \x20       unsafe {{ {expression} }}\n    }}\n\n",
        procedure.name,
        types::parameter_list(procedure, Side::Virt),
        types::return_type(procedure, Side::Virt)
    );
}
