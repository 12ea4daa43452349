//! Writes the reference pages of settings and fault points, which are checked in.
//!
//! ```text
//! make generate
//! ```

#[path = "../tests/reference/pages.rs"]
mod pages;

fn main() -> std::io::Result<()> {
    for page in pages::pages() {
        std::fs::write(page.file(), page.text)?;
    }
    Ok(())
}
