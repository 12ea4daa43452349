//! Tests of conditions that the checked-in call table must meet.

use std::collections::{BTreeMap, HashSet};
use understudy_table::{
    Class, Direction, Flag, Handle, LengthTerm, ParamKind, Parameter, Policy, Procedure,
    SPECIAL_LENGTHS, Source, length_terms, table,
};

fn count(test: impl Fn(&Procedure) -> bool) -> usize {
    table()
        .procedures
        .iter()
        .filter(|procedure| test(procedure))
        .count()
}

/// Returns every parameter with its procedure.
fn parameters() -> impl Iterator<Item = (&'static Procedure, &'static Parameter)> {
    let procedures = table().procedures.iter();
    procedures.flat_map(|procedure| {
        procedure
            .parameters
            .iter()
            .map(move |parameter| (procedure, parameter))
    })
}

#[test]
fn every_procedure_of_the_header_is_there() {
    let is_plain = |p: &Procedure| p.name.starts_with("MPI_") && !p.name.starts_with("MPI_T_");
    assert_eq!(count(|p| is_plain(p) && !p.has(Flag::Newer)), 437);
    assert_eq!(count(|p| is_plain(p) && p.has(Flag::Newer)), 110);
    assert_eq!(count(|p| p.name.starts_with("MPI_T_")), 31);
    assert_eq!(count(|p| p.name.starts_with("MPIX_")), 11);
    assert_eq!(table().procedures.len(), 589);
    assert_eq!(count(|p| p.has(Flag::NoProfile)), 2);
}

#[test]
fn every_other_symbol_is_there() {
    assert_eq!(table().functions.len(), 1989);
    assert_eq!(
        table()
            .functions
            .iter()
            .filter(|function| matches!(function.policy, Policy::Forward | Policy::Callback))
            .count(),
        83
    );
    assert_eq!(table().data.len(), 685);
    assert_eq!(
        table()
            .data
            .iter()
            .filter(|data| data.predefined.is_some())
            .count(),
        113
    );
    assert_eq!(table().thread_locals, ["ompi_mtl_ofi_per_thread_ctx"]);
    let exported: usize = table()
        .procedures
        .iter()
        .map(|procedure| procedure.exported_names().len())
        .sum();
    assert_eq!(exported + table().functions.len(), 2945 + 2 * 110);
    assert!(table().slot_count() < usize::from(u16::MAX));
}

