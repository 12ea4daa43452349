//! Writes the generated files, which are checked in.
//!
//! ```text
//! make generate
//! ```

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in understudy_table::generated_files() {
        let path = root.join(file.path);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // An unchanged file keeps its time, so that dependent crates are not compiled again.
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&file.text) {
            std::fs::write(path, file.text)?;
        }
    }
    Ok(())
}
