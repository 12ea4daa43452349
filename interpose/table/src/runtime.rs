//! Generator of the runtime's source: declarations, handlers, and the table of handlers.

use crate::collective;
use crate::model::{Class, Handle, Policy, Procedure, Rule, Source, Table};
use crate::preload_library;
use crate::template;
use crate::types::{self, ALLOW, Side};
use std::fmt::Write;

/// Returns the declarations for all modules.
pub(crate) fn procedure_source(table: &Table) -> String {
    let mut out = String::new();
    preload_library::counts(&mut out, table);
    procedures(&mut out, table);
    preload_library::names(&mut out, table);
    predefined(&mut out, table);
    out.push_str("\npub use understudy_mpi::{callbacks, real};\n");
    collective::initialisers(&mut out, table);
    out
}

/// Returns the generated handlers and the table of all handlers.
pub(crate) fn handler_source(table: &Table) -> String {
    let mut out = String::from("use crate::generated::{Proc, SLOT_COUNT, callbacks, real};\n");
    generic_handlers(&mut out, table);
    checks(&mut out, table);
    out.push_str(STUBS);
    handlers(&mut out, table);
    out
}

/// Methods of the enum of procedures.
const PROC_METHODS: &str = r#"
impl Proc {
    /// Returns the procedure of a slot; `None` for slots of other functions.
    pub fn from_slot(slot: u32) -> Option<Proc> {
        Proc::ALL.get(slot as usize).copied()
    }

    /// Returns the procedure of this name.
    pub fn from_name(name: &str) -> Option<Proc> {
        Proc::ALL.into_iter().find(|procedure| procedure.name() == name)
    }

    pub const fn slot(self) -> u32 {
        self as u32
    }

    /// Returns the name of the procedure without a trailing NUL.
    pub fn name(self) -> &'static str {
        SLOT_NAMES[self as usize].to_str().unwrap_or("?")
    }
}
"#;

fn procedures(out: &mut String, table: &Table) {
    out.push_str(
        "\n/// The MPI procedures, numbered by their slots.\n\
         #[allow(non_camel_case_types, missing_docs)]\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u16)]\npub enum Proc {\n",
    );
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let _ = writeln!(out, "    {} = {slot},", procedure.name);
    }
    out.push_str(
        "}\n\nimpl Proc {\n    /// All procedures, by slot.\n    pub const ALL: [Proc; \
        PROC_COUNT] = [\n",
    );
    for procedure in &table.procedures {
        let _ = writeln!(out, "        Proc::{},", procedure.name);
    }
    out.push_str("    ];\n}\n");
    out.push_str(PROC_METHODS);
    slots(
        out,
        table,
        "MAY_WAIT",
        "Slots of procedures that may wait for other jobs or programs without polling for a cut.",
        |procedure| procedure.is(Rule::Waits),
    );
    flags(
        out,
        table,
        "LOCAL",
        "For each slot, true if the procedure waits for no process and changes no other one.",
        |procedure| procedure.is(Rule::Local),
    );
    flags(
        out,
        table,
        "COLLECTIVE",
        "For each slot, true if the procedure is a blocking collective.",
        |procedure| procedure.class == Class::Collective,
    );
    slots(
        out,
        table,
        "EXECUTED",
        "Slots of procedures that a replay executes, since they return memory.",
        |procedure| procedure.is(Rule::Executed),
    );
    slots(
        out,
        table,
        "RECEIVES",
        "Slots of procedures that receive a message before they return.",
        |procedure| procedure.is(Rule::Receives),
    );
    slots(
        out,
        table,
        "DOUBLES",
        "Slots of procedures that return a double.",
        |procedure| procedure.returns == "double",
    );
}

