//! Tests of the contents of generated sources.

use std::collections::HashSet;
use std::path::Path;
use understudy_table::{Flag, HEADER, Source, generated_files, generated_sources, table};

/// Returns the text of a generated file.
fn text(path: &str) -> String {
    let files = generated_files().into_iter();
    let mut found = files.filter(|file| file.path.ends_with(path));
    found.next().expect("a generated file").text
}

/// Returns the trimmed lines of a section, without comments.
///
/// The section lies between a line that starts with `start` and the next that starts with `end`.
fn section<'s>(source: &'s str, start: &str, end: &str) -> Vec<&'s str> {
    let from = source
        .lines()
        .skip_while(|line| !line.starts_with(start))
        .skip(1);
    from.take_while(|line| !line.starts_with(end))
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
        .collect()
}

#[test]
fn generation_is_deterministic() {
    let texts = || Vec::from_iter(generated_files().into_iter().map(|file| file.text));
    assert_eq!(texts(), texts());
}

#[test]
fn generated_files_are_marked() {
    for file in generated_sources() {
        assert!(file.text.starts_with(HEADER), "{}", file.path);
    }
}

#[test]
fn the_preload_library_has_a_thunk_for_every_name() {
    let source = text("thunks.rs");
    // The second list has the names that Open MPI 5.0 lacks, the third one those that Open MPI has
    // and MPICH's libmpi lacks.
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
            .is_some_and(|procedure| procedure.has(Flag::Newer));
        assert_eq!(lists[1].contains(&row), is_newer, "{row}");
        let entry: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("an entry");
        let arguments = table()
            .procedure(name)
            .map_or(14, |procedure| procedure.parameters.len());
        let stack_words = [0, 2, 8];
        assert!(
            arguments <= 6 + stack_words[entry]
                && (entry == 0 || arguments > 6 + stack_words[entry - 1]),
            "{row}"
        );
        let exported: Vec<&str> = words.collect();
        assert_eq!(exported[0], name);
        assert!(
            exported.iter().all(|name| names.insert(name.to_string())),
            "{row}"
        );
    }
    // 220 newer names (110 with and without P), and two older names of each persistent collective.
    assert_eq!(names.len(), 2945 + 2 * 110 + 2 * 22);
    assert!(
        names.contains("MPI_Send")
            && names.contains("PMPI_Send")
            && !names.contains("PMPIX_Query_cuda_support")
    );
}

#[test]
fn the_preload_library_has_every_object() {
    let source = text("thunks.rs");
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
fn preload_library_and_runtime_number_slots_alike() {
    let (preload_library, runtime) = (text("thunks.rs"), text("base/src/generated/procedures.rs"));
    for list in ["pub static SLOT_NAMES", "pub static DATA_SYMBOLS"] {
        assert_eq!(
            section(&preload_library, list, "];"),
            section(&runtime, list, "];")
        );
    }
    let slots = section(&preload_library, "pub static SLOT_NAMES", "];");
    for (slot, row) in section(&runtime, "pub enum Proc", "}").iter().enumerate() {
        let (name, number) = row
            .trim_end_matches(',')
            .split_once(" = ")
            .expect("a numbered variant");
        assert_eq!(number, slot.to_string());
        assert_eq!(slots[slot], format!("c\"{name}\","));
    }
}

#[test]
fn every_slot_has_a_handler() {
    let source = text("handlers.rs");
    let handlers = section(&source, "pub static HANDLERS", "];");
    assert_eq!(handlers.len(), table().slot_count());
    for (slot, (handler, procedure)) in handlers.iter().zip(&table().procedures).enumerate() {
        let name = &procedure.name;
        let expected = match procedure.source {
            Source::Manual => format!("crate::calls::{name}"),
            Source::Refused => format!("stubs::unsupported::<{slot}>"),
            _ => format!("generic::h_{name}"),
        };
        assert_eq!(*handler, format!("Handler({expected} as *const ()),"));
    }
}

/// Reads the sources in a directory and its subdirectories.
fn read(directory: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("a readable directory").path();
        if path.is_dir() {
            read(&path, texts);
        } else {
            texts.push(std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Handlers that are not generated have rows with the source `manual`.
///
/// The compiler finds a manual row without a handler, but not a handler whose row is not manual.
#[test]
fn handlers_by_hand_have_manual_rows() {
    let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/calls");
    let mut texts = Vec::new();
    read(&calls, &mut texts);
    let heads = texts
        .iter()
        .flat_map(|text| text.split("extern \"C\" fn ").skip(1));
    let names = heads.filter_map(|head| head.split(['(', '<']).next());
    for procedure in names.filter_map(|name| table().procedure(name)) {
        assert_eq!(procedure.source, Source::Manual, "{}", procedure.name);
    }
}

#[test]
fn a_generated_handler_translates_handles() {
    let source = text("handlers.rs");
    for text in [
        "pub unsafe extern \"C\" fn h_MPI_Comm_test_inter(comm: VirtComm, flag: *mut c_int) -> \
         c_int {",
        "let rc = unsafe { real::PMPI_Comm_test_inter(crate::handles::real_comm(rt, comm), flag) };",
        "crate::error_handling::finish(rt, Proc::MPI_Type_get_extent, rc, None)",
        "crate::error_handling::finish(rt, Proc::MPI_Comm_remote_size, rc, Some(comm))",
        "pub unsafe extern \"C\" fn h_MPI_Wtick() -> c_double {",
    ] {
        assert!(source.contains(text), "{text}");
    }
}

#[test]
fn a_real_procedure_is_called_through_the_table() {
    let source = text("real.rs");
    for text in [
        "pub unsafe extern \"C\" fn PMPI_Pcontrol(level: c_int) -> c_int {",
        "pub unsafe extern \"C\" fn PMPI_Comm_f2c(comm: c_int) -> RealComm {",
        "crate::library::Procedure::new(c\"PMPI_Comm_f2c\"),",
    ] {
        assert!(source.contains(text), "{text}");
    }
    // Twelve arguments: six of them are on the stack. The last function of this name is called by
    // the one that notes the receive buffer.
    let sendrecv = source.rsplit("fn PMPI_Sendrecv(").next();
    let body = sendrecv.and_then(|text| text.split('}').next());
    assert!(body.expect("a procedure").contains("call_6)"));
}

#[test]
fn a_handler_by_hand_is_checked() {
    let source = text("handlers.rs");
    for (handler, types) in [
        ("MPI_Comm_rank", "VirtComm, *mut c_int"),
        ("MPI_Pcontrol", "c_int"),
    ] {
        let pointer = format!("unsafe extern \"C\" fn({types}) -> c_int");
        let check = format!("const _: {pointer} = crate::calls::{handler};");
        assert!(source.contains(&check), "{check}");
    }
}

#[test]
fn the_listing_names_all_procedures() {
    let listing = text("calls.md");
    for row in [
        "| **all** | 589 | 580 | 9 |",
        "| `MPI_Barrier` | Collective | generated |",
        "| `MPI_Send` | PointToPoint | by hand |",
        "| `MPIX_Comm_agree` | Fault | refused |",
    ] {
        assert!(listing.contains(row), "{row}");
    }
}

#[test]
fn handle_types_are_complete() {
    assert_eq!(text("virt_types.rs").matches("pub struct Virt").count(), 11);
    assert_eq!(text("real_types.rs").matches("pub struct Real").count(), 11);
    assert!(text("real_types.rs").contains("pub struct Status {"));
}
