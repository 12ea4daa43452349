//! What is supported, for the documentation.

use crate::large::{How, counts_elements_only, served};
use crate::model::{Class, Procedure, Support, Table};
use crate::runtime::{Source, sources};
use std::fmt::Write;

fn word(source: Source) -> &'static str {
    match source {
        Source::Generated | Source::Collective | Source::Nonblocking | Source::Persistent => {
            "generated"
        }
        Source::Written => "by hand",
        Source::Refused => "refused",
    }
}

/// Number of rows that `test` holds for.
fn count(rows: &[(&Procedure, Source)], test: impl Fn(&Procedure, Source) -> bool) -> usize {
    rows.iter()
        .filter(|(procedure, source)| test(procedure, *source))
        .count()
}

pub(crate) fn markdown(table: &Table, implemented: &[&str]) -> String {
    let rows = sources(table, implemented);
    let mut out =
        String::from("| class | procedures | supported | refused |\n|---|---:|---:|---:|\n");
    for &class in Class::ALL {
        let all = count(&rows, |procedure, _| procedure.class == class);
        let refused = count(&rows, |procedure, source| {
            procedure.class == class && source == Source::Refused
        });
        let _ = writeln!(
            out,
            "| {} | {all} | {} | {refused} |",
            class.name(),
            all - refused
        );
    }
    let refused = count(&rows, |_, source| source == Source::Refused);
    let _ = writeln!(
        out,
        "| **all** | {} | {} | {refused} |\n",
        rows.len(),
        rows.len() - refused
    );
    out.push_str("| procedure | class | planned | now |\n|---|---|---|---|\n");
    for (procedure, source) in &rows {
        let (class, support) = (procedure.class.name(), procedure.support.name());
        let _ = writeln!(
            out,
            "| `{}` | {class} | {support} | {} |",
            procedure.name,
            word(*source)
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

pub(crate) fn csv(table: &Table, implemented: &[&str]) -> String {
    let mut out = String::from("procedure,class,planned,now,slot\n");
    for (slot, (procedure, source)) in sources(table, implemented).iter().enumerate() {
        let (class, support) = (procedure.class.name(), Support::name(procedure.support));
        let _ = writeln!(
            out,
            "{},{class},{support},{},{slot}",
            procedure.name,
            word(*source)
        );
    }
    out
}
