//! The process's mappings as the kernel lists them, and the owner of each.
//!
//! Format: <https://docs.kernel.org/filesystems/proc.html> ("maps").

use super::pages::AddrRange;
use bincode::{Decode, Encode};
use std::fs::File;
use std::io::{self, Read};
use understudy_formats::proc_maps::MapsLine;

pub use understudy_formats::proc_maps::REMOVED;

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Prot {
    pub read: bool,
    pub write: bool,
    pub exec: bool,
}

impl Prot {
    /// Returns the bits for `mmap(2)` and `mprotect(2)`.
    pub fn bits(self) -> i32 {
        let bit_if = |is_allowed: bool, bit: i32| if is_allowed { bit } else { 0 };
        bit_if(self.read, libc::PROT_READ)
            | bit_if(self.write, libc::PROT_WRITE)
            | bit_if(self.exec, libc::PROT_EXEC)
    }
}

/// Line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    pub range: AddrRange,
    pub prot: Prot,
    /// True for `MAP_SHARED`, false for `MAP_PRIVATE`.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Device as (major, minor).
    pub dev: (u32, u32),
    /// Inode, or 0 for anonymous memory.
    pub inode: u64,
    /// File name or `[name]`, unescaped.
    pub path: Vec<u8>,
}

/// Owner of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The program: captured and rolled back.
    User,
    /// The runtime and MPI sides.
    Runtime,
    /// The dynamic loader (ld.so): its code, data and heaps.
    Loader,
    /// The initial thread's stack, which grows by itself; only its live part is captured.
    Stack,
    /// The kernel: vdso, vvar, vsyscall and similar mappings.
    Kernel,
    /// Device memory and rings, whose content cannot be saved as memory.
    Device,
}

/// Ranges that do not belong to the program side.
#[derive(Clone, Debug, Default)]
pub struct ExcludedRanges {
    excluded: Vec<(AddrRange, Owner)>,
}

/// Reserved range, which contains all memory of the runtime and MPI sides.
pub const RUNTIME_ZONE: AddrRange = AddrRange::new(0x2000_0000_0000, 0x2800_0000_0000);

impl ExcludedRanges {
    /// Excludes the reserved range only.
    pub fn with_runtime_zone() -> Self {
        let mut zones = Self::default();
        zones.exclude(RUNTIME_ZONE, Owner::Runtime);
        zones
    }

    /// Excludes another range.
    pub fn exclude(&mut self, range: AddrRange, owner: Owner) {
        if !range.is_empty() {
            self.excluded.push((range, owner));
            self.excluded.sort_unstable_by_key(|&(range, _)| range);
        }
    }

    /// Returns the owner of the byte at `addr` in `vma`.
    pub fn owner_at(&self, vma: &Vma, addr: u64) -> Owner {
        let excluded = self.excluded.iter().find(|(r, _)| r.contains(addr));
        excluded.map_or_else(|| owner_by_name(vma), |&(_, owner)| owner)
    }

    /// Returns the parts of `range` outside of all excluded ranges, in order.
    pub fn user_parts(&self, range: AddrRange) -> Vec<AddrRange> {
        let mut parts = Vec::new();
        let mut next = range.start;
        for &(excluded, _) in &self.excluded {
            if excluded.end <= next {
                continue;
            }
            if excluded.start >= range.end {
                break;
            }
            if excluded.start > next {
                parts.push(AddrRange::new(next, excluded.start));
            }
            next = excluded.end;
        }
        if next < range.end {
            parts.push(AddrRange::new(next, range.end));
        }
        parts
    }

    /// Returns an excluded range that contains `range`.
    pub(super) fn around(&self, range: AddrRange) -> Option<AddrRange> {
        let mut all = self.excluded.iter().map(|&(cut, _)| cut);
        all.find(|cut| cut.start <= range.start && range.end <= cut.end)
    }

    /// True if `range` overlaps an excluded range.
    pub fn touches_excluded(&self, range: AddrRange) -> bool {
        let mut all = self.excluded.iter();
        all.any(|(cut, _)| cut.intersect(range).is_some())
    }
}

