//! Files that are mapped into a process (proc_pid_maps(5)).

use std::ops::Range;

/// A mapping of a file.
struct Mapping {
    range: Range<u64>,
    /// Distance from the beginning of the file.
    offset: u64,
    is_executable: bool,
    path: String,
}

/// Mapped files of a process, at a moment.
pub struct MappedFiles(Vec<Mapping>);

/// A file that is mapped at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedFile<'a> {
    pub path: &'a str,
    /// Lowest and highest address of the file.
    pub range: Range<u64>,
    /// True if the address may contain code.
    pub is_executable: bool,
}

impl MappedFiles {
    /// Reads the mapped files; none if the process has ended.
    pub fn read(pid: u32) -> MappedFiles {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        MappedFiles::parse(&maps.unwrap_or_default())
    }

    fn parse(maps: &str) -> MappedFiles {
        let mapping = |line: &str| {
            let (start, rest) = line.split_once('-')?;
            let (end, rest) = rest.split_once(' ')?;
            let (permissions, rest) = rest.split_once(' ')?;
            let (offset, rest) = rest.split_once(' ')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(Mapping {
                range: number(start)?..number(end)?,
                offset: number(offset)?,
                is_executable: permissions.contains('x'),
                path: rest[rest.find('/')?..].to_owned(),
            })
        };
        MappedFiles(maps.lines().filter_map(mapping).collect())
    }

    /// Returns the file that is mapped at an address.
    ///
    /// A process has some libraries several times, each of which begins with a mapping of the
    /// beginning of the file.
    pub fn at(&self, address: u64) -> Option<MappedFile<'_>> {
        let found = self.0.iter().find(|it| it.range.contains(&address))?;
        let begins = |it: &&Mapping| it.path == found.path && it.offset == 0;
        let mut before = self.0.iter().rev().filter(begins);
        let first = before.find(|it| it.range.start <= address)?;
        let of_file = self.0.iter().filter(|it| it.path == found.path);
        let after = of_file.filter(|it| it.range.start > first.range.start);
        let last = after
            .take_while(|it| it.offset != 0)
            .last()
            .unwrap_or(first);
        Some(MappedFile {
            path: &found.path,
            range: first.range.start..last.range.end,
            is_executable: found.is_executable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555555554000-555555556000 r--p 00000000 fe:00 42                         /opt/my solver\n\
555555556000-555555557000 r-xp 00002000 fe:00 42                         /opt/my solver\n\
7ffff7d00000-7ffff7d01000 rw-p 00000000 00:00 0 \n\
7ffff7dd0000-7ffff7dd1000 r-xp 00000000 fe:00 43                         /lib/libc.so.6\n\
7ffff7dd1000-7ffff7dd2000 rw-p 00001000 fe:00 43                         /lib/libc.so.6\n\
7ffff7de0000-7ffff7de1000 r-xp 00000000 fe:00 43                         /lib/libc.so.6\n\
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn addresses_are_found_in_their_files() {
        let files = MappedFiles::parse(MAPS);
        let solver = MappedFile {
            path: "/opt/my solver",
            range: 0x5555_5555_4000..0x5555_5555_7000,
            is_executable: true,
        };
        assert_eq!(files.at(0x5555_5555_6010), Some(solver));
        // The library is there twice.
        for range in [
            0x7fff_f7dd_0000..0x7fff_f7dd_2000,
            0x7fff_f7de_0000..0x7fff_f7de_1000,
        ] {
            let found = files.at(range.start + 0x10).map(|file| file.range);
            assert_eq!(found, Some(range));
        }
        for elsewhere in [0x7fff_f7d0_0010, 0x7fff_ffff_0000, 1] {
            assert_eq!(files.at(elsewhere), None);
        }
    }
}
