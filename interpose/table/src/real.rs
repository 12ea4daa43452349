//! How generated and hand-written handlers reach the real library's procedures: `real::PMPI_NAME(…)`.

use crate::model::{Flag, Table};
use crate::runtime::{ALLOW, imports};
use crate::types::{self, Side};
use std::fmt::Write;

/// `NAME(a: T, …) -> R` of the real procedure.
fn prototype(procedure: &crate::Procedure, dots: &str) -> String {
    let parameters = types::parameter_list(procedure, Side::Real);
    let dots = if procedure.has(Flag::Varargs) { dots } else { "" };
    format!(
        "{}({parameters}{dots}) -> {}",
        procedure.real_name(),
        types::return_type(procedure, Side::Real)
    )
}

fn open(out: &mut String) {
    let _ = writeln!(out, "\n/// The real library's procedures.\n{ALLOW}pub mod real {{");
    imports(out);
}

/// External symbols, which the dynamic linker finds in the real library.
pub(crate) fn declarations(out: &mut String, table: &Table) {
    open(out);
    out.push_str("    unsafe extern \"C\" {\n");
    for procedure in &table.procedures {
        let _ = writeln!(out, "        pub fn {};", prototype(procedure, ", ..."));
    }
    out.push_str("    }\n}\n");
}
