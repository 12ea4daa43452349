//! Handlers of collectives, which are generated from templates.
//!
//! A blocking collective is a cut point, and a process may fail during the call. The templates of
//! nonblocking and persistent collectives record the requests that these create.

use crate::kind::ParamKind;
use crate::model::{Class, Flag, Handle, Parameter, Procedure, Rule, Table};
use crate::types::{self, Side};
use std::fmt::Write;

/// Returns the name of the communicator's parameter.
fn comm(procedure: &Procedure) -> String {
    procedure
        .communicator()
        .map(types::identifier)
        .expect("a collective has a communicator")
}

/// Returns the arguments of the call of the real procedure.
fn arguments(procedure: &Procedure) -> String {
    let argument = |parameter: &Parameter| match parameter.c_type.as_str() {
        "MPI_Request*" => "&mut real_request".to_owned(),
        _ => types::translated(parameter),
    };
    procedure
        .parameters
        .iter()
        .map(argument)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Writes the beginning of a handler: its signature, and the access to the state.
fn head(out: &mut String, procedure: &Procedure) {
    let parameters = types::parameter_list(procedure, Side::Virt);
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn h_{}({parameters}) -> c_int {{\n        let rt = \
         crate::calls::runtime();",
        procedure.name
    );
}

/// Writes the end of a handler.
///
/// `rc` is an expression with the result of `recovery::check` for the real procedure. `after` is
/// code between the call and the return of the handler; it is skipped after a recovery.
fn tail(out: &mut String, procedure: &Procedure, rc: &str, after: &str) {
    let (name, comm) = (&procedure.name, comm(procedure));
    let _ = write!(
        out,
        "        let rc = match {rc} {{\n            Ok(rc) => rc,\n            Err(_) => return \
         0,\n        }};\n{after}        crate::error_handling::finish(rt, Proc::{name}, rc, \
         Some({comm}))\n    }}\n\n"
    );
}

/// Returns code that records the first calls of a procedure that MPICH counts.
fn record_first_call(procedure: &Procedure, comm: &str) -> String {
    let name = &procedure.name;
    if !procedure.is(Rule::Counted) {
        return String::new();
    }
    let find = |matches: fn(&Parameter) -> bool| {
        procedure
            .parameters
            .iter()
            .find(|parameter| matches(parameter))
            .map(types::identifier)
    };
    let has_elements = find(|parameter| parameter.name == "count")
        .map_or("true".to_owned(), |count| format!("{count} > 0"));
    let op = find(|parameter| parameter.kind == ParamKind::Op)
        .map_or("None".to_owned(), |op| format!("Some({op})"));
    format!(
        "        if rc == 0 {{\n            crate::objects::comm::first_collectives::record(rt, \
         {comm}, Proc::{name}, {has_elements}, {op});\n        }}\n"
    )
}

const SAFETY: &str = "        // SAFETY: the program's arguments are passed on.\n";

/// Writes the handler of a blocking collective.
pub(crate) fn blocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let call = format!("unsafe {{ real::{}({arguments}) }}", procedure.real_name());
    head(out, procedure);
    let _ = writeln!(
        out,
        "        if crate::cut::collective(rt, {comm}).is_err() {{\n            return 0;\n        \
         }}"
    );
    out.push_str(SAFETY);
    let after = format!(
        "        if rc != 0 {{\n            crate::cut::withdraw(rt, {comm}, rc);\n        }}\n{}",
        record_first_call(procedure, &comm)
    );
    tail(
        out,
        procedure,
        &format!("crate::recovery::check(rt, {call})"),
        &after,
    );
}

/// Writes the handler of a non-blocking collective, which records the request.
pub(crate) fn nonblocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let request = procedure
        .parameters
        .last()
        .map(types::identifier)
        .expect("a request");
    head(out, procedure);
    let _ = write!(
        out,
        "        let mut real_request = RealRequest(core::ptr::null_mut());\n{SAFETY}"
    );
    let rc = format!(
        "crate::recovery::check(rt, unsafe {{ real::{}({arguments}) }})",
        procedure.real_name()
    );
    let find = |kind| {
        procedure
            .parameters
            .iter()
            .find(|parameter| parameter.kind == kind)
            .map(types::identifier)
    };
    let reduces = match (find(ParamKind::Op), find(ParamKind::Datatype)) {
        (Some(_), Some(datatype)) => format!("Some({datatype})"),
        _ => "None".to_owned(),
    };
    let after = format!(
        "        if rc == 0 {{\n            let added = crate::requests::add_collective(rt, \
         {comm}, {reduces}, real_request);\n\x20           // SAFETY: the program's argument.\n            \
         unsafe {{ {request}.write(added) }};\n        }}\n"
    );
    tail(out, procedure, &rc, &after);
}

