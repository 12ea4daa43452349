//! The runtime's source: declarations, generated handlers and the table of handlers.

use crate::collective;
use crate::face;
use crate::model::{Class, Handle, Policy, Procedure, Support, Table};
use crate::types::{self, ALLOW, Side};
use std::collections::HashSet;
use std::fmt::Write;

/// Where a procedure's handler comes from at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is generated: handles are translated.
    Generated,
    /// It is generated: a blocking collective, which may be where a cut is taken.
    Collective,
    /// It is generated: a non-blocking collective, whose request is put on record.
    Nonblocking,
    /// It is generated: a persistent collective, whose request is made again from its arguments.
    Persistent,
    /// It is `crate::calls::NAME`.
    Written,
    /// It refuses.
    Refused,
}

/// Each procedure with the source of its handler.
pub(crate) fn sources<'t>(table: &'t Table, implemented: &[&str]) -> Vec<(&'t Procedure, Source)> {
    let written: HashSet<&str> = implemented.iter().copied().collect();
    assert_eq!(
        written.len(),
        implemented.len(),
        "a name occurs twice in the list of implemented procedures"
    );
    for name in implemented {
        assert!(
            table.procedure(name).is_some(),
            "`{name}` is no procedure of the call table"
        );
    }
    let source = |procedure: &Procedure| match procedure.support {
        _ if written.contains(procedure.name.as_str()) => Source::Written,
        Support::Generic => Source::Generated,
        Support::Manual if procedure.class == Class::PersistentCollective => Source::Persistent,
        // An array of datatype handles needs a translated copy, which is written by hand.
        Support::Manual if has_type_array(procedure) => Source::Refused,
        Support::Manual if procedure.class == Class::Collective => Source::Collective,
        Support::Manual if procedure.class == Class::NonblockingCollective => Source::Nonblocking,
        Support::Manual | Support::Unsupported => Source::Refused,
    };
    table
        .procedures
        .iter()
        .map(|procedure| (procedure, source(procedure)))
        .collect()
}

fn has_type_array(procedure: &Procedure) -> bool {
    procedure
        .parameters
        .iter()
        .any(|parameter| parameter.c_type.contains("MPI_Datatype*"))
}

pub(crate) fn source(table: &Table, implemented: &[&str]) -> String {
    let sources = sources(table, implemented);
    let mut out = String::from("// Generated from the call table; not to be edited.\n\n");
    face::counts(&mut out, table);
    procedures(&mut out, table);
    face::names(&mut out, table);
    predefined(&mut out, table);
    out.push_str("\npub use understudy_mpi::{callbacks, real};\n");
    generic_handlers(&mut out, &sources);
    collective::initialisers(&mut out, table);
    checks(&mut out, &sources);
    out.push_str(STUBS);
    handlers(&mut out, table, &sources);
    out
}

/// The methods of the enum of procedures.
const PROC_METHODS: &str = r#"
impl Proc {
    /// The procedure of a slot, if it is that of a procedure.
    pub fn from_slot(slot: u32) -> Option<Proc> {
        Proc::ALL.get(slot as usize).copied()
    }

    /// The procedure of a name.
    pub fn from_name(name: &str) -> Option<Proc> {
        Proc::ALL.into_iter().find(|procedure| procedure.name() == name)
    }

    /// Its slot.
    pub const fn slot(self) -> u32 {
        self as u32
    }

    /// Its name without a trailing NUL.
    pub fn name(self) -> &'static str {
        SLOT_NAMES[self as usize].to_str().unwrap_or("?")
    }
}
"#;

/// Whether it may wait for what other processes' programs do without looking for a cut meanwhile, and its handler does not say so itself.
pub(crate) fn may_wait(procedure: &Procedure) -> bool {
    const OTHERS: [&str; 9] = [
        "MPI_Abort",
        "MPI_Comm_disconnect",
        "MPI_Comm_free",
        "MPI_Finalize",
        "MPI_Win_allocate",
        "MPI_Win_allocate_shared",
        "MPI_Win_create",
        "MPI_Win_create_dynamic",
        "MPI_Win_free",
    ];
    let classes = [
        Class::CommConstructor,
        Class::Session,
        Class::PersistentCollective,
    ];
    classes.contains(&procedure.class) || OTHERS.contains(&procedure.name.as_str())
}

