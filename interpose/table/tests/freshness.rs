//! Tests that the checked-in generated files are those that the tables generate.

use std::path::Path;

#[test]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in understudy_table::generated_files() {
        let text = std::fs::read_to_string(root.join(file.path)).unwrap_or_default();
        let mut lines = text.lines().zip(file.text.lines()).zip(1..);
        let different = lines.find(|((stored, expected), _)| stored != expected);
        assert!(
            text == file.text,
            "{} is out of date (first difference: {different:?}); run make generate",
            file.path
        );
    }
}

/// Folders of generated files contain no handwritten files, which the style rules would not check.
#[test]
fn folders_of_generated_files_contain_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = understudy_table::generated_files();
    for folder in files
        .iter()
        .filter_map(|file| Path::new(file.path).parent())
        .filter(|folder| folder.ends_with("generated"))
    {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of sources");
        for entry in entries {
            let path = folder.join(entry.expect("a readable folder").file_name());
            let is_generated = files.iter().any(|file| Path::new(file.path) == path);
            assert!(is_generated, "{} is not generated", path.display());
        }
    }
}
