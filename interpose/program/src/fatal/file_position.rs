//! Maps addresses to files, with /proc/self/maps and without allocation.
#![allow(unsafe_code)]

use std::ffi::c_int;
use understudy_formats::proc_maps::MapsLine;
use understudy_relay::NAME_LEN;

/// An offset in a file, and the file's name.
#[derive(Clone)]
pub struct FilePosition {
    /// Offset in the file.
    pub offset: u64,
    name: [u8; NAME_LEN],
    length: usize,
}

impl FilePosition {
    pub const UNKNOWN: FilePosition = FilePosition {
        offset: 0,
        name: [0; NAME_LEN],
        length: 0,
    };

    pub fn module(&self) -> &[u8] {
        &self.name[..self.length]
    }
}

/// Stores the file position of each address; [`FilePosition::UNKNOWN`] if no file is mapped there.
pub fn find(addresses: &[u64], positions: &mut [FilePosition]) {
    positions.fill(FilePosition::UNKNOWN);
    for_each_line(|line| {
        let Some(map) = MapsLine::parse(line) else {
            return;
        };
        let Some(name) = file_name(map.escaped_path) else {
            return;
        };
        for (&address, position) in addresses.iter().zip(positions.iter_mut()) {
            if map.range.contains(&address) {
                position.offset = address - map.range.start + map.offset;
                position.length = name.len().min(NAME_LEN);
                position.name[..position.length].copy_from_slice(&name[..position.length]);
            }
        }
    });
}

/// Returns the name of a file without directories; `None` for names such as `[heap]`.
fn file_name(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    Some(&path[slash + 1..])
}

/// Calls `act` for each line of /proc/self/maps.
fn for_each_line(mut act: impl FnMut(&[u8])) {
    let mut buffer = [0u8; 2048];
    // Number of bytes in the buffer that are not processed yet.
    let mut filled = 0;
    let Some(file) = MapsFile::open() else { return };
    loop {
        let read = file.read(&mut buffer[filled..]);
        if read == 0 {
            return;
        }
        filled += read;
        let mut done = 0;
        while let Some(length) = buffer[done..filled].iter().position(|&byte| byte == b'\n') {
            act(&buffer[done..done + length]);
            done += length + 1;
        }
        // The start of a line longer than the buffer is dropped; the remainder does not parse.
        let dropped = if done == 0 && filled == buffer.len() {
            filled
        } else {
            done
        };
        buffer.copy_within(dropped..filled, 0);
        filled -= dropped;
    }
}

struct MapsFile(c_int);

impl MapsFile {
    fn open() -> Option<MapsFile> {
        // SAFETY: open(2) reads only the path, which is a valid string.
        let file = unsafe {
            libc::open(
                c"/proc/self/maps".as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        (file >= 0).then_some(MapsFile(file))
    }

    /// Returns the number of bytes read; zero at the end or after an error.
    fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: read(2) into a valid buffer.
        let count = unsafe { libc::read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) };
        count.max(0) as usize
    }
}

impl Drop for MapsFile {
    fn drop(&mut self) {
        // SAFETY: close(2) of a descriptor that this value owns.
        unsafe { libc::close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_program_is_found_in_its_file() {
        let address = find as *const () as u64;
        let mut positions = [const { FilePosition::UNKNOWN }; 2];
        find(&[address, 1], &mut positions);
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().as_encoded_bytes();
        assert_eq!(positions[0].module(), &name[..name.len().min(NAME_LEN)]);
        assert!(positions[0].offset > 0 && positions[0].offset < address);
        assert_eq!(positions[1].module(), b"");
    }

    #[test]
    fn names_of_files_have_no_directories() {
        assert_eq!(file_name(b"/opt/a b.so"), Some(&b"a b.so"[..]));
        assert_eq!(file_name(b"[heap]"), None);
        assert_eq!(file_name(b""), None);
    }
}