/// Whether it waits for nobody, and leaves alone what other processes know of.
pub(crate) fn is_local(procedure: &Procedure) -> bool {
    const LOCAL: [Class; 9] = [
        Class::Attribute,
        Class::Comm,
        Class::Conversion,
        Class::Datatype,
        Class::Group,
        Class::Info,
        Class::Op,
        Class::Status,
        Class::Topology,
    ];
    /// Of classes that have others, too.
    const OTHERS: [&str; 13] = [
        "MPI_Address",
        "MPI_Alloc_mem",
        "MPI_Free_mem",
        "MPI_Get_address",
        "MPI_Get_processor_name",
        "MPI_Win_create_keyval",
        "MPI_Win_delete_attr",
        "MPI_Win_free_keyval",
        "MPI_Win_get_attr",
        "MPI_Win_get_group",
        "MPI_Win_get_info",
        "MPI_Win_get_name",
        "MPI_Win_set_attr",
    ];
    let name = procedure.name.as_str();
    if OTHERS.contains(&name) {
        return true;
    }
    match procedure.class {
        Class::Errhandler => !name.ends_with("_call_errhandler"),
        Class::Destructor => {
            !["MPI_Comm_disconnect", "MPI_Comm_free", "MPI_Request_free"].contains(&name)
        }
        Class::Environment => {
            name.contains("_error_") || name.contains("_Error_") || name.contains("_Wti")
        }
        class => LOCAL.contains(&class),
    }
}

fn procedures(out: &mut String, table: &Table) {
    out.push_str(
        "\n/// The MPI procedures, numbered by their slots.\n\
         #[allow(non_camel_case_types, missing_docs)]\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u16)]\npub enum Proc {\n",
    );
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let _ = writeln!(out, "    {} = {slot},", procedure.name);
    }
    out.push_str("}\n\nimpl Proc {\n    /// All of them, by slot.\n    pub const ALL: [Proc; PROC_COUNT] = [\n");
    for procedure in &table.procedures {
        let _ = writeln!(out, "        Proc::{},", procedure.name);
    }
    out.push_str("    ];\n}\n");
    out.push_str(PROC_METHODS);
    let waiting: Vec<usize> = (0..table.procedures.len())
        .filter(|&slot| may_wait(&table.procedures[slot]))
        .collect();
    let _ = writeln!(
        out,
        "\n/// Slots of procedures that may wait for what other processes' programs do, and whose handlers do not say so themselves.\n\
         pub static MAY_WAIT: [u32; {}] = {waiting:?};",
        waiting.len()
    );
    let locals: Vec<bool> = table.procedures.iter().map(is_local).collect();
    let _ = writeln!(
        out,
        "\n/// By slot: whether the procedure waits for nobody, and leaves alone what other processes know of.\n\
         pub static LOCAL: [bool; PROC_COUNT] = {locals:?};"
    );
}

/// Which exported objects are the targets of predefined handles.
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

