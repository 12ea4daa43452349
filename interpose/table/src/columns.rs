//! Equality of the columns `source`, `rules` and `fortran` with what code derives from names.

use crate::model::{Class, Procedure, Rule, Source};
use crate::{fortran, outcome, runtime, table};
use std::path::Path;

/// Asserts for all procedures that a column says what code derives.
fn compare(column: impl Fn(&Procedure) -> bool, derived: impl Fn(&Procedure) -> bool) {
    for procedure in &table().procedures {
        assert_eq!(column(procedure), derived(procedure), "{}", procedure.name);
    }
}

#[test]
fn sources_are_those_of_the_scan() {
    let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/calls");
    let implemented = crate::implemented(&calls).expect("the runtime's sources are readable");
    let names: Vec<&str> = implemented.iter().map(String::as_str).collect();
    for (procedure, derived) in runtime::sources(table(), &names) {
        let derived = match derived {
            runtime::Source::Generated => Source::Generic,
            runtime::Source::Collective => Source::Collective,
            runtime::Source::Nonblocking => Source::Nonblocking,
            runtime::Source::Persistent => Source::Persistent,
            runtime::Source::Written => Source::Manual,
            runtime::Source::Refused => Source::Refused,
        };
        assert_eq!(procedure.source, derived, "{}", procedure.name);
    }
}

#[test]
fn rules_are_those_of_the_names() {
    compare(|it| it.is(Rule::Waits), runtime::may_wait);
    compare(|it| it.is(Rule::Local), runtime::is_local);
    compare(
        |it| it.is(Rule::Counted),
        |it| ["MPI_Barrier", "MPI_Bcast", "MPI_Reduce", "MPI_Allreduce"].contains(&it.short_name()),
    );
    compare(
        |it| it.is(Rule::ToRoot),
        |it| {
            let members = it.parameters.iter();
            let mut members = members.map(|parameter| outcome::members(it, parameter));
            members.any(|members| members.contains("Only"))
        },
    );
    compare(
        |it| it.is(Rule::AtRoot),
        |it| it.name == "MPI_Comm_spawn_multiple",
    );
    compare(
        |it| it.is(Rule::Contents),
        |it| it.short_name() == "MPI_Type_get_contents",
    );
    compare(
        |it| it.is(Rule::Older),
        |it| it.class == Class::PersistentCollective && !it.older_names().is_empty(),
    );
}

#[test]
fn fortran_bindings_are_those_of_the_names() {
    for procedure in &table().procedures {
        let generated = fortran::is_generated(procedure).then_some("generated");
        let by_hand = fortran::BY_HAND.iter().find(|(_, names)| {
            procedure.name.starts_with("MPI_") && names.contains(&&*fortran::short(procedure))
        });
        let derived = generated.or(by_hand.map(|(module, _)| *module));
        assert_eq!(procedure.fortran.as_deref(), derived, "{}", procedure.name);
    }
}
