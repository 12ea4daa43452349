//! Generator of the MPICH preload library's exports in addition to thunks (`data/mpich.tbl`).
//!
//! The exports are procedures for large counts, aliases, and refusals. A procedure for large
//! counts, such as `MPI_Send_c`, calls the thunk of its *twin* with counts of type `int`,
//! `MPI_Send`. The runtime therefore implements only the twins. (Constructors of datatypes,
//! reductions, and other collectives are in the call table instead, with counts of 64 bits.) If a
//! count exceeds an int, one element of a datatype that contains all elements is passed. Where
//! this is impossible, the call returns an error; a count is never truncated.

use crate::abi::constants;
use crate::model::{Flag, Procedure, Table};
use crate::parse::rows;
use crate::types::identifier;
use std::fmt::Write;

/// Implementation of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation<'t> {
    /// Calls its twin, and narrows the parameters with these names, which are separated by blanks.
    Narrow(&'t Procedure, &'t str),
    /// Calls another procedure with an identical effect.
    As(&'t str),
    /// Calls this procedure if handles are addresses; returns an integer handle unchanged.
    Handle(&'t str),
    /// Calls a handwritten function.
    ByHand,
    Refused,
}

/// Returns each procedure of `mpich.tbl` with its implementation.
pub(crate) fn implementations<'t>(
    table: &'t Table,
    list: &'t str,
) -> Vec<(&'t str, Implementation<'t>)> {
    let parse = |(number, columns): (usize, Vec<&'t str>)| {
        let [name, method, detail] = columns[..] else {
            panic!("mpich.tbl, line {number}: not three columns")
        };
        let procedure = |name: &str| {
            let row = table.procedure(name);
            row.unwrap_or_else(|| panic!("mpich.tbl: `{name}` is no procedure of the call table"))
        };
        let implementation = match method {
            "narrow" => {
                Implementation::Narrow(procedure(name.strip_suffix("_c").unwrap_or(name)), detail)
            }
            "as" => Implementation::As(&procedure(detail).name),
            "handle" => Implementation::Handle(&procedure(detail).name),
            "by_hand" => Implementation::ByHand,
            "refused" => Implementation::Refused,
            other => panic!("mpich.tbl: `{other}` is no implementation of `{name}`"),
        };
        (name, implementation)
    };
    rows(list).map(parse).collect()
}

/// Macros that define functions which refuse the call, and functions which jump to another one.
const MACROS: &str = r#"
macro_rules! refusals {
    ($($number:literal $name:ident)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov edi, {number}",
                "jmp {refuse}",
                number = const $number,
                refuse = sym super::super::refuse,
            )
        }
    )* };
}

macro_rules! names {
    ($($name:ident $target:path;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!("jmp {target}", target = sym $target)
        }
    )* };
}
"#;