/// The types that signatures are made of.
pub(crate) fn imports(out: &mut String) {
    let names = |prefix: &str| {
        let one = |handle: &Handle| format!("{prefix}{}", handle.name());
        Handle::ALL.iter().map(one).collect::<Vec<_>>().join(", ")
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
    let safety = "        // SAFETY: the program's arguments are handed on.\n";
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn h_{name}({parameters}) -> {result} {{"
    );
    // One that returns no code translates no handle either.
    if result == "c_int" {
        out.push_str("        let rt = crate::calls::runtime();\n");
        let communicator = match procedure.communicator() {
            Some(parameter) => format!("Some({})", types::identifier(parameter)),
            None => "None".to_owned(),
        };
        let _ = write!(
            out,
            "{safety}        let rc = unsafe {{ {call} }};\n\
             \x20       crate::raise::finish(rt, Proc::{name}, rc, {communicator})\n    }}\n\n"
        );
    } else {
        let _ = write!(out, "{safety}        unsafe {{ {call} }}\n    }}\n\n");
    }
}

fn generic_handlers(out: &mut String, sources: &[(&Procedure, Source)]) {
    let _ = writeln!(
        out,
        "\n/// Handlers that translate handles and call the real procedure.\n{ALLOW}mod generic {{"
    );
    imports(out);
    out.push_str("    use super::{Proc, real};\n    use crate::handles::IN_PLACE;\n    use crate::requests::Argument;\n    use crate::calls::{is_root, local_size, peer_count};\n\n");
    for (procedure, source) in sources {
        match source {
            Source::Generated => generic_handler(out, procedure),
            Source::Collective => collective::blocking(out, procedure),
            Source::Nonblocking => collective::nonblocking(out, procedure),
            Source::Persistent => collective::persistent(out, procedure),
            Source::Written | Source::Refused => {}
        }
    }
    out.push_str("}\n");
}

/// A hand-written handler of another signature than the table's does not compile.
fn checks(out: &mut String, sources: &[(&Procedure, Source)]) {
    let _ = writeln!(
        out,
        "\n/// The signatures of the handlers written by hand.\n{ALLOW}mod checks {{"
    );
    imports(out);
    for (procedure, source) in sources {
        if *source == Source::Written {
            let pointer = types::fn_pointer(procedure, Side::Virt);
            let _ = writeln!(
                out,
                "    const _: {pointer} = crate::calls::{};",
                procedure.name
            );
        }
    }
    out.push_str("}\n");
}

/// The table's element and the handlers that refuse.
const STUBS: &str = r#"
/// Address of a handler, whatever its signature.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Handler(*const ());

// SAFETY: the address of a function is the same for all threads.
unsafe impl Sync for Handler {}

impl Handler {
    /// The slot's function of the real library is to be called, as it is.
    pub const FORWARD: Handler = Handler(core::ptr::null());

    /// Whether it is `FORWARD`.
    pub fn is_forward(self) -> bool {
        self.0.is_null()
    }

    /// The address; null for `FORWARD`.
    pub fn address(self) -> *const () {
        self.0
    }
}

/// Handlers that refuse; one for each slot since they must know it.
#[allow(dead_code)]
mod stubs {
    use super::Proc;
    use core::ffi::{c_int, c_void};

    pub extern "C" fn unsupported<const SLOT: u16>() -> c_int {
        crate::raise::unsupported(crate::calls::runtime(), Proc::ALL[SLOT as usize])
    }

    pub extern "C" fn unsupported_file<const SLOT: u16>() -> c_int {
        crate::raise::unsupported_file(crate::calls::runtime(), Proc::ALL[SLOT as usize])
    }

    pub extern "C" fn unsupported_handle<const SLOT: u16>() -> *mut c_void {
        let _ = crate::raise::unsupported(crate::calls::runtime(), Proc::ALL[SLOT as usize]);
        core::ptr::null_mut()
    }

    pub extern "C" fn refused<const SLOT: u16>() -> c_int {
        crate::raise::refused(SLOT as u32)
    }
}
"#;

/// The expression of a procedure's handler.
fn handler(slot: usize, procedure: &Procedure, source: Source) -> String {
    let name = &procedure.name;
    match source {
        Source::Generated | Source::Collective | Source::Nonblocking | Source::Persistent => {
            format!("generic::h_{name}")
        }
        Source::Written => format!("crate::calls::{name}"),
        Source::Refused if Handle::from_c_type(&procedure.returns).is_some() => {
            format!("stubs::unsupported_handle::<{slot}>")
        }
        Source::Refused => {
            let result = types::return_type(procedure, Side::Virt);
            assert_eq!(
                result, "c_int",
                "`{name}` has no stub that returns {result}"
            );
            let stub = if procedure.class == Class::Io {
                "unsupported_file"
            } else {
                "unsupported"
            };
            format!("stubs::{stub}::<{slot}>")
        }
    }
}

fn handlers(out: &mut String, table: &Table, sources: &[(&Procedure, Source)]) {
    out.push_str(
        "\n/// The handler of each slot.\npub static HANDLERS: [Handler; SLOT_COUNT] = [\n",
    );
    for (slot, (procedure, source)) in sources.iter().enumerate() {
        let _ = writeln!(
            out,
            "    Handler({} as *const ()),",
            handler(slot, procedure, *source)
        );
    }
    for (index, function) in table.functions.iter().enumerate() {
        let slot = sources.len() + index;
        let _ = match function.policy {
            Policy::Forward => writeln!(out, "    Handler::FORWARD, // {}", function.name),
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
