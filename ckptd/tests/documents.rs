//! The documentation: tables are complete, links lead to files, and files that are named exist.

use std::path::{Path, PathBuf};

/// Folders with documents, from the root of the workspace.
const FOLDERS: [&str; 3] = ["", "docs", "docs/design"];

/// Folders with sources, from the root of the workspace.
const SOURCES: [&str; 6] = [
    "c-examples",
    "ckptd",
    "ffi-tests",
    "fuzz",
    "interpose",
    "packaging",
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the workspace is there")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn documents() -> Vec<(PathBuf, String)> {
    let files = FOLDERS
        .iter()
        .flat_map(|folder| entries(&root().join(folder)));
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

/// Adds the files and folders below a folder, without build outputs.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, found);
        }
        found.push(path);
    }
}

/// Returns true for documents about the sources.
fn is_about_sources(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.ends_with("docs/design"))
        || path.ends_with("docs/ARCHITECTURE.md")
        || path.ends_with("CONTRIBUTING.md")
}

/// Returns true for a word that names a source, or a folder from the root.
fn is_source_name(word: &str) -> bool {
    let is_path = |it: char| it.is_ascii_alphanumeric() || "_-./".contains(it);
    let has_end = |end: &str| word.ends_with(end);
    let is_file = [".rs", ".tbl", ".toml", ".txt"].into_iter().any(has_end);
    let folder = word.split_once('/').map(|(folder, _)| folder);
    let is_in_folder = folder.is_some_and(|folder| SOURCES.contains(&folder));
    word.chars().all(is_path) && (is_file || is_in_folder)
}

#[test]
fn sources_that_documents_name_exist() {
    let mut files = entries(&root());
    for folder in SOURCES {
        collect(&root().join(folder), &mut files);
    }
    let documents = documents().into_iter();
    for (path, text) in documents.filter(|(path, _)| is_about_sources(path)) {
        for (number, line) in text.lines().enumerate() {
            let words = line.split('`').skip(1).step_by(2);
            for word in words.filter(|word| is_source_name(word)) {
                assert!(
                    files.iter().any(|file| file.ends_with(word)),
                    "{}:{}: {word}",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

/// `rust-version` is what the README and the recipe for Spack ask for.
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
