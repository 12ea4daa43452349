//! Handlers of collectives, which all have a template.
//!
//! A cut may be taken before a blocking one, and a process may fail in it.

use crate::amount::handed_over;
use crate::model::{Parameter, Procedure};
use crate::runtime::translated;
use crate::types::{self, Side};
use std::fmt::Write;

fn comm(procedure: &Procedure) -> String {
    procedure
        .communicator()
        .map(types::identifier)
        .expect("a collective has a communicator")
}

fn arguments(procedure: &Procedure) -> String {
    let argument = |parameter: &Parameter| match parameter.c_type.as_str() {
        "MPI_Request*" => "&mut real_request".to_owned(),
        _ => translated(parameter),
    };
    procedure.parameters.iter().map(argument).collect::<Vec<_>>().join(", ")
}

fn head(out: &mut String, procedure: &Procedure) {
    let parameters = types::parameter_list(procedure, Side::Virt);
    let _ = writeln!(
        out,
        "    pub unsafe extern \"C\" fn h_{}({parameters}) -> c_int {{",
        procedure.name
    );
}

/// The end of a handler: `rc` is an expression of what `recovery::check` makes of the real procedure's.
fn tail(out: &mut String, procedure: &Procedure, rc: &str, after: &str) {
    let (name, comm) = (&procedure.name, comm(procedure));
    let _ = write!(
        out,
        "        let rc = match {rc} {{\n            Ok(rc) => rc,\n            Err(_) => return 0,\n        }};\n\
         {after}        crate::raise::finish(Proc::{name}, rc, Some({comm}))\n    }}\n\n"
    );
}

/// Counts the call, if anything is counted.
fn count(out: &mut String, procedure: &Procedure) {
    let (comm, amount) = (comm(procedure), handed_over(procedure));
    let _ = write!(
        out,
        "        if crate::traffic::is_on() {{\n            // SAFETY: the program's arrays.\n\
         \x20           let amount = {amount};\n            crate::traffic::collective({comm}, amount);\n        }}\n"
    );
}

const SAFETY: &str = "        // SAFETY: the program's arguments are handed on.\n";

/// The handler of a blocking collective.
pub(crate) fn blocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let call = format!("unsafe {{ real::{}({arguments}) }}", procedure.real_name());
    head(out, procedure);
    let _ = writeln!(
        out,
        "        if crate::cut::collective({comm}).is_err() {{\n            return 0;\n        }}"
    );
    count(out, procedure);
    out.push_str(SAFETY);
    tail(out, procedure, &format!("crate::recovery::check({call})"), "");
}

/// The handler of a non-blocking collective, whose request is put on record.
pub(crate) fn nonblocking(out: &mut String, procedure: &Procedure) {
    let (comm, arguments) = (comm(procedure), arguments(procedure));
    let request = procedure.parameters.last().map(types::identifier).expect("a request");
    head(out, procedure);
    count(out, procedure);
    let _ = write!(
        out,
        "        let mut real_request = RealRequest(core::ptr::null_mut());\n{SAFETY}"
    );
    let rc = format!(
        "crate::recovery::check(unsafe {{ real::{}({arguments}) }})",
        procedure.real_name()
    );
    let after = format!(
        "        if rc == 0 {{\n            // SAFETY: the program's argument.\n\
         \x20           unsafe {{ {request}.write(crate::requests::add_collective({comm}, real_request)) }};\n        }}\n"
    );
    tail(out, procedure, &rc, &after);
}
