//! Mappings of a process: lines of `/proc/PID/maps` (proc_pid_maps(5)).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Suffix that the kernel appends to the path of a removed file.
pub const REMOVED: &[u8] = b" (deleted)";
/// Only escape of the kernel in paths: a newline.
const ESCAPED_NEWLINE: &[u8] = b"\\012";

/// Line of a `maps` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsLine<'a> {
    pub range: Range<u64>,
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_executable: bool,
    /// True for `MAP_SHARED`, false for `MAP_PRIVATE`.
    pub is_shared: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Device as (major, minor).
    pub device: (u32, u32),
    /// Inode, or 0 for anonymous memory.
    pub inode: u64,
    /// File name or `[name]`, in which newlines are escaped.
    pub escaped_path: &'a [u8],
}

impl MapsLine<'_> {
    /// Parses a line without its newline, without allocation; `None` for other text.
    pub fn parse(line: &[u8]) -> Option<MapsLine<'_>> {
        let mut rest = line;
        let start = number(&mut rest, 16, b'-')?;
        let end = number(&mut rest, 16, b' ')?;
        let (access, tail) = rest.split_at_checked(5)?;
        rest = tail;
        let offset = number(&mut rest, 16, b' ')?;
        let major = number(&mut rest, 16, b':')?;
        let minor = number(&mut rest, 16, b' ')?;
        let inode = number(&mut rest, 10, b' ')?;
        Some(MapsLine {
            range: start..end,
            is_readable: access[0] == b'r',
            is_writable: access[1] == b'w',
            is_executable: access[2] == b'x',
            is_shared: access[3] == b's',
            offset,
            device: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
            inode,
            escaped_path: rest.trim_ascii_start(),
        })
    }
}

impl<'a> MapsLine<'a> {
    /// Returns the file name or `[name]`.
    pub fn path(&self) -> Cow<'a, [u8]> {
        let escaped = self.escaped_path;
        let is_escape = |window| window == ESCAPED_NEWLINE;
        if !escaped.windows(ESCAPED_NEWLINE.len()).any(is_escape) {
            return Cow::Borrowed(escaped);
        }
        let mut path = Vec::with_capacity(escaped.len());
        let mut rest = escaped;
        while let Some((&first, tail)) = rest.split_first() {
            let newline = rest.strip_prefix(ESCAPED_NEWLINE);
            path.push(if newline.is_some() { b'\n' } else { first });
            rest = newline.unwrap_or(tail);
        }
        Cow::Owned(path)
    }
}

/// Reads digits up to `stop` or the line's end, and removes both from `rest`.
fn number(rest: &mut &[u8], radix: u32, stop: u8) -> Option<u64> {
    let length = rest.iter().position(|&byte| byte == stop);
    let length = length.unwrap_or(rest.len());
    let mut value: u64 = 0;
    for &byte in &rest[..length] {
        let digit = char::from(byte).to_digit(radix)?;
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
    }
    *rest = rest.get(length + 1..).unwrap_or(&[]);
    (length > 0).then_some(value)
}

/// Mapping of a file.
struct FileMapping {
    range: Range<u64>,
    /// Distance from the beginning of the file.
    offset: u64,
    is_executable: bool,
    path: PathBuf,
}

/// Mapped files of a process, at one time.
pub struct MappedFiles(Vec<FileMapping>);

/// File that is mapped at an address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MappedFile<'a> {
    pub path: &'a Path,
    /// Lowest address of this mapping of the file.
    pub start: u64,
    /// Address after this mapping of the file.
    pub end: u64,
    /// True if the address may contain code.
    pub is_executable: bool,
}

impl MappedFiles {
    /// Reads the mapped files; none if the process has ended.
    pub fn read(pid: u32) -> MappedFiles {
        let maps = std::fs::read(format!("/proc/{pid}/maps"));
        MappedFiles::parse(&maps.unwrap_or_default())
    }

    /// Reads the mapped files from the text of a `maps` file.
    pub fn parse(maps: &[u8]) -> MappedFiles {
        let mapping = |line| {
            let line = MapsLine::parse(line)?;
            line.escaped_path.starts_with(b"/").then(|| FileMapping {
                path: OsStr::from_bytes(&line.path()).into(),
                range: line.range,
                offset: line.offset,
                is_executable: line.is_executable,
            })
        };
        let lines = maps.split(|&byte| byte == b'\n');
        MappedFiles(lines.filter_map(mapping).collect())
    }