/// Address arithmetic (MPI 4.1, 4.1.5): functions in MPICH, macros in Open MPI.
const ADDRESSES: [(&str, &str); 2] = [
    ("MPI_Aint_add", r#""lea rax, [rdi + rsi]", "ret""#),
    ("MPI_Aint_diff", r#""mov rax, rdi", "sub rax, rsi", "ret""#),
];

const ALLOW: &str = "#[allow(non_snake_case, missing_docs, unused_mut, clippy::let_and_return, \
    clippy::missing_safety_doc, clippy::too_many_arguments)]\n";

/// Returns the source; `abis` is the table of ABIs, from which constants are taken.
pub(crate) fn source(table: &Table, list: &str, abis: &str) -> String {
    let served = implementations(table, list);
    let is_refused = |row: &&(&str, Implementation)| row.1 == Implementation::Refused;
    let refused: Vec<&str> = served
        .iter()
        .filter(is_refused)
        .map(|(name, _)| *name)
        .collect();
    let mut out = format!(
        "/// Names of procedures that are not supported.\npub static UNSUPPORTED: [&str; {}] \
         = {refused:?};\n\n",
        refused.len()
    );
    constants(&mut out, abis, "MPICH", "not(feature = \"standard\")");
    constants(&mut out, abis, "STANDARD", "feature = \"standard\"");
    let _ = write!(
        out,
        "/// Procedures that narrow their arguments.\n{ALLOW}mod narrow {{\n    use \
         super::super::large;\n    use crate::thunks::thunks;\n    use core::ffi::c_int;\n"
    );
    for (name, implementation) in &served {
        if let Implementation::Narrow(twin, parameters) = implementation {
            let narrowed: Vec<_> = parameters.split(' ').filter(|name| *name != "-").collect();
            narrowing(&mut out, name, twin, &narrowed);
        }
    }
    let _ = write!(
        out,
        "}}\n\n/// All procedures, under their names with `MPI_` and `PMPI_`.\n\
         {ALLOW}pub mod names {{{MACROS}\nrefusals! {{\n"
    );
    for (number, name) in refused.iter().enumerate() {
        let _ = writeln!(out, "    {number} {name}\n    {number} P{name}");
    }
    out.push_str("}\n\nnames! {\n");
    let mut handles = String::new();
    for (name, implementation) in &served {
        let short = function_name(name);
        let target = match implementation {
            Implementation::Narrow(..) => format!("super::narrow::{short}"),
            Implementation::As(other) => format!("crate::thunks::thunks::P{other}"),
            Implementation::Handle(other) => {
                let targets = [
                    (
                        "feature = \"standard\"",
                        format!("crate::thunks::thunks::P{other}"),
                    ),
                    (
                        "not(feature = \"standard\")",
                        "super::super::by_hand::itself".to_owned(),
                    ),
                ];
                for (condition, target) in targets {
                    let _ = writeln!(
                        handles,
                        "#[cfg({condition})]\nnames! {{\n    {name} {target};\n    P{name} \
                         {target};\n}}"
                    );
                }
                continue;
            }
            Implementation::ByHand => format!("super::super::by_hand::{short}"),
            Implementation::Refused => continue,
        };
        let _ = writeln!(out, "    {name} {target};\n    P{name} {target};");
    }
    // In Open MPI these procedures have no name with `PMPI_`.
    let unprofiled = table.procedures.iter();
    for procedure in unprofiled.filter(|procedure| procedure.has(Flag::NoProfile)) {
        let _ = writeln!(out, "    P{0} crate::thunks::thunks::{0};", procedure.name);
    }
    let _ = writeln!(out, "}}\n\n{handles}");
    for (name, code) in ADDRESSES {
        for name in [name.to_owned(), format!("P{name}")] {
            let _ = write!(
                out,
                "#[unsafe(naked)]\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}() {{\n\
                 \x20   core::arch::naked_asm!({code})\n}}\n"
            );
        }
    }
    out.push_str("}\n");
    out
}

/// Returns the name of the function that implements a procedure.
fn function_name(name: &str) -> String {
    name.strip_prefix("MPI_").unwrap_or(name).to_lowercase()
}

/// Translation of a parameter.
enum Narrowing {
    /// Parameter that is passed unchanged.
    Unchanged,
    /// Number that must fit an int.
    Value,
    /// Number of elements of the next parameter, a datatype.
    Elements,
    /// Variable of type `MPI_Count` that receives an int.
    Output,
}

/// Returns the translation of a twin's parameter; `large` contains the names to be narrowed.
fn narrowed(twin: &Procedure, index: usize, large: &[&str]) -> Narrowing {
    let parameter = &twin.parameters[index];
    match parameter.c_type.as_str() {
        _ if !large.contains(&parameter.name.as_str()) => Narrowing::Unchanged,
        "int" if elements_of(twin, index).is_some() => Narrowing::Elements,
        "int" => Narrowing::Value,
        "int*" => Narrowing::Output,
        other => panic!("`{}` cannot be narrowed: it is `{other}`", parameter.name),
    }
}

/// Returns the datatype whose elements a parameter counts, if it counts elements.
///
/// Such elements can be passed as one element of a datatype that contains them.
fn elements_of(twin: &Procedure, index: usize) -> Option<String> {
    let next = twin.parameters.get(index + 1)?;
    (next.c_type == "MPI_Datatype").then(|| identifier(next))
}

/// Returns true if all narrowed parameters are numbers of elements.
///
/// Numbers of elements are never too large.
pub(crate) fn counts_elements_only(twin: &Procedure, parameters: &str) -> bool {
    let all: Vec<&str> = parameters.split(' ').collect();
    let may_be_too_large = |index| {
        !matches!(
            narrowed(twin, index, &all),
            Narrowing::Unchanged | Narrowing::Elements
        )
    };
    !(0..twin.parameters.len()).any(may_be_too_large)
}

/// Returns the expression for the object whose error handler is called.
fn subject(twin: &Procedure) -> String {
    let find = |c_type: &str| {
        twin.parameters
            .iter()
            .find(|parameter| parameter.c_type == c_type)
    };
    for (c_type, variant) in [
        ("MPI_Comm", "Comm"),
        ("MPI_Win", "Win"),
        ("MPI_File", "File"),
    ] {
        if let Some(parameter) = find(c_type) {
            return format!("large::ErrorSubject::{variant}({})", identifier(parameter));
        }
    }
    "large::ErrorSubject::None".to_owned()
}

/// Writes the function that narrows the parameters `large` and calls the thunk of the twin.
fn narrowing(out: &mut String, name: &str, twin: &Procedure, large: &[&str]) {
    for name in large {
        let exists = twin
            .parameters
            .iter()
            .any(|parameter| parameter.name == *name);
        assert!(
            exists,
            "mpich.tbl: `{name}` is no parameter of `{}`",
            twin.name
        );
    }
    let (mut declared, mut types, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut stores) = (String::new(), String::new());
    let otherwise = format!(
        "else {{\n                return large::too_large(\"{name}\", {});\n            }};\n",
        subject(twin)
    );
    let mut counted = None;
    for (index, parameter) in twin.parameters.iter().enumerate() {
        let variable = identifier(parameter);
        let (kind, narrow, argument) = match narrowed(twin, index, large) {
            Narrowing::Unchanged => {
                let argument = counted.take().map(|count| format!("n_{count}.datatype"));
                (
                    "usize",
                    "usize",
                    argument.unwrap_or_else(|| variable.clone()),
                )
            }
            Narrowing::Elements => {
                let datatype = elements_of(twin, index).expect("a datatype follows");
                let _ = write!(
                    values,
                    "            let Some(n_{variable}) = large::Elements::new({variable}, \
                     {datatype}) {otherwise}"
                );
                counted = Some(variable.clone());
                ("i64", "c_int", format!("n_{variable}.count"))
            }
            Narrowing::Value => {
                let _ = write!(
                    values,
                    "            let Ok(n_{variable}) = c_int::try_from({variable}) {otherwise}"
                );
                ("i64", "c_int", format!("n_{variable}"))
            }
            Narrowing::Output => {
                let _ = writeln!(
                    values,
                    "            let mut p_{variable} = large::NarrowOutput::new({variable});"
                );
                let _ = writeln!(stores, "            p_{variable}.store_widened(rc);");
                ("*mut i64", "*mut c_int", format!("p_{variable}.pointer()"))
            }
        };
        declared.push(format!("{variable}: {kind}"));
        types.push(narrow);
        arguments.push(argument);
    }
    let _ = write!(
        out,
        "\n    pub unsafe extern \"C\" fn {}({}) -> c_int {{\n\
         \x20       // SAFETY: the arguments are the program's; the type is that of the thunk.\n\
         \x20       unsafe {{\n{values}\
         \x20           let thunk: unsafe extern \"C\" fn({}) -> c_int =\n\
         \x20               core::mem::transmute(thunks::P{} as unsafe extern \"C\" fn());\n\
         \x20           let rc = thunk({});\n{stores}            rc\n        }}\n    }}\n",
        function_name(name),
        declared.join(", "),
        types.join(", "),
        twin.name,
        arguments.join(", ")
    );
}
