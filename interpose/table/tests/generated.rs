//! What the generated sources contain.

use std::collections::HashSet;
use understudy_table::{
    Class, Flag, Support, face_thunks, manual_names, real_types, runtime_dispatch, support_csv,
    support_table, table, virt_types,
};

/// The lines between the line that starts with `start` and the next that starts with `end`, trimmed.
fn section<'s>(source: &'s str, start: &str, end: &str) -> Vec<&'s str> {
    let from = source
        .lines()
        .skip_while(|line| !line.starts_with(start))
        .skip(1);
    from.take_while(|line| !line.starts_with(end))
        .map(str::trim)
        .collect()
}

#[test]
fn generation_is_deterministic() {
    assert_eq!(face_thunks(), face_thunks());
    assert_eq!(
        runtime_dispatch(&["MPI_Send"]),
        runtime_dispatch(&["MPI_Send"])
    );
    assert_eq!(support_table(&[]), support_table(&[]));
}

#[test]
fn the_face_has_a_thunk_for_every_name() {
    let source = face_thunks();
    // The second list has the names that Open MPI 5.0 does not have, the third those that it has and MPICH's libmpi has not.
    let (all, others) = source
        .split_once("#[cfg(feature = \"mpich\")]\n")
        .expect("lists");
    let (newer, callbacks) = others
        .split_once("#[cfg(not(feature = \"mpich\"))]\n")
        .expect("lists");
    let lists = [all, newer, callbacks].map(|list| section(list, "thunks! {", "}"));
    assert_eq!(
        lists.iter().map(Vec::len).sum::<usize>(),
        table().slot_count()
    );
    assert!(
        lists[2]
            .iter()
            .any(|row| row.ends_with(" mpi_comm_dup_fn_;"))
    );
    let slots: Vec<&str> = table().slot_names().collect();
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for row in lists.concat() {
        let mut words = row.trim_end_matches(';').split(' ');
        let slot: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a slot");
        assert!(numbers.insert(slot), "{row}");
        let name = slots[slot];
        let is_newer = table()
            .procedure(name)
            .is_some_and(|it| it.has(Flag::Newer));
        assert_eq!(lists[1].contains(&row), is_newer, "{row}");
        let class: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("an entry");
        let arguments = table()
            .procedure(name)
            .map_or(14, |procedure| procedure.parameters.len());
        let room = [0, 2, 8];
        assert!(
            arguments <= 6 + room[class] && (class == 0 || arguments > 6 + room[class - 1]),
            "{row}"
        );
        let exported: Vec<&str> = words.collect();
        assert_eq!(exported[0], name);
        assert!(
            exported.iter().all(|name| names.insert(name.to_string())),
            "{row}"
        );
    }
    // Twice 110 newer ones, and two older names of each persistent collective.
    assert_eq!(names.len(), 2945 + 2 * 110 + 2 * 22);
    assert!(
        names.contains("MPI_Send")
            && names.contains("PMPI_Send")
            && !names.contains("PMPIX_Query_cuda_support")
    );
}

#[test]
fn the_face_has_every_object() {
    let source = face_thunks();
    let rows = section(&source, "objects! {", "}");
    assert_eq!(rows.len(), table().data.len());
    assert!(
        rows.contains(&"ompi_mpi_comm_world Data32 512;"),
        "{rows:?}"
    );
    assert_eq!(
        section(&source, "pub static DATA_ADDRESSES", "];").len(),
        rows.len()
    );
    assert_eq!(
        section(&source, "pub static DATA_SYMBOLS", "];").len(),
        rows.len()
    );
}

#[test]
fn face_and_runtime_number_alike() {
    let (face, runtime) = (face_thunks(), runtime_dispatch(&[]));
    for list in ["pub static SLOT_NAMES", "pub static DATA_SYMBOLS"] {
        assert_eq!(section(&face, list, "];"), section(&runtime, list, "];"));
    }
    let slots = section(&face, "pub static SLOT_NAMES", "];");
    for (slot, row) in section(&runtime, "pub enum Proc", "}").iter().enumerate() {
        let (name, number) = row
            .trim_end_matches(',')
            .split_once(" = ")
            .expect("a numbered variant");
        assert_eq!(number, slot.to_string());
        assert_eq!(slots[slot], format!("c\"{name}\","));
    }
}

fn is_collective(class: Class) -> bool {
    matches!(class, Class::Collective | Class::NonblockingCollective)
}

