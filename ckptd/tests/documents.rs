//! The documentation: tables are complete, links lead to headings, and files that are named exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use understudy_catalogue::ExitStatus;
use understudy_catalogue::exit_status::EXIT_STATUSES;

/// Folders with sources, from the root of the workspace.
const SOURCES: [&str; 6] = [
    "c-examples",
    "ckptd",
    "ffi-tests",
    "fuzz",
    "interpose",
    "packaging",
];

/// Names that files of many folders have.
///
/// A document uses such a name for all of these files.
const REPEATED_NAMES: [&str; 4] = ["lib.rs", "main.rs", "mod.rs", "tests.rs"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the workspace is there")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Reads the documents in the root of the workspace, and in `docs` and below.
fn documents() -> Vec<(PathBuf, String)> {
    let mut files = entries(&root());
    collect(&root().join("docs"), &mut files);
    let files = files.into_iter();
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
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

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let is_kept = |it: &char| it.is_alphanumeric() || "-_ ".contains(*it);
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(is_kept)
        .map(|it| if it == ' ' { '-' } else { it })
        .collect()
}

fn anchors(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let headings = prose(&text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// Targets of the links of a document, as in `[text](target)`; code is excluded.
fn targets(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split('`').step_by(2).collect();
        let parts = words.concat();
        let targets = parts.split("](").skip(1);
        targets
            .filter_map(|rest| rest.split(')').next().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for target in targets(&text).into_iter().filter(|it| !it.contains(':')) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => path.clone(),
                _ => path.with_file_name(file),
            };
            if !file.exists() || !heading.is_empty() && !anchors(&file).contains(heading) {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_book_has_every_page_of_docs() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = std::fs::read_to_string(&summary).unwrap();
    let listed: BTreeSet<PathBuf> = targets(&text).iter().map(|it| docs.join(it)).collect();
    let pages = documents().into_iter().map(|(path, _)| path);
    let pages = pages.filter(|path| path.starts_with(&docs) && *path != summary);
    assert_eq!(listed, pages.collect());
}

/// The page of exit statuses explains each status of the catalogue.
#[test]
fn every_exit_status_has_a_section() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let page = read("docs/reference/exit-statuses.md");
    assert!(EXIT_STATUSES.len() > 8);
    for ExitStatus { status, title } in EXIT_STATUSES {
        let heading = format!("\n## {status}: {title}\n");
        let row = format!("\n| {status} | ");
        assert!(page.contains(&heading) || page.contains(&row), "{status}");
    }
}

/// Returns the option at the beginning of a line of a help text or table.
fn option(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("--")?;
    let before = before.trim_start_matches(['|', ' ', '`']);
    let name = after.split(|it: char| it != '-' && !it.is_ascii_lowercase());
    let name = name.take(1).find(|it| !it.starts_with('-'))?;
    ["", "-n, ", "-n`, `"].contains(&before).then_some(name)
}

/// The page of `understudy run` has each option that is no setting.
#[test]
fn options_without_a_variable_have_a_row() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    let help = command.args(["run", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let (own, settings) = help.split_once("\nSettings:\n").unwrap();
    assert!(settings.contains("--spares"), "{help}");
    let own = own.split("\nOptions:\n").nth(1).unwrap().lines();
    let options: BTreeSet<&str> = own.filter_map(option).filter(|it| *it != "help").collect();
    let page = std::fs::read_to_string(root().join("docs/run/understudy-run.md")).unwrap();
    let section = page
        .split("\n## Options without a variable\n")
        .nth(1)
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    assert_eq!(rows.filter_map(option).collect::<BTreeSet<_>>(), options);
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

/// Returns the names of sources that do not exist, with the numbers of their lines.
///
/// A document names a source by its path from the root, or by the end of a path in a folder that
/// the document also names from the root. A short name alone would fit files of other folders.
fn missing_sources<'a>(text: &'a str, files: &[PathBuf]) -> Vec<(usize, &'a str)> {
    let lines = (1..).zip(text.lines());
    let words = lines.flat_map(|(number, line)| {
        let words = line.split('`').skip(1).step_by(2);
        words.map(move |word| (number, word))
    });
    let is_from_root = |word: &str| files.iter().any(|file| file == Path::new(word));
    let (paths, mut names): (Vec<_>, Vec<_>) = words
        .filter(|(_, word)| is_source_name(word) && !REPEATED_NAMES.contains(word))
        .partition(|(_, word)| is_from_root(word));
    let folders: Vec<&Path> = paths
        .iter()
        .filter_map(|(_, word)| match Path::new(word) {
            path if path.extension().is_some() => path.parent(),
            path => Some(path),
        })
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    let is_described = |file: &PathBuf| {
        let is_in =
            |folder: &&Path| file.starts_with(folder) || *file == folder.with_extension("rs");
        folders.iter().any(is_in)
    };
    names.retain(|(_, word)| {
        let mut found = files.iter().filter(|file| file.ends_with(word));
        !found.any(is_described)
    });
    names
}

#[test]
fn sources_that_documents_name_exist() {
    let mut files = entries(&root());
    for folder in SOURCES.into_iter().chain([".config"]) {
        collect(&root().join(folder), &mut files);
    }
    for file in &mut files {
        *file = file.strip_prefix(root()).unwrap().to_owned();
    }
    let mut missing = Vec::new();
    for (path, text) in documents() {
        if is_about_sources(&path) {
            let names = missing_sources(&text, &files).into_iter();
            missing.extend(names.map(|(line, name)| format!("{}:{line}: {name}", path.display())));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A short name means no file in a folder that the document does not name.
#[test]
fn short_names_of_sources_are_searched_in_the_folders_of_the_document() {
    let files = [
        "Cargo.toml",
        "ckptd/wire/src",
        "ckptd/wire/src/frame.rs",
        "ckptd/wire/src/io/outbox.rs",
        "interpose/base/src/arch.rs",
        "interpose/base/src/arch",
        "interpose/base/src/arch/guard.rs",
        "interpose/face/src/guardian.rs",
    ]
    .map(PathBuf::from);
    let text = "Code: `ckptd/wire/src/frame.rs`, `interpose/base/src/arch`, `Cargo.toml`.\n\
                `outbox.rs`, `io/outbox.rs`, `arch.rs` and `guard.rs` are described.\n\
                `guardian.rs` and `ckptd/wire/src/gone.rs` are not.\n";
    let missing = missing_sources(text, &files);
    assert_eq!(missing, [(3, "guardian.rs"), (3, "ckptd/wire/src/gone.rs")]);
}

/// The README and Spack's recipe require the `rust-version` of the workspace.
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
