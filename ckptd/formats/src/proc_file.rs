//! Files of the kernel that are read repeatedly (proc(5)).

use once_cell::sync::OnceCell;
use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Initial buffer size, sufficient for most files, so that one read(2) returns the whole file.
const INITIAL_BYTES: usize = 4096;
/// Maximum size of a file that is read through the stored descriptor.
///
/// Hardly any file below `/proc` is longer. A longer file suggests that the program has closed the
/// descriptor, and that its number now refers to a file of the program. So the path is read
/// instead.
const MAX_BYTES: usize = 1 << 20;

/// File below `/proc` that the main thread opens only once.
///
/// Opening and closing take most of the time of a read. In two cases each read opens the file
/// anew: in a thread other than the main thread, which may have a descriptor table of its own
/// (unshare(2), CLONE_FILES); and in a child process after fork(2), because the inherited
/// descriptor shows the state of the parent.
#[derive(Debug)]
pub struct ProcFile {
    path: &'static str,
    /// Thread id of the opener, and the file.
    opened: OnceCell<(Pid, File)>,
}

impl ProcFile {
    /// Creates a file of this path, which the first read opens.
    pub const fn new(path: &'static str) -> Self {
        let opened = OnceCell::new();
        Self { path, opened }
    }

    /// Reads the file; `None` if it cannot be read.
    pub fn read(&self) -> Option<String> {
        self.main_thread_file()
            .and_then(read_whole)
            // No descriptor of this thread, or the program may have closed the descriptor.
            .or_else(|| fs::read_to_string(self.path).ok())
    }

    fn main_thread_file(&self) -> Option<&File> {
        let thread = gettid();
        let open = || File::open(self.path).map(|file| (thread, file));
        let (owner, file) = match thread == getpid() {
            true => self.opened.get_or_try_init(open).ok()?,
            false => self.opened.get()?,
        };
        (*owner == thread).then_some(file)
    }
}

fn read_whole(file: &File) -> Option<String> {
    let mut bytes = vec![0; INITIAL_BYTES];
    let mut length = 0;
    while length < MAX_BYTES {
        match file.read_at(&mut bytes[length..], length as u64).ok()? {
            0 => {
                bytes.truncate(length);
                return String::from_utf8(bytes).ok();
            }
            count => length += count,
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    None
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
        assert!(
            text.len() > INITIAL_BYTES && text.contains("[stack]"),
            "{text}"
        );
        assert_eq!(ProcFile::new("/proc/self/nothing").read(), None);
    }

    #[test]
    fn the_file_of_another_thread_is_not_used() {
        let limits = ProcFile::new("/proc/self/limits");
        let other = File::open("/dev/zero").expect("null(4)");
        limits.opened.set((getpid(), other)).expect("not opened");
        // Tests do not run in the main thread.
        let text = limits.read().expect("proc(5)");
        assert!(text.starts_with("Limit"), "{text}");
        assert_eq!(read_whole(&limits.opened.get().expect("set").1), None);
    }
}