#[test]
fn every_slot_has_a_handler() {
    let source = runtime_dispatch(&["MPI_Send"]);
    let handlers = section(&source, "pub static HANDLERS", "];");
    assert_eq!(handlers.len(), table().slot_count());
    for (slot, (handler, procedure)) in handlers.iter().zip(&table().procedures).enumerate() {
        let name = &procedure.name;
        let expected = match procedure.support {
            _ if name == "MPI_Send" => "crate::calls::MPI_Send".to_owned(),
            Support::Generic => format!("generic::h_{name}"),
            // Collectives have a template, unless they have arrays of datatypes.
            Support::Manual
                if is_collective(procedure.class) && !name.to_lowercase().contains("alltoallw") =>
            {
                format!("generic::h_{name}")
            }
            Support::Manual if procedure.class == Class::PersistentCollective => {
                format!("generic::h_{name}")
            }
            _ if procedure.class == Class::Io => format!("stubs::unsupported_file::<{slot}>"),
            _ if procedure.returns == "int" || procedure.returns == "MPI_Fint" => {
                format!("stubs::unsupported::<{slot}>")
            }
            _ => format!("stubs::unsupported_handle::<{slot}>"),
        };
        assert_eq!(*handler, format!("Handler({expected} as *const ()),"));
    }
}

#[test]
fn a_generated_handler_translates_handles() {
    let source = runtime_dispatch(&[]);
    for text in [
        "pub unsafe extern \"C\" fn h_MPI_Comm_test_inter(comm: VirtComm, flag: *mut c_int) -> c_int {",
        "let rc = unsafe { real::PMPI_Comm_test_inter(crate::handles::real_comm(rt, comm), flag) };",
        "crate::raise::finish(rt, Proc::MPI_Type_get_extent, rc, None)",
        "crate::raise::finish(rt, Proc::MPI_Comm_remote_size, rc, Some(comm))",
        "pub unsafe extern \"C\" fn h_MPI_Wtick() -> c_double {",
    ] {
        assert!(source.contains(text), "{text}");
    }
}

#[test]
fn a_real_procedure_is_called_through_the_table() {
    let source = understudy_table::real_procedures();
    for text in [
        "pub unsafe extern \"C\" fn PMPI_Pcontrol(level: c_int) -> c_int {",
        "pub unsafe extern \"C\" fn PMPI_Comm_f2c(comm: c_int) -> RealComm {",
        "crate::library::Procedure::new(c\"PMPI_Comm_f2c\"),",
    ] {
        assert!(source.contains(text), "{text}");
    }
    // Twelve arguments: six of them are on the stack.
    let sendrecv = source
        .split("fn PMPI_Sendrecv(")
        .nth(1)
        .expect("the procedure is there");
    assert!(
        sendrecv
            .lines()
            .nth(1)
            .is_some_and(|body| body.contains("call_6)"))
    );
}

#[test]
fn a_handler_by_hand_is_checked() {
    let check = "const _: unsafe extern \"C\" fn(VirtComm, *mut c_int) -> c_int = crate::calls::MPI_Comm_rank;";
    assert!(runtime_dispatch(&["MPI_Comm_rank"]).contains(check));
    assert!(!runtime_dispatch(&[]).contains("crate::calls::MPI_"));
    let pcontrol = "const _: unsafe extern \"C\" fn(c_int) -> c_int = crate::calls::MPI_Pcontrol;";
    assert!(runtime_dispatch(&["MPI_Pcontrol"]).contains(pcontrol));
}

#[test]
#[should_panic(expected = "`MPI_Sent` is no procedure")]
fn a_misspelt_name_is_found() {
    runtime_dispatch(&["MPI_Sent"]);
}

#[test]
#[should_panic(expected = "occurs twice")]
fn a_repeated_name_is_found() {
    runtime_dispatch(&["MPI_Send", "MPI_Send"]);
}

#[test]
fn with_all_by_hand_only_the_unsupported_are_refused() {
    let implemented = manual_names();
    assert_eq!(implemented.len(), 512);
    let csv = support_csv(&implemented);
    let refused = csv
        .lines()
        .filter(|line| line.contains(",refused,"))
        .count();
    assert_eq!(refused, 9);
    assert!(csv.contains("\nMPI_Barrier,Collective,manual,by hand,"));
    assert!(support_table(&implemented).contains("| **all** | 589 | 580 | 9 |"));
    assert!(support_table(&[]).contains("| `MPI_Barrier` | Collective | manual | generated |"));
    assert!(support_table(&[]).contains("| `MPI_Alltoallw` | Collective | manual | refused |"));
}

#[test]
fn handle_types_are_complete() {
    assert_eq!(virt_types().matches("pub struct Virt").count(), 11);
    assert_eq!(real_types().matches("pub struct Real").count(), 11);
    assert!(real_types().contains("pub struct Status {"));
}