#[test]
fn classes_have_these_sizes() {
    let expected = [
        (Class::Environment, 24),
        (Class::Memory, 22),
        (Class::PointToPoint, 18),
        (Class::PersistentInit, 5),
        (Class::Partitioned, 6),
        (Class::Completion, 15),
        (Class::Probe, 4),
        (Class::Status, 7),
        (Class::Pack, 12),
        (Class::Collective, 43),
        (Class::NonblockingCollective, 43),
        (Class::PersistentCollective, 43),
        (Class::CommConstructor, 15),
        (Class::Comm, 9),
        (Class::Topology, 15),
        (Class::Group, 13),
        (Class::Datatype, 46),
        (Class::Op, 5),
        (Class::Errhandler, 11),
        (Class::Info, 10),
        (Class::Attribute, 15),
        (Class::Destructor, 8),
        (Class::Conversion, 32),
        (Class::Rma, 47),
        (Class::Io, 56),
        (Class::Session, 14),
        (Class::Dynamic, 11),
        (Class::Tool, 31),
        (Class::Fault, 9),
    ];
    assert_eq!(expected.map(|(class, _)| class), Class::ALL);
    let mut found = BTreeMap::new();
    for procedure in &table().procedures {
        *found.entry(procedure.class).or_insert(0) += 1;
    }
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn sources_have_these_sizes() {
    let size = |source| count(|procedure| procedure.source == source);
    let expected = [
        (Source::Generic, 68),
        (Source::Collective, 39),
        (Source::Nonblocking, 39),
        (Source::Persistent, 43),
        (Source::Call, 73),
        (Source::Construct, 15),
        (Source::Derive, 22),
        (Source::Tool, 11),
        (Source::ToFortran, 6),
        (Source::FromFortran, 6),
        (Source::Manual, 258),
        (Source::Refused, 9),
    ];
    assert_eq!(&expected.map(|(source, _)| source)[..], Source::ALL);
    for (source, expected) in expected {
        assert_eq!(size(source), expected, "{source:?}");
    }
}

#[test]
fn procedures_for_fault_tolerance_are_refused() {
    for procedure in &table().procedures {
        assert_eq!(
            procedure.source == Source::Refused,
            procedure.class == Class::Fault,
            "{}",
            procedure.name
        );
    }
}

/// The template of one class is used only by procedures of this class.
#[test]
fn sources_agree_with_classes() {
    for procedure in &table().procedures {
        let expected = match procedure.source {
            Source::Collective => Class::Collective,
            Source::Nonblocking => Class::NonblockingCollective,
            Source::Persistent => Class::PersistentCollective,
            Source::Tool => Class::Tool,
            Source::Derive => Class::Datatype,
            Source::ToFortran | Source::FromFortran => Class::Conversion,
            _ => continue,
        };
        assert_eq!(procedure.class, expected, "{}", procedure.name);
    }
}

/// No generated collective has an array of datatypes.
///
/// The templates of collectives do not translate such arrays.
#[test]
fn generated_collectives_have_no_arrays_of_datatypes() {
    for (procedure, parameter) in parameters() {
        if matches!(procedure.source, Source::Collective | Source::Nonblocking) {
            assert_ne!(parameter.kind, ParamKind::DatatypeArray, "{procedure}");
        }
    }
}

/// A generic handler translates handles that are input arguments, and no others.
#[test]
fn generic_rows_have_handles_in_only() {
    for (procedure, parameter) in
        parameters().filter(|(procedure, _)| procedure.source == Source::Generic)
    {
        let context = format!("{}: {parameter}", procedure.name);
        assert!(!parameter.kind.is_callback(), "{context}");
        let base = parameter
            .c_type
            .trim_start_matches("const ")
            .trim_end_matches('*');
        if Handle::from_c_type(base).is_some() {
            assert_eq!(
                (base, parameter.direction),
                (parameter.c_type.as_str(), Direction::In),
                "{context}"
            );
        }
    }
    for procedure in table()
        .procedures
        .iter()
        .filter(|procedure| procedure.source == Source::Generic)
    {
        assert_eq!(
            Handle::from_c_type(&procedure.returns),
            None,
            "{}",
            procedure.name
        );
    }
}

#[test]
fn names_of_parameters_differ() {
    for procedure in &table().procedures {
        let mut seen = HashSet::new();
        for parameter in &procedure.parameters {
            assert!(
                seen.insert(&parameter.name),
                "{}: {}",
                procedure.name,
                parameter.name
            );
        }
    }
}

#[test]
fn names_of_symbols_differ() {
    let mut seen: HashSet<String> = HashSet::new();
    let table = table();
    let procedures = table.procedures.iter().flat_map(Procedure::exported_names);
    let functions = table.functions.iter().map(|function| function.name.clone());
    let data = table.data.iter().map(|data| data.name.clone());
    for name in procedures
        .chain(functions)
        .chain(data)
        .chain(table.thread_locals.iter().cloned())
    {
        assert!(seen.insert(name.clone()), "{name}");
    }
    assert_eq!(seen.len(), 3631 + 2 * 110);
}

#[test]
fn lengths_are_made_of_parameters() {
    for (procedure, parameter) in parameters() {
        let Some(length) = &parameter.length else {
            continue;
        };
        let context = format!("{}: {parameter}", procedure.name);
        let terms = length_terms(length).unwrap_or_else(|| panic!("malformed: {context}"));
        for word in terms.iter().flat_map(LengthTerm::words) {
            let named = procedure.parameters.iter().find(|other| other.name == word);
            assert!(
                named.is_some() || SPECIAL_LENGTHS.contains(&word),
                "{word} in {context}"
            );
            assert_ne!(word, parameter.name, "{context}");
        }
        for term in &terms {
            let LengthTerm::Word(word) = term else {
                continue;
            };
            let is_array = procedure
                .parameters
                .iter()
                .any(|other| other.name == *word && other.kind.is_array());
            assert!(!is_array, "an array as a factor: {context}");
        }
    }
}

#[test]
fn arrays_and_buffers_have_lengths() {
    for (procedure, parameter) in parameters() {
        let context = format!("{}: {parameter}", procedure.name);
        // The tool interface's values, and the ends of split collectives on files, have no length
        // in their rows.
        let may_lack_length = procedure.class == Class::Tool || procedure.name.ends_with("_end");
        if parameter.kind.is_array() || (parameter.kind.is_buffer() && !may_lack_length) {
            assert!(parameter.length.is_some(), "{context}");
        }
        if parameter.length.is_some() {
            assert!(parameter.c_type.ends_with('*'), "{context}");
        }
    }
}

#[test]
fn directions_agree_with_types() {
    for (procedure, parameter) in parameters() {
        let context = format!("{}: {parameter}", procedure.name);
        let is_pointer = parameter.c_type.ends_with('*');
        if parameter.c_type.starts_with("const ") || !is_pointer || parameter.kind.is_callback() {
            assert_eq!(parameter.direction, Direction::In, "{context}");
        }
        if Handle::from_name(parameter.kind.name()).is_some() {
            assert_eq!(
                is_pointer,
                parameter.direction != Direction::In,
                "{context}"
            );
        }
        if parameter.kind == ParamKind::BufOut {
            assert_eq!(parameter.direction, Direction::Out, "{context}");
        }
    }
}

#[test]
fn reductions_name_their_operator() {
    let reductions = [
        "Reduce",
        "Scan",
        "Exscan",
        "Allreduce",
        "reduce",
        "scan",
        "exscan",
    ];
    for procedure in &table().procedures {
        let is_collective = matches!(
            procedure.class,
            Class::Collective | Class::NonblockingCollective | Class::PersistentCollective
        );
        let has_op = procedure
            .parameters
            .iter()
            .any(|parameter| parameter.kind == ParamKind::Op);
        let reduces = reductions.iter().any(|part| procedure.name.contains(part));
        if is_collective {
            assert_eq!(has_op, reduces, "{}", procedure.name);
            assert!(procedure.communicator().is_some(), "{}", procedure.name);
        }
    }
}

#[test]
fn procedures_that_do_not_wait_return_a_request() {
    for procedure in &table().procedures {
        if procedure.has(Flag::Nonblocking) || procedure.has(Flag::Persistent) {
            let last = procedure
                .parameters
                .last()
                .map(|parameter| (parameter.kind, parameter.direction));
            assert_eq!(
                last,
                Some((ParamKind::Request, Direction::Out)),
                "{}",
                procedure.name
            );
        }
    }
}

#[test]
fn predefined_handles_are_counted() {
    let size = |handle| {
        table()
            .data
            .iter()
            .filter(|data| data.predefined == Some(handle))
            .count()
    };
    assert_eq!(size(Handle::Comm), 3);
    assert_eq!(size(Handle::Datatype), 80);
    assert_eq!(size(Handle::Op), 15);
    assert_eq!(size(Handle::Request), 1);
}
