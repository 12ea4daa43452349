//! Names of functions on the stacks of ranks.

use object::File;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use understudy_formats::function_names::functions_at;
use understudy_launch::StackFrame;

/// Limit of files whose symbols are read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Time limit for the content of a file.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Contents of the files on the stacks; empty for files that cannot be read.
#[derive(Default)]
pub struct StackNames {
    files: BTreeMap<String, Vec<u8>>,
}

impl StackNames {
    /// Returns `function (file+offset)`, or `file+offset` if the function is unknown.
    pub fn name(&mut self, frame: &StackFrame) -> String {
        let path = &frame.path;
        let read = || read_in_time(path.clone()).unwrap_or_default();
        let bytes = self.files.entry(path.clone()).or_insert_with(read);
        let file = Path::new(path).file_name().unwrap_or_default().display();
        let place = format!("{file}+{:#x}", frame.offset);
        // A return address may follow the last instruction of a function.
        match function_at(bytes, frame.offset.saturating_sub(1)) {
            Some(function) => format!("{function} ({place})"),
            None => place,
        }
    }
}

/// Reads a file, which may be on a file system that does not answer.
fn read_in_time(path: String) -> Option<Vec<u8>> {
    let (sender, content) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let length = std::fs::metadata(&path).map(|file| file.len());
        let is_readable = length.is_ok_and(|length| length <= MAX_FILE_BYTES);
        let _ = sender.send(is_readable.then(|| std::fs::read(&path)));
    });
    content.recv_timeout(READ_TIMEOUT).ok()??.ok()
}

/// Returns the name of the function that contains an address of an ELF file.
fn function_at(bytes: &[u8], address: u64) -> Option<String> {
    let file = File::parse(bytes).ok()?;
    let function = functions_at(&file, &[address]).into_iter().next()??;
    Some(function.name().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSymbol};

    #[test]
    fn a_function_of_this_program_is_named() {
        let path = std::env::current_exe().expect("a file");
        let bytes = std::fs::read(&path).expect("readable");
        let file = File::parse(&*bytes).expect("an ELF file");
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok("main"));
        let frame = |path: &str| StackFrame {
            path: path.to_owned(),
            offset: symbol.as_ref().expect("a main function").address() + 2,
        };
        let mut names = StackNames::default();
        let name = names.name(&frame(&path.to_string_lossy()));
        assert!(name.starts_with("main ("), "{name}");
        let unknown = names.name(&frame("/nonexistent/solver"));
        assert!(unknown.starts_with("solver+0x"), "{unknown}");
    }
}
