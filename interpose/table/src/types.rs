//! Rust types of C parameters and results, for the program's and the library's handles.

use crate::kind::ParamKind;
use crate::model::{Handle, Parameter, Procedure};

/// Owner of the handles in a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Virtual handles of the program.
    Virt,
    /// Handles of the real library.
    Real,
}

impl Side {
    fn prefix(self) -> &'static str {
        match self {
            Side::Virt => "Virt",
            Side::Real => "Real",
        }
    }

    fn handle(self, handle: Handle) -> String {
        format!("{}{}", self.prefix(), handle.name())
    }
}

/// Callback types: name, type of the handle that is passed (the type parameter), Rust type.
///
/// An error callback has variadic arguments in C, so it is called as a variadic function, although
/// no variadic arguments are passed.
pub(crate) const CALLBACKS: &[(ParamKind, Option<Handle>, &str)] = &[
    (
        ParamKind::UserFunction,
        Some(Handle::Datatype),
        "(*mut c_void, *mut c_void, *mut c_int, *mut H)",
    ),
    (ParamKind::CommCopyFn, Some(Handle::Comm), COPY),
    (ParamKind::CommDeleteFn, Some(Handle::Comm), DELETE),
    (ParamKind::TypeCopyFn, Some(Handle::Datatype), COPY),
    (ParamKind::TypeDeleteFn, Some(Handle::Datatype), DELETE),
    (ParamKind::WinCopyFn, Some(Handle::Win), COPY),
    (ParamKind::WinDeleteFn, Some(Handle::Win), DELETE),
    (ParamKind::CommErrhandlerFn, Some(Handle::Comm), ERROR),
    (ParamKind::WinErrhandlerFn, Some(Handle::Win), ERROR),
    (ParamKind::FileErrhandlerFn, Some(Handle::File), ERROR),
    (ParamKind::SessionErrhandlerFn, Some(Handle::Session), ERROR),
    (
        ParamKind::GrequestQueryFn,
        None,
        "(*mut c_void, *mut Status) -> c_int",
    ),
    (ParamKind::GrequestFreeFn, None, "(*mut c_void) -> c_int"),
    (
        ParamKind::GrequestCancelFn,
        None,
        "(*mut c_void, c_int) -> c_int",
    ),
    (
        ParamKind::DatarepConversionFn,
        Some(Handle::Datatype),
        CONVERSION,
    ),
    (
        ParamKind::DatarepExtentFn,
        Some(Handle::Datatype),
        "(H, *mut isize, *mut c_void) -> c_int",
    ),
];

const COPY: &str = "(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int";
const DELETE: &str = "(H, c_int, *mut c_void, *mut c_void) -> c_int";
const ERROR: &str = "(*mut H, *mut c_int, ...)";
const CONVERSION: &str = "(*mut c_void, H, c_int, *mut c_void, i64, *mut c_void) -> c_int";

/// Returns the Rust type of a C type that is no handle or pointer.
fn plain(c_type: &str) -> Option<&'static str> {
    Some(match c_type {
        "void" | "MPI_F08_status" => "c_void",
        "char" => "c_char",
        "int" | "MPI_Fint" => "c_int",
        "int[3]" => "[c_int; 3]",
        "double" => "c_double",
        "MPI_Aint" => "isize",
        "MPI_Offset" | "MPI_Count" => "i64",
        "MPI_Status" => "Status",
        "MPI_T_enum" | "MPI_T_cvar_handle" | "MPI_T_pvar_handle" | "MPI_T_pvar_session" => {
            "*mut c_void"
        }
        _ => return None,
    })
}

/// Returns the Rust type of a C type, or `None` if it is unknown.
pub(crate) fn rust_type(c_type: &str, side: Side) -> Option<String> {
    let (core, pointer) = match c_type.strip_prefix("const ") {
        Some(core) => (core, "*const "),
        None => (c_type, "*mut "),
    };
    let base = core.trim_end_matches('*');
    let inner = match Handle::from_c_type(base) {
        Some(handle) => side.handle(handle),
        None => plain(base)?.to_owned(),
    };
    let depth = core.len() - base.len();
    // `const` qualifies the target of the innermost pointer.
    let pointers = if depth == 0 {
        String::new()
    } else {
        "*mut ".repeat(depth - 1) + pointer
    };
    Some(pointers + &inner)
}

/// Returns the Rust type of a parameter.
pub(crate) fn parameter_type(parameter: &Parameter, side: Side) -> String {
    if let Some((kind, handle, _)) = CALLBACKS.iter().find(|(kind, ..)| *kind == parameter.kind) {
        let argument = handle.map_or(String::new(), |handle| format!("<{}>", side.handle(handle)));
        return format!("{}{argument}", kind.name());
    }
    rust_type(&parameter.c_type, side)
        .unwrap_or_else(|| panic!("no Rust type for `{}`", parameter.c_type))
}

/// Returns the Rust type of a procedure's result.
pub(crate) fn return_type(procedure: &Procedure, side: Side) -> String {
    rust_type(&procedure.returns, side)
        .unwrap_or_else(|| panic!("no Rust type for `{}`", procedure.returns))
}

/// Returns the parameter's name as a valid Rust identifier.
pub(crate) fn identifier(parameter: &Parameter) -> String {
    const KEYWORDS: [&str; 8] = ["type", "in", "ref", "move", "match", "mod", "use", "where"];
    let name = &parameter.name;
    if KEYWORDS.contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name.clone()
    }
}

/// Returns the parameters as `a: T, b: U`.
pub(crate) fn parameter_list(procedure: &Procedure, side: Side) -> String {
    let declaration = |parameter: &Parameter| {
        format!(
            "{}: {}",
            identifier(parameter),
            parameter_type(parameter, side)
        )
    };
    procedure
        .parameters
        .iter()
        .map(declaration)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the type `unsafe extern "C" fn(T, U) -> R`.
pub(crate) fn fn_pointer(procedure: &Procedure, side: Side) -> String {
    let types: Vec<String> = procedure
        .parameters
        .iter()
        .map(|parameter| parameter_type(parameter, side))
        .collect();
    format!(
        "unsafe extern \"C\" fn({}) -> {}",
        types.join(", "),
        return_type(procedure, side)
    )
}

/// Attribute in front of modules of generated procedures.
pub(crate) const ALLOW: &str = "#[allow(dead_code, unused_imports, non_snake_case, \
    clippy::too_many_arguments, clippy::missing_safety_doc)]\n";

/// Returns the argument for the real procedure.
pub(crate) fn translated(parameter: &Parameter) -> String {
    let name = identifier(parameter);
    match Handle::from_c_type(&parameter.c_type) {
        Some(handle) => format!(
            "crate::handles::real_{}(rt, {name})",
            handle.name().to_lowercase()
        ),
        None => name,
    }
}
