//! Generator of the calls of the real library's procedures.
//!
//! Handlers call `real::PMPI_NAME(…)`, which jumps to the address in a table.

use crate::landing;
use crate::model::{Handle, Procedure, Table};
use crate::types::{self, Side};
use crate::types::{ALLOW, CALLBACKS};
use std::fmt::Write;

/// Returns the callback types, the table of addresses, and its functions.
pub(crate) fn source(table: &Table) -> String {
    let mut out = String::new();
    callbacks(&mut out);
    addresses(&mut out, table, "the real procedures", "PROCEDURES");
    functions(&mut out, table);
    out
}

/// Writes a table of addresses; `owner` completes its documentation.
pub(crate) fn addresses(out: &mut String, table: &Table, owner: &str, name: &str) {
    let count = table.procedures.len();
    let _ = writeln!(
        out,
        "\n/// Addresses of {owner}, by slot.\n\
         pub(crate) static {name}: [crate::library::Procedure; {count}] = ["
    );
    for procedure in &table.procedures {
        let _ = writeln!(
            out,
            "    crate::library::Procedure::new(c\"{}\"),",
            procedure.real_name()
        );
    }
    out.push_str("];\n");
}

/// Returns the number of arguments on the stack.
///
/// Six arguments are in registers (System V ABI, 3.2.3).
pub(crate) fn stack_words(procedure: &Procedure) -> usize {
    procedure.parameters.len().saturating_sub(6)
}

fn functions(out: &mut String, table: &Table) {
    let names: Vec<String> = Handle::ALL
        .iter()
        .map(|handle| format!("Real{}", handle.name()))
        .collect();
    let imports = format!(
        "\x20   use super::callbacks::*;\n\
         \x20   use crate::real_types::{{{}, Status}};\n\
         \x20   use core::ffi::{{c_char, c_double, c_int, c_void}};\n",
        names.join(", ")
    );
    let (mut public, mut unnoted) = (String::new(), String::new());
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let landings = landing::statements(procedure);
        if landings.is_empty() {
            call(&mut public, slot, procedure);
        } else {
            call(&mut unnoted, slot, procedure);
            noting_call(&mut public, procedure, &landings);
        }
    }
    let _ = write!(
        out,
        "\n/// The real library's procedures.\n{ALLOW}pub mod real {{\n{imports}\
         \x20   use super::unnoted;\n\
         \x20   use crate::abi::{{degrees, members}};\n\
         \x20   use crate::landings::{{self, Duration}};\n{public}}}\n\
         \n/// The real library's procedures with receive buffers.\n{ALLOW}mod unnoted {{\n\
         {imports}{unnoted}}}\n"
    );
}

/// Writes a function that jumps to a procedure.
fn call(out: &mut String, slot: usize, procedure: &Procedure) {
    let words = stack_words(procedure);
    let _ = write!(
        out,
        "    #[unsafe(naked)]\n\
         \x20   pub unsafe extern \"C\" fn {} {{\n\
         \x20       crate::call::through!(super::PROCEDURES, {slot}, call_{words})\n\
         \x20   }}\n",
        signature(procedure)
    );
}

/// Writes a function that executes `landings`, and then calls a procedure.
fn noting_call(out: &mut String, procedure: &Procedure, landings: &[String]) {
    let arguments: Vec<String> = procedure.parameters.iter().map(types::identifier).collect();
    let _ = write!(
        out,
        "    #[inline]\n\
         \x20   pub unsafe extern \"C\" fn {} {{\n\
         \x20       // SAFETY: the caller's arguments.\n\
         \x20       unsafe {{\n{}\
         \x20           unnoted::{}({})\n\
         \x20       }}\n\
         \x20   }}\n",
        signature(procedure),
        landings
            .iter()
            .map(|line| format!("            {line}\n"))
            .collect::<String>(),
        procedure.real_name(),
        arguments.join(", ")
    );
}

fn signature(procedure: &Procedure) -> String {
    format!(
        "{}({}) -> {}",
        procedure.real_name(),
        types::parameter_list(procedure, Side::Real),
        types::return_type(procedure, Side::Real),
    )
}

fn callbacks(out: &mut String) {
    out.push_str(
        "\n/// Types of callbacks; `H` is the type of handle that a callback \
         receives.\n#[allow(dead_code)]\npub mod callbacks {\n",
    );
    out.push_str("    use core::ffi::{c_int, c_void};\n    use crate::real_types::Status;\n");
    for (kind, handle, signature) in CALLBACKS {
        let (name, generics) = (kind.name(), handle.map_or("", |_| "<H>"));
        let _ = writeln!(out, "    /// `{name}`");
        let _ = writeln!(
            out,
            "    pub type {name}{generics} = Option<unsafe extern \"C\" fn{signature}>;"
        );
    }
    out.push_str("}\n");
}