/// Writes a static with the slots of the procedures that `selects` selects.
fn slots(out: &mut String, table: &Table, name: &str, doc: &str, selects: fn(&Procedure) -> bool) {
    let rows = table.procedures.iter().enumerate();
    let rows: Vec<_> = rows.filter(|(_, procedure)| selects(procedure)).collect();
    let _ = writeln!(
        out,
        "\n/// {doc}\npub static {name}: [u32; {}] = [",
        rows.len()
    );
    for (_, procedure) in rows {
        let _ = writeln!(out, "    Proc::{}.slot(),", procedure.name);
    }
    out.push_str("];\n");
}

/// Writes a static with an entry for each slot: true if `selects` selects the procedure.
fn flags(out: &mut String, table: &Table, name: &str, doc: &str, selects: fn(&Procedure) -> bool) {
    let _ = writeln!(
        out,
        "\n/// {doc}\npub static {name}: [bool; PROC_COUNT] = ["
    );
    for procedure in &table.procedures {
        let _ = writeln!(out, "    {}, // {}", selects(procedure), procedure.name);
    }
    out.push_str("];\n");
}

/// Writes the table of exported objects to which predefined handles point.
fn predefined(out: &mut String, table: &Table) {
    out.push_str("\npub use understudy_mpi::real_types::HandleKind;\n");
    let rows: Vec<_> = table
        .data
        .iter()
        .enumerate()
        .filter_map(|(i, data)| Some((i, data, data.predefined?)))
        .collect();
    let _ = writeln!(
        out,
        "\n/// Kind of each predefined handle and the index of its object in `DATA_SYMBOLS`.\n\
         pub static PREDEFINED: [(HandleKind, usize); {}] = [",
        rows.len()
    );
    for (index, data, kind) in rows {
        let _ = writeln!(
            out,
            "    (HandleKind::{}, {index}), // {}",
            kind.name(),
            data.name
        );
    }
    out.push_str("];\n");
}