/// Determines the owner of a mapping from its name alone.
pub fn owner_by_name(vma: &Vma) -> Owner {
    let path = vma.path.as_slice();
    match path {
        b"[stack]" => return Owner::Stack,
        b"[vdso]" | b"[vsyscall]" | b"[uprobes]" => return Owner::Kernel,
        _ if path.starts_with(b"[vvar") => return Owner::Kernel,
        _ => {}
    }
    let memory: [&[u8]; 3] = [b"/dev/shm/", b"/dev/zero", b"/dev/hugepages/"];
    let is_device = path.starts_with(b"/dev/") && !memory.iter().any(|p| path.starts_with(p));
    let rings: [&[u8]; 3] = [b"anon_inode:", b"socket:", b"/[aio]"];
    if is_device || rings.iter().any(|kind| path.starts_with(kind)) {
        return Owner::Device;
    }
    Owner::User
}

/// The mappings could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum MapsError {
    /// The list could not be read.
    #[error("cannot read /proc/self/maps")]
    Read(#[source] io::Error),
    /// A line does not have the documented format.
    #[error("cannot parse the /proc/self/maps line {line:?}")]
    Parse { line: String },
}

/// Lists the mappings of this process.
///
/// # Errors
/// Fails if the list cannot be read or parsed.
pub fn read_self() -> Result<Vec<Vma>, MapsError> {
    let mut text = Vec::with_capacity(64 * 1024);
    File::open("/proc/self/maps")
        .and_then(|mut file| file.read_to_end(&mut text))
        .map_err(MapsError::Read)?;
    parse(&text)
}

/// Parses the text of a `maps` file.
///
/// # Errors
/// [`MapsError::Parse`] with the invalid line.
pub fn parse(text: &[u8]) -> Result<Vec<Vma>, MapsError> {
    let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            parse_line(line).ok_or_else(|| MapsError::Parse {
                line: String::from_utf8_lossy(line).into_owned(),
            })
        })
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Vma> {
    let line = MapsLine::parse(line)?;
    Some(Vma {
        range: AddrRange::new(line.range.start, line.range.end),
        prot: Prot {
            read: line.is_readable,
            write: line.is_writable,
            exec: line.is_executable,
        },
        shared: line.is_shared,
        offset: line.offset,
        dev: line.device,
        inode: line.inode,
        path: line.path().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let text = b"55d0c000-55d0e000 r-xp 00002000 fe:01 1234    /tmp/a\n\
            7f00-8f00 rw-s 00000000 00:05 7\n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";
        let all = parse(text).unwrap();
        let file = Vma {
            range: AddrRange::new(0x55d0_c000, 0x55d0_e000),
            prot: Prot {
                read: true,
                write: false,
                exec: true,
            },
            shared: false,
            offset: 0x2000,
            dev: (0xfe, 1),
            inode: 1234,
            path: b"/tmp/a".to_vec(),
        };
        assert_eq!(all[0], file);
        assert!(all[1].shared && all[1].prot.write && all[1].path.is_empty());
        assert_eq!(owner_by_name(&all[2]), Owner::Kernel);
        assert!(parse(b"nonsense").is_err());
    }

    #[test]
    fn own_maps_are_sorted_and_contain_this_function() {
        let all = read_self().unwrap();
        assert!(all.is_sorted_by_key(|vma| vma.range.start));
        let here = own_maps_are_sorted_and_contain_this_function as *const () as u64;
        let vma = all.iter().find(|vma| vma.range.contains(here)).unwrap();
        assert!(vma.prot.exec && vma.inode != 0);
    }

    #[test]
    fn excluded_ranges_are_cut_out() {
        let mut zones = ExcludedRanges::with_runtime_zone();
        zones.exclude(AddrRange::new(0x5000, 0x6000), Owner::Loader);
        zones.exclude(AddrRange::new(0x1000, 0x3000), Owner::Loader);
        let parts = zones.user_parts(AddrRange::new(0x2000, 0x9000));
        let want = [
            AddrRange::new(0x3000, 0x5000),
            AddrRange::new(0x6000, 0x9000),
        ];
        assert_eq!(parts, want);
        assert!(zones.user_parts(RUNTIME_ZONE).is_empty());
        assert!(zones.touches_excluded(AddrRange::new(0x2fff, 0x3001)));
    }
}
