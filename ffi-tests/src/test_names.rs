//! Tests by the names that documents and tables give them: file and function.

use std::path::{Path, PathBuf};

/// A test that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedTest {
    /// True if `make test` leaves the test out.
    pub is_ignored: bool,
}

/// Finds a source of the tests by its name, such as `kill_twice.rs`, below a directory.
fn source(directory: &Path, file: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let own = paths.iter().find(|path| path.ends_with(file)).cloned();
    own.or_else(|| {
        let mut directories = paths.iter().filter(|path| path.is_dir());
        directories.find_map(|path| source(path, file))
    })
}

/// Returns a test by its file, such as `kill_twice.rs`, and its function.
pub fn find(file: &str, function: &str) -> Option<NamedTest> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = std::fs::read_to_string(source(&tests, file)?).ok()?;
    // `conformance.rs` and `programs_table.rs` make tests of a table.
    if text.contains("macro_rules!") && text.contains(&format!("\n    {function}: ")) {
        return Some(NamedTest { is_ignored: false });
    }
    let at = text.find(&format!("\nfn {function}()"))?;
    // The attributes are between the function and the preceding blank line.
    let attributes = text[..at].rsplit("\n\n").next().unwrap_or("");
    let has = |attribute: &str| attributes.lines().any(|line| line.starts_with(attribute));
    has("#[test]").then(|| NamedTest {
        is_ignored: has("#[ignore"),
    })
}