/// Writes the imports of the types in signatures.
pub(crate) fn imports(out: &mut String) {
    let names = |prefix: &str| {
        let name = |handle: &Handle| format!("{prefix}{}", handle.name());
        Handle::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let _ = write!(
        out,
        "    use core::ffi::{{c_char, c_double, c_int, c_void}};\n\
         \x20   use crate::handles::{{{}}};\n\
         \x20   use understudy_mpi::real_types::{{{}, Status}};\n\
         \x20   use super::callbacks::*;\n",
        names("Virt"),
        names("Real")
    );
}

fn generic_handler(out: &mut String, procedure: &Procedure) {
    let name = &procedure.name;
    let parameters = types::parameter_list(procedure, Side::Virt);
    let result = types::return_type(procedure, Side::Virt);
    let arguments: Vec<String> = procedure.parameters.iter().map(types::translated).collect();
    let call = format!("real::{}({})", procedure.real_name(), arguments.join(", "));
    let safety = "        // SAFETY: the program's arguments are passed on.\n";
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn h_{name}({parameters}) -> {result} {{"
    );
    // A procedure that returns no error code has no handle either.
    if result == "c_int" {
        out.push_str("        let rt = crate::calls::runtime();\n");
        let communicator = match procedure.communicator() {
            Some(parameter) => format!("Some({})", types::identifier(parameter)),
            None => "None".to_owned(),
        };
        let _ = write!(
            out,
            "{safety}        let rc = unsafe {{ {call} }};\n\x20       \
             crate::error_handling::finish(rt, Proc::{name}, rc, {communicator})\n    }}\n\n"
        );
    } else {
        let _ = write!(out, "{safety}        unsafe {{ {call} }}\n    }}\n\n");
    }
}

fn generic_handlers(out: &mut String, table: &Table) {
    let _ = writeln!(
        out,
        "\n/// Handlers that translate handles and call the real \
         procedure.\n{ALLOW}#[allow(unused_unsafe)]\nmod generic {{"
    );
    imports(out);
    out.push_str(
        "    use super::{Proc, real};\n    use understudy_mpi::real_types::IN_PLACE;\n    use \
        crate::requests::Argument;\n    use crate::calls::{is_root, local_size, peer_count};\n",
    );
    template::imports(out, table);
    out.push('\n');
    for procedure in &table.procedures {
        match procedure.source {
            Source::Generic => generic_handler(out, procedure),
            Source::Collective => collective::blocking(out, procedure),
            Source::Nonblocking => collective::nonblocking(out, procedure),
            Source::Persistent => collective::persistent(out, procedure),
            Source::Call
            | Source::Construct
            | Source::Derive
            | Source::Tool
            | Source::ToFortran
            | Source::FromFortran => template::handler(out, procedure),
            Source::Manual | Source::Refused => {}
        }
    }
    out.push_str("}\n");
}

/// Writes checks of signatures: a handwritten handler with another signature does not compile.
fn checks(out: &mut String, table: &Table) {
    let _ = writeln!(
        out,
        "\n/// Checks of the signatures of handlers that are not generated.\n{ALLOW}mod checks {{"
    );
    imports(out);
    let manual = table.procedures.iter();
    for procedure in manual.filter(|procedure| procedure.source == Source::Manual) {
        let pointer = types::fn_pointer(procedure, Side::Virt);
        let _ = writeln!(
            out,
            "    const _: {pointer} = crate::calls::{};",
            procedure.name
        );
    }
    out.push_str("}\n");
}

/// Type of the table's elements, and handlers that refuse.
const STUBS: &str = r#"
/// Address of a handler of any signature.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Handler(*const ());

// SAFETY: the address of a function, which any thread may call.
unsafe impl Sync for Handler {}

impl Handler {
    /// Calls the slot's function of the real library without a handler.
    pub const FORWARD: Handler = Handler(core::ptr::null());

    /// True for `FORWARD`.
    pub fn is_forward(self) -> bool {
        self.0.is_null()
    }

    /// Returns the address; null for `FORWARD`.
    pub fn address(self) -> *const () {
        self.0
    }
}

/// Handlers that refuse a call; each slot has its own, which contains the slot.
#[allow(dead_code)]
mod stubs {
    use super::Proc;
    use core::ffi::c_int;

    pub extern "C" fn unsupported<const SLOT: u16>() -> c_int {
        crate::error_handling::unsupported(crate::calls::runtime(), Proc::ALL[SLOT as usize])
    }

    pub extern "C" fn refused<const SLOT: u16>() -> c_int {
        crate::error_handling::refused(SLOT as u32)
    }
}
"#;

/// Returns the expression of a procedure's handler.
fn handler(slot: usize, procedure: &Procedure) -> String {
    let name = &procedure.name;
    match procedure.source {
        Source::Manual => format!("crate::calls::{name}"),
        Source::Refused => {
            let result = types::return_type(procedure, Side::Virt);
            assert_eq!(
                result, "c_int",
                "`{name}` has no stub that returns {result}"
            );
            format!("stubs::unsupported::<{slot}>")
        }
        _ => format!("generic::h_{name}"),
    }
}

fn handlers(out: &mut String, table: &Table) {
    out.push_str(
        "\n/// The handler of each slot.\npub static HANDLERS: [Handler; SLOT_COUNT] = [\n",
    );
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let _ = writeln!(
            out,
            "    Handler({} as *const ()),",
            handler(slot, procedure)
        );
    }
    for (index, function) in table.functions.iter().enumerate() {
        let slot = table.procedures.len() + index;
        let _ = match function.policy {
            Policy::Forward | Policy::Callback => {
                writeln!(out, "    Handler::FORWARD, // {}", function.name)
            }
            Policy::Serve => writeln!(
                out,
                "    Handler(crate::calls::{} as *const ()),",
                function.name
            ),
            Policy::Refuse => writeln!(
                out,
                "    Handler(stubs::refused::<{slot}> as *const ()), // {}",
                function.name
            ),
        };
    }
    out.push_str("];\n");
}
