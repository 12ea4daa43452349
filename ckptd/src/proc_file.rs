//! Files of the kernel that are read again and again (proc(5)).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Room for most of these files: fewer calls than with a buffer that grows.
const SIZE: usize = 4096;

/// File below `/proc` that is opened once and read from its beginning each time.
///
/// Opening and closing it takes most of the time of a read. Not for processes that fork: the file
/// of `/proc/self` stays that of the parent.
#[derive(Debug)]
pub struct ProcFile {
    path: &'static str,
    file: OnceLock<File>,
}

impl ProcFile {
    /// Makes a file of this path, which is opened by the first read.
    pub const fn new(path: &'static str) -> Self {
        let file = OnceLock::new();
        Self { path, file }
    }

    /// Reads the file; `None` if it cannot be read.
    pub fn read(&self) -> Option<String> {
        self.file()
            .and_then(whole)
            // The program may have closed the descriptor.
            .or_else(|| fs::read_to_string(self.path).ok())
    }

    fn file(&self) -> Option<&File> {
        if self.file.get().is_none() {
            // Another thread may be first.
            let _ = self.file.set(File::open(self.path).ok()?);
        }
        self.file.get()
    }
}

fn whole(file: &File) -> Option<String> {
    let mut bytes = vec![0; SIZE];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64).ok()? {
            0 => break,
            count => length += count,
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_each_time() {
        let limits = ProcFile::new("/proc/self/limits");
        let maps = ProcFile::new("/proc/self/smaps");
        let now = fs::read_to_string("/proc/self/limits").expect("proc(5)");
        assert_eq!(
            [limits.read(), limits.read()],
            [Some(now.clone()), Some(now)]
        );
        let text = maps.read().expect("proc(5)");
        assert!(text.len() > SIZE && text.contains("[stack]"), "{text}");
        assert_eq!(ProcFile::new("/proc/self/nothing").read(), None);
    }
}