/// Returns expressions for the length of an array and for the condition of reading it.
///
/// The library reads this number of elements. If the condition is false, the standard permits this
/// process to pass an undefined array, which must not be read.
fn array_length_and_condition(
    procedure: &Procedure,
    parameter: &Parameter,
) -> (&'static str, &'static str) {
    let length = match parameter.length.as_deref() {
        Some("indegree") => "crate::objects::comm::degrees(rt, comm).0 as usize",
        Some("outdegree") => "crate::objects::comm::degrees(rt, comm).1 as usize",
        Some("local_size") => "local_size(rt, comm)",
        _ => "peer_count(rt, comm)",
    };
    let has = |name: &str| procedure.parameters.iter().any(|other| other.name == name);
    let mut parameters = procedure.parameters.iter();
    let has_root = parameters.any(|other| other.kind == ParamKind::Root);
    let is_list = parameter.length.as_deref() == Some("comm_size");
    let condition = match parameter.name.starts_with('s') {
        _ if has_root => "is_root(rt, comm, root)",
        true if is_list && has("sendbuf") => "sendbuf != IN_PLACE",
        _ => "true",
    };
    (length, condition)
}

/// Returns the expression that records an argument.
fn recorded(procedure: &Procedure, parameter: &Parameter) -> String {
    let name = types::identifier(parameter);
    let array = |kind: &str| {
        let (length, condition) = array_length_and_condition(procedure, parameter);
        format!(
            "if {condition} {{ Argument::{kind}({name}.cast(), {length}) }} else {{ \
             Argument::Word({name} as u64) }}"
        )
    };
    match parameter.c_type.as_str() {
        "const int*" => array("integers"),
        "const MPI_Aint*" | "const MPI_Count*" => array("longs"),
        "const MPI_Datatype*" => array("datatypes"),
        "MPI_Datatype" => format!("Argument::Datatype({name}.0 as u64)"),
        "MPI_Op" => format!("Argument::Op({name}.0 as u64)"),
        "MPI_Comm" => format!("Argument::Comm({name}.0 as u64)"),
        "MPI_Info" => format!("Argument::Info({name}.0 as u64)"),
        _ => format!("Argument::Word({name} as u64)"),
    }
}

/// Returns the parameters except for the request.
fn inputs(procedure: &Procedure) -> &[Parameter] {
    let count = procedure.parameters.len();
    assert_eq!(procedure.parameters[count - 1].c_type, "MPI_Request*");
    &procedure.parameters[..count - 1]
}

/// Writes the handler of a persistent collective, which records the arguments.
pub(crate) fn persistent(out: &mut String, procedure: &Procedure) {
    let (name, comm) = (&procedure.name, comm(procedure));
    head(out, procedure);
    let recorded: Vec<String> = inputs(procedure)
        .iter()
        .map(|parameter| recorded(procedure, parameter))
        .collect();
    let _ = write!(
        out,
        "{SAFETY}        unsafe {{\n\x20           let arguments = vec![{}];\n\x20           \
         crate::calls::init_collective(rt, Proc::{name}, {comm}, arguments, request)\n        \
         }}\n    }}\n\n",
        recorded.join(", ")
    );
}

/// Writes the function that creates a persistent request again from its recipe.
///
/// The arguments of the request are one word each.
pub(crate) fn initialisers(out: &mut String, table: &Table) {
    let argument = |(index, parameter): (usize, &Parameter)| {
        let real = types::parameter_type(parameter, types::Side::Real);
        match Handle::from_c_type(&parameter.c_type) {
            Some(_) => format!("{real}(words[{index}] as *mut c_void)"),
            None => format!("words[{index}] as {real}"),
        }
    };
    let _ = write!(
        out,
        "\n/// Creates a persistent request from its arguments, one word each.\n///\n/// Returns \
         `None` for procedures whose requests have no recipes.\n///\n/// # Safety\n\
         /// The words must be the arguments of the procedure: real handles, and arrays that\n\
         /// outlive the request.\n#[allow(unsafe_code, clippy::too_many_lines)]\n\
         pub unsafe fn make_request(\n    \
         procedure: Proc,\n    words: &[u64],\n    request: *mut \
         understudy_mpi::real_types::RealRequest,\n) -> Option<core::ffi::c_int> {{\n\x20   use \
         core::ffi::{{c_int, c_void}};\n    use understudy_mpi::real_types::*;\n\x20   // SAFETY: \
         guaranteed by the caller.\n    Some(unsafe {{\n        match procedure {{\n"
    );
    let rows = table.procedures.iter();
    for procedure in rows.filter(|procedure| {
        procedure.has(Flag::Persistent) && procedure.class != Class::PersistentInit
    }) {
        let arguments: Vec<String> = inputs(procedure).iter().enumerate().map(argument).collect();
        let _ = writeln!(
            out,
            "            Proc::{} => real::{}({}, request),",
            procedure.name,
            procedure.real_name(),
            arguments.join(", ")
        );
    }
    out.push_str("            _ => return None,\n        }\n    })\n}\n");
}