    /// Returns the paths of all mappings, in the order of addresses.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|mapping| mapping.path.as_path())
    }

    /// Returns the file that is mapped at an address.
    ///
    /// A process has some libraries several times, each of which begins with a mapping of the
    /// beginning of the file.
    pub fn at(&self, address: u64) -> Option<MappedFile<'_>> {
        let found = self.0.iter().find(|it| it.range.contains(&address))?;
        let of_file = || self.0.iter().filter(|it| it.path == found.path);
        let begins = |it: &&FileMapping| it.offset == 0 && it.range.start <= address;
        // A file whose beginning is not mapped is taken for one mapping.
        let first = of_file().rfind(begins).or_else(|| of_file().next())?;
        let after = of_file().filter(|it| it.range.start > first.range.start);
        let last = after.take_while(|it| it.offset != 0).last();
        Some(MappedFile {
            path: &found.path,
            start: first.range.start,
            end: last.unwrap_or(first).range.end,
            is_executable: found.is_executable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let line = |text: &'static str| MapsLine::parse(text.as_bytes()).expect("a line");
        let file = line("55d0c000-55d0e000 r-xp 00002000 fe:01 1234    /tmp/a b\\012c (deleted)");
        assert_eq!(file.range, 0x55d0_c000..0x55d0_e000);
        assert_eq!(&*file.path(), b"/tmp/a b\nc (deleted)");
        let numbers = (file.device, file.inode, file.offset);
        assert_eq!(numbers, ((0xfe, 1), 1234, 0x2000));
        assert!(file.is_readable && file.is_executable && !file.is_writable && !file.is_shared);
        let shared = line("7f00-8f00 rw-s 00000000 00:05 7");
        assert!(shared.is_shared && shared.is_writable && shared.escaped_path.is_empty());
        assert_eq!(shared.inode, 7);
        let kernel = line("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]");
        assert_eq!(kernel.escaped_path, b"[vsyscall]");
        assert!(!kernel.is_readable && kernel.is_executable);
        for other in ["", "nonsense", "7f00-8f00", "7f00-8f00 rw-s 00000000 00:05"] {
            assert_eq!(MapsLine::parse(other.as_bytes()), None, "{other}");
        }
    }

    const MAPS: &str = "\
555555554000-555555556000 r--p 00000000 fe:00 42                         /opt/my solver\n\
555555556000-555555557000 r-xp 00002000 fe:00 42                         /opt/my solver\n\
7ffff7d00000-7ffff7d01000 rw-p 00000000 00:00 0 \n\
7ffff7dd0000-7ffff7dd1000 r-xp 00000000 fe:00 43                         /lib/libc.so.6\n\
7ffff7dd1000-7ffff7dd2000 rw-p 00001000 fe:00 43                         /lib/libc.so.6\n\
7ffff7de0000-7ffff7de1000 r-xp 00000000 fe:00 43                         /lib/libc.so.6\n\
7ffff7df0000-7ffff7df1000 r-xp 00001000 00:01 8                          /memfd:code (deleted)\n\
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn addresses_are_found_in_the_nearest_copy_of_a_file() {
        let files = MappedFiles::parse(MAPS.as_bytes());
        let solver = MappedFile {
            path: Path::new("/opt/my solver"),
            start: 0x5555_5555_4000,
            end: 0x5555_5555_7000,
            is_executable: true,
        };
        assert_eq!(files.at(0x5555_5555_6010), Some(solver));
        // The library is there twice, and the beginning of the memfd is not mapped.
        for (start, end) in [
            (0x7fff_f7dd_0000, 0x7fff_f7dd_2000),
            (0x7fff_f7de_0000, 0x7fff_f7de_1000),
            (0x7fff_f7df_0000, 0x7fff_f7df_1000),
        ] {
            let found = files.at(end - 0x10).map(|file| (file.start, file.end));
            assert_eq!(found, Some((start, end)));
        }
        for elsewhere in [0x7fff_f7d0_0010, 0x7fff_ffff_0000, 1] {
            assert_eq!(files.at(elsewhere), None);
        }
        assert_eq!(files.paths().count(), 6);
    }
}
