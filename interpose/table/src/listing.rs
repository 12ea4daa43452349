//! What is supported, for the documentation.

use crate::large::{How, counts_elements_only, served};
use crate::model::{Class, Procedure, Source, Table};
use std::fmt::Write;

fn word(source: Source) -> &'static str {
    match source {
        Source::Manual => "by hand",
        Source::Refused => "refused",
        _ => "generated",
    }
}

pub(crate) fn markdown(table: &Table) -> String {
    let count = |test: &dyn Fn(&Procedure) -> bool| {
        let rows = table.procedures.iter();
        rows.filter(|procedure| test(procedure)).count()
    };
    let is_refused = |procedure: &Procedure| procedure.source == Source::Refused;
    let mut out =
        String::from("| class | procedures | supported | refused |\n|---|---:|---:|---:|\n");
    for &class in Class::ALL {
        let all = count(&|procedure| procedure.class == class);
        let refused = count(&|procedure| procedure.class == class && is_refused(procedure));
        let _ = writeln!(
            out,
            "| {} | {all} | {} | {refused} |",
            class.name(),
            all - refused
        );
    }
    let (all, refused) = (table.procedures.len(), count(&is_refused));
    let _ = writeln!(out, "| **all** | {all} | {} | {refused} |\n", all - refused);
    out.push_str("| procedure | class | handler |\n|---|---|---|\n");
    for procedure in &table.procedures {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            procedure.name,
            procedure.class.name(),
            word(procedure.source)
        );
    }
    out
}

/// What MPICH has besides.
pub(crate) fn mpich(table: &Table, list: &str) -> String {
    let mut out = String::from("| procedure | now |\n|---|---|\n");
    for (name, how) in served(table, list) {
        let now = match how {
            How::Narrow(twin, what) if counts_elements_only(twin, what) => {
                format!("`{}`", twin.name)
            }
            How::Narrow(twin, _) => format!("`{}`, with some numbers of 31 bits", twin.name),
            How::As(other) => format!("`{other}`"),
            How::Handle(other) => format!("the handle itself; `{other}` with the standard ABI"),
            How::ByHand => "by hand".to_owned(),
            How::Refused => "refused".to_owned(),
        };
        let _ = writeln!(out, "| `{name}` | {now} |");
    }
    out
}
