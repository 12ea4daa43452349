//! The documentation: tables are complete, links lead to files.

use std::path::{Path, PathBuf};

fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let in_docs = std::fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = in_docs.chain([root.join("README.md")]);
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    files
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// Number of cells of a table row; `\|` is text.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count() - 1
}

#[test]
fn rows_of_a_table_have_as_many_cells_as_its_head() {
    for (path, text) in documents() {
        let mut columns = None;
        for (number, line) in text.lines().enumerate() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let expected = *columns.get_or_insert(cells(line));
            assert_eq!(
                cells(line),
                expected,
                "{}:{}: {line}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn links_lead_to_files_that_are_there() {
    for (path, text) in documents() {
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or("");
            if target.is_empty() || target.contains(':') {
                continue;
            }
            assert!(
                path.with_file_name(target).exists(),
                "{}: {target}",
                path.display()
            );
        }
    }
}

/// `rust-version` equals the version in the README and in the recipe for Spack.
#[test]
fn the_oldest_rust_is_named_once() {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        std::fs::read_to_string(path).unwrap()
    };
    assert!(read("README.md").contains(&format!("Rust {oldest} or later")));
    let recipe = "packaging/spack/spack_repo/understudy/packages/understudy/package.py";
    assert!(read(recipe).contains(&format!("depends_on(\"rust@{oldest}:\"")));
}
