//! Generator of the preload library's source: thunks, data symbols, and lists of both.

use crate::model::{Data, Flag, Policy, Procedure, Table};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Macro that defines thunks, which jump to an entry of the runtime with their slot.
///
/// A thunk changes neither the stack nor a register with an argument, and leaves no frame on the
/// stack, so the unwinder needs no description of a thunk.
const THUNKS_MACRO: &str = r#"
macro_rules! thunks {
    ($($slot:literal $index:literal $($name:ident)+;)*) => { $($(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov eax, {slot}",
                "jmp qword ptr [rip + {entry} + 8 * {index}]",
                slot = const $slot,
                index = const $index,
                entry = sym crate::entry::ENTRY,
            )
        }
    )+)* };
}
"#;

const OBJECTS_MACRO: &str = r#"
macro_rules! objects {
    ($($name:ident $type:ident $size:literal;)*) => { $(
        #[unsafe(no_mangle)]
        pub static mut $name: super::$type<$size> = super::$type([0; $size]);
    )* };
}
"#;

const ALLOW_NAMES: &str =
    "#[allow(non_snake_case, non_upper_case_globals, missing_docs, clippy::missing_safety_doc)]\n";

pub(crate) fn source(table: &Table) -> String {
    let mut out = String::new();
    counts(&mut out, table);
    thunks(&mut out, table);
    storage(&mut out, &table.data);
    names(&mut out, table);
    addresses(&mut out, &table.data);
    out
}

/// Writes the numbers of slots, procedures, objects and stack words.
pub(crate) fn counts(out: &mut String, table: &Table) {
    let _ = write!(
        out,
        "/// Number of slots.\npub const SLOT_COUNT: usize = {};\n/// Number of slots that are \
         MPI procedures: the first ones.\npub const PROC_COUNT: usize = {};\n/// Number of \
         exported objects.\npub const DATA_COUNT: usize = {};\n/// Words of stack arguments that \
         each entry copies.\npub const STACK_WORDS: [usize; {}] = {STACK_WORDS:?};\n",
        table.slot_count(),
        table.procedures.len(),
        table.data.len(),
        STACK_WORDS.len()
    );
}

/// Numbers of words of stack arguments that the entries copy.
///
/// Entry 0 serves procedures with up to 6 arguments, which are all in registers, entry 1 those with
/// up to 8 arguments, and entry 2 those with up to 14.
const STACK_WORDS: [usize; 3] = [0, 2, 8];
/// Number of arguments that are passed in registers (System V ABI for x86-64, 3.2.3).
const REGISTER_ARGUMENTS: usize = 6;

/// Returns the index of the first entry that copies enough stack words for a procedure.
fn entry_index(procedure: &Procedure) -> usize {
    let words = procedure
        .parameters
        .len()
        .saturating_sub(REGISTER_ARGUMENTS);
    STACK_WORDS
        .iter()
        .position(|copied| *copied >= words)
        .expect("an entry for the longest list")
}

fn thunks(out: &mut String, table: &Table) {
    let procedures = table.procedures.iter().map(|procedure| {
        let names = [procedure.exported_names(), procedure.older_names()].concat();
        let list = if procedure.has(Flag::Newer) { 1 } else { 0 };
        (entry_index(procedure), names.join(" "), list)
    });
    // The number of arguments of these functions is unknown.
    let last_entry = STACK_WORDS.len() - 1;
    let functions = table.functions.iter();
    let functions = functions.map(|function| {
        let list = match function.policy {
            Policy::Callback => 2,
            Policy::Forward | Policy::Refuse | Policy::Serve => 0,
        };
        (last_entry, function.name.clone(), list)
    });
    let _ = writeln!(
        out,
        "\n{ALLOW_NAMES}pub mod thunks {{{THUNKS_MACRO}\nthunks! {{"
    );
    let mut lists = [const { String::new() }; 3];
    for (slot, (entry, names, list)) in procedures.chain(functions).enumerate() {
        let _ = writeln!(lists[list], "    {slot} {entry} {names};");
    }
    let [all, newer, callbacks] = lists;
    // Open MPI lacks the newer procedures. A program tests for a procedure by looking up its name,
    // so only the libraries for MPICH's ABI export these procedures. Predefined callbacks are
    // exported for Open MPI only, because MPICH's Fortran bindings define them.
    let _ = writeln!(
        out,
        "{all}}}\n\n#[cfg(feature = \"mpich\")]\nthunks! {{\n{newer}}}\n\n#[cfg(not(feature = \
         \"mpich\"))]\nthunks! {{\n{callbacks}}}\n}}"
    );
}

/// Writes the library's copies of libmpi's data symbols.
fn storage(out: &mut String, data: &[Data]) {
    let alignments: BTreeSet<usize> = data.iter().map(|object| object.alignment).collect();
    for alignment in alignments {
        let _ = write!(
            out,
            "\n/// Storage aligned to {alignment}.\n#[repr(C, align({alignment}))]\n\
             pub struct Data{alignment}<const SIZE: usize>(pub [u8; SIZE]);\n"
        );
    }
    let _ = writeln!(
        out,
        "\n{ALLOW_NAMES}pub mod objects {{{OBJECTS_MACRO}\nobjects! {{"
    );
    for Data {
        name,
        alignment,
        size,
        ..
    } in data
    {
        let _ = writeln!(out, "    {name} Data{alignment} {size};");
    }
    out.push_str("}\n}\n");
}

/// Writes the lists of names that the preload library and the runtime share.
pub(crate) fn names(out: &mut String, table: &Table) {
    out.push_str(
        "\n/// Name of each slot.\npub static SLOT_NAMES: [&core::ffi::CStr; SLOT_COUNT] = [\n",
    );
    for name in table.slot_names() {
        let _ = writeln!(out, "    c\"{name}\",");
    }
    out.push_str("];\n\n/// Name and size of each exported object.\n");
    out.push_str("pub static DATA_SYMBOLS: [(&core::ffi::CStr, usize); DATA_COUNT] = [\n");
    for Data { name, size, .. } in &table.data {
        let _ = writeln!(out, "    (c\"{name}\", {size}),");
    }
    out.push_str("];\n");
}

/// Writes the addresses of data symbols as ld.so binds them.
///
/// A program's file may contain a copy of a symbol (a copy relocation). In that case ld.so binds
/// the symbol to the copy.
fn addresses(out: &mut String, data: &[Data]) {
    out.push_str(
        "\n/// Address of an exported object, as ld.so binds it for the program.\n\
         #[repr(transparent)]\npub struct \
         DataAddress(pub *mut u8);\n\n// SAFETY: the address is not accessed here.\nunsafe impl \
         Sync for \
         DataAddress {}\n\n/// Addresses of the exported objects, as ld.so binds them for the \
         program.\n///\n/// An \
         object is in this library, or is a copy in the program's own file.\npub static \
         DATA_ADDRESSES: [DataAddress; DATA_COUNT] = [\n",
    );
    for Data { name, .. } in data {
        let _ = writeln!(out, "    DataAddress(&raw mut objects::{name} as *mut u8),");
    }
    out.push_str("];\n");
}
