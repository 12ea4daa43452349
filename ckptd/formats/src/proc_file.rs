//! Files of the kernel that are read again and again (proc(5)).

use once_cell::sync::OnceCell;
use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Room for most of these files: fewer calls than with a buffer that grows.
const SIZE: usize = 4096;
/// Size beyond which it is another file that has got the descriptor.
const MAX_SIZE: usize = 1 << 20;

/// File below `/proc` that the main thread opens only once.
///
/// Opening and closing it takes most of the time of a read. Other threads may have descriptors of
/// their own (unshare(2), CLONE_FILES), and a child the file of its parent: they open it each time.
#[derive(Debug)]
pub struct ProcFile {
    path: &'static str,
    /// File, and the thread that has opened it.
    opened: OnceCell<(Pid, File)>,
}

impl ProcFile {
    /// Makes a file of this path, which is opened by the first read.
    pub const fn new(path: &'static str) -> Self {
        let opened = OnceCell::new();
        Self { path, opened }
    }

    /// Reads the file; `None` if it cannot be read.
    pub fn read(&self) -> Option<String> {
        self.of_main_thread()
            .and_then(read_whole)
            // The program may have closed the descriptor.
            .or_else(|| fs::read_to_string(self.path).ok())
    }

    fn of_main_thread(&self) -> Option<&File> {
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
    let mut bytes = vec![0; SIZE];
    let mut length = 0;
    while length < MAX_SIZE {
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
        assert!(text.len() > SIZE && text.contains("[stack]"), "{text}");
        assert_eq!(ProcFile::new("/proc/self/nothing").read(), None);
    }

    #[test]
    fn the_file_of_another_thread_is_not_used() {
        let limits = ProcFile::new("/proc/self/limits");
        let other = File::open("/dev/zero").expect("null(4)");
        limits.opened.set((getpid(), other)).expect("not opened");
        // Tests run in other threads than the main one.
        let text = limits.read().expect("proc(5)");
        assert!(text.starts_with("Limit"), "{text}");
        assert_eq!(read_whole(&limits.opened.get().expect("set").1), None);
    }
}
