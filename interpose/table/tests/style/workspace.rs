//! Files whose language is checked: Rust sources by crate, and documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::lexer::{self, Parts};
use crate::packages::packages;

/// File names that may occur in several directories of a crate.
const COMMON_NAMES: [&str; 4] = ["lib.rs", "main.rs", "mod.rs", "tests.rs"];

/// A file, with the crate or document to which its offences are counted.
pub struct Source {
    /// Directory of the crate, or path of the document.
    pub owner: String,
    /// Path from the root of the workspace.
    pub path: String,
    pub text: String,
    pub parts: Parts,
    /// Path of an earlier file of the crate with an equal name.
    pub namesake: Option<String>,
    /// Offsets at which lines begin.
    lines: Vec<usize>,
}

impl Source {
    /// Prepares a Rust source.
    pub fn rust(owner: &str, path: &str, text: String) -> Source {
        let parts = lexer::split(&text);
        Source {
            parts,
            ..Source::document(owner, path, text)
        }
    }

    /// Prepares a document, which has no parts.
    pub fn document(owner: &str, path: &str, text: String) -> Source {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Source {
            owner: owner.to_owned(),
            path: path.to_owned(),
            lines: std::iter::once(0).chain(ends).collect(),
            parts: Parts::default(),
            namesake: None,
            text,
        }
    }

    /// Returns the number of the line, from 1, that contains an offset.
    pub fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    /// Returns a line without its indentation.
    pub fn line(&self, line: usize) -> &str {
        self.text[self.start_of(line)..]
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
    }

    /// Returns the offset at which a line begins.
    pub fn start_of(&self, line: usize) -> usize {
        self.lines[line - 1]
    }
}

pub fn root() -> PathBuf {
    let table = Path::new(env!("CARGO_MANIFEST_DIR"));
    table
        .ancestors()
        .nth(2)
        .expect("the workspace contains this crate")
        .to_owned()
}

/// Reads all Rust sources of the workspace and of the fuzz targets.
pub fn rust_sources() -> Vec<Source> {
    let manifest = read(&root().join("Cargo.toml"));
    let mut sources = Vec::new();
    for owner in packages(&manifest) {
        let mut paths = Vec::new();
        collect(&root().join(&owner), &mut paths);
        paths.sort();
        let mut crate_sources: Vec<Source> = paths
            .iter()
            .map(|path| open(path, |name, text| Source::rust(&owner, name, text)))
            .collect();
        set_namesakes(&mut crate_sources);
        sources.append(&mut crate_sources);
    }
    sources
}

/// Reads the README, the pages in `docs` and below, and the catalogue of messages.
pub fn documents() -> Vec<Source> {
    let mut paths = Vec::new();
    collect_pages(&root().join("docs"), &mut paths);
    paths.push(root().join("README.md"));
    paths.push(root().join("ckptd/catalogue/data/messages.toml"));
    paths
        .iter()
        .map(|path| open(path, |name, text| Source::document(name, name, text)))
        .collect()
}

fn collect_pages(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of pages");
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.is_dir() {
            collect_pages(&path, found);
        } else if has_extension(&path, "md") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn open(path: &Path, prepare: impl Fn(&str, String) -> Source) -> Source {
    let name = path
        .strip_prefix(root())
        .expect("the path begins with the root")
        .to_string_lossy();
    prepare(&name, read(path))
}

/// Finds the handwritten Rust files of a package, without build outputs and nested packages.
fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for path in entries.map(|entry| entry.expect("a readable directory").path()) {
        if has_extension(&path, "rs") {
            found.push(path);
        } else if path.is_dir() && !is_excluded(&path) {
            collect(&path, found);
        }
    }
}

/// Returns true for outputs of builds, generated sources, and packages.
fn is_excluded(directory: &Path) -> bool {
    directory.ends_with("target")
        || directory.ends_with("generated")
        || directory.join("Cargo.toml").exists()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}

/// Sets the namesakes of the files of one crate.
fn set_namesakes(sources: &mut [Source]) {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for source in sources {
        let name = source
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if COMMON_NAMES.contains(&name.as_str()) {
            continue;
        }
        if let Some(other) = paths.get(&name) {
            source.namesake = Some(other.clone());
        } else {
            paths.insert(name, source.path.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Source, collect, root, set_namesakes};

    #[test]
    fn a_file_counts_for_the_innermost_package() {
        let contains = |owner: &str, path: &str| {
            let mut paths = Vec::new();
            collect(&root().join(owner), &mut paths);
            paths.iter().any(|found| found.ends_with(Path::new(path)))
        };
        assert!(contains("ckptd", "ckptd/src/lib.rs"));
        assert!(contains("ckptd/protocol", "ckptd/protocol/src/lib.rs"));
        assert!(!contains("ckptd", "ckptd/protocol/src/lib.rs"));
    }

    #[test]
    fn the_second_file_of_a_name_has_a_namesake() {
        let paths = [
            "a/src/b.rs",
            "a/src/c/b.rs",
            "a/src/d.rs",
            "a/src/mod.rs",
            "a/src/c/mod.rs",
        ];
        let mut sources = paths.map(|path| Source::rust("a", path, String::new()));
        set_namesakes(&mut sources);
        let namesakes: Vec<_> = sources
            .iter()
            .map(|source| source.namesake.as_deref())
            .collect();
        assert_eq!(namesakes, [None, Some("a/src/b.rs"), None, None, None]);
    }

    #[test]
    fn offsets_lead_to_lines() {
        let source = Source::document("a", "a", "b\nc\nd".to_owned());
        assert_eq!(
            [0, 1, 2, 4].map(|offset| source.line_at(offset)),
            [1, 1, 2, 3]
        );
        assert_eq!(source.start_of(3), 4);
    }
}
