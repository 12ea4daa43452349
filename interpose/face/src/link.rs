//! Information from ld.so: loaded objects, their dependencies, and search paths of libraries.
//!
//! Source: ld.so(8) for the search order.
#![allow(unsafe_code)]

use crate::messages::Text;
use crate::sys::{self, nr, sys};
use core::ffi::{CStr, c_char, c_void};
use core::fmt::Display;
use core::sync::atomic::{AtomicBool, Ordering};
use understudy_catalogue::message;
use understudy_elf::{Dynamic, LinkMap, LoaderDebug, ProgramHeader, program_headers};

/// Soname that this library shares with the libmpi that it replaces.
pub const SONAME: &CStr = if cfg!(feature = "standard") {
    c"libmpi_abi.so.1"
} else if cfg!(feature = "debian") {
    c"libmpich.so.12"
} else if cfg!(feature = "mpich") {
    c"libmpi.so.12"
} else {
    c"libmpi.so.40"
};
/// [`SONAME`] as bytes.
pub const OUR_SONAME: &[u8] = SONAME.to_bytes();

/// Returns the message that the MPI library is missing.
pub fn not_found() -> impl Display {
    message::mpi_library_not_found(Text(OUR_SONAME))
}

/// Preload libraries, with the soname that each replaces.
const PRELOAD_LIBRARIES: [(&[u8], &[u8]); 4] = [
    (b"/libunderstudy.so", b"libmpi.so.40"),
    (b"/libunderstudy_mpich.so", b"libmpi.so.12"),
    (b"/libunderstudy_debian.so", b"libmpich.so.12"),
    (b"/libunderstudy_standard.so", b"libmpi_abi.so.1"),
];

/// Prefixes of the names of MPI libraries that preload libraries can replace.
const MPI_LIBRARY_PREFIXES: [&[u8]; 3] = [b"libmpi.so", b"libmpi_abi.so", b"libmpich.so"];
/// Prefixes of the names of Cray MPICH, one for each compiler.
///
/// No preload library replaces Cray MPICH. Compilers have numbers, as in `libmpi_gnu_91.so.12`.
const CRAY_PREFIXES: [&[u8]; 6] = [
    b"libmpi_cray",
    b"libmpi_gnu",
    b"libmpi_nvidia",
    b"libmpi_amd",
    b"libmpi_aocc",
    b"libmpi_intel",
];

unsafe extern "C" {
    static _r_debug: LoaderDebug;
}

/// Returns the program's entry in the list of loaded objects.
pub fn first() -> *const LinkMap {
    // SAFETY: ld.so sets the structure up before any constructor runs.
    unsafe { LoaderDebug::first(&raw const _r_debug) }
}

/// Returns all loaded objects, beginning with the program.
pub fn objects() -> impl Iterator<Item = &'static LinkMap> + Clone {
    // SAFETY: ld.so's list is well formed. The list does not change during a walk: callers run in
    // the constructor, in a recovery (partly within dlopen(3)), or in a starting interpreter.
    unsafe { LinkMap::list(first()) }
}

/// Returns the files of all loaded libraries, in ld.so's order.
///
/// The result is empty if a name contains a separator of LD_PRELOAD (ld.so(8)).
pub fn libraries() -> impl Iterator<Item = &'static [u8]> + Clone {
    let names = || {
        objects()
            .map(LinkMap::name)
            .filter(|name| name.contains(&b'/'))
    };
    let is_possible = !names().flatten().any(|byte| b": ".contains(byte));
    names().take_while(move |_| is_possible)
}

/// Sets the value of an entry of an object's dynamic section.
///
/// An entry that does not exist, or cannot be made writable, is not set.
pub fn set_dynamic_entry(object: &LinkMap, tag: usize, value: usize) {
    let Some(entry) = object.entry(tag) else {
        return;
    };
    let address = &raw const entry.value as usize;
    // SAFETY: a word of the object's dynamic section, which no other thread reads during the call.
    // The section may be read-only.
    unsafe {
        if sys::protect(address & !4095, (address & 4095) + 8, 3).is_ok() {
            (address as *mut usize).write_volatile(value);
        }
    }
}

/// Returns true if an object needs Open MPI's Fortran bindings.
pub fn needs_fortran_bindings(object: &LinkMap) -> bool {
    let bindings: [&[u8]; 2] = [b"libmpi_mpifh.so", b"libmpi_usempi"];
    object
        .strings(Dynamic::NEEDED)
        .any(|name| bindings.iter().any(|binding| name.starts_with(binding)))
}

/// Returns the soname of an object if it is that of Cray MPICH.
pub fn cray_name(object: &LinkMap) -> Option<&'static [u8]> {
    let is_cray = |name: &&[u8]| CRAY_PREFIXES.iter().any(|start| name.starts_with(start));
    object.strings(Dynamic::SONAME).find(is_cray)
}

/// Returns true if an object is an MPI library, by its soname.
pub fn is_mpi(object: &LinkMap) -> bool {
    let is_known = |name: &[u8]| {
        MPI_LIBRARY_PREFIXES
            .iter()
            .any(|start| name.starts_with(start))
    };
    object.strings(Dynamic::SONAME).any(is_known) || cray_name(object).is_some()
}

/// Returns the file name of the preload library that replaces an MPI library.
pub fn preload_library_for(object: &LinkMap) -> Option<&'static [u8]> {
    let is_for =
        |(_, soname): &&(_, &[u8])| object.strings(Dynamic::SONAME).any(|name| name == *soname);
    PRELOAD_LIBRARIES.iter().find(is_for).map(|&(file, _)| file)
}

/// A path under construction, which ends with a NUL.
pub struct Path {
    bytes: [u8; 4096],
    length: usize,
}

impl Path {
    pub const fn new() -> Path {
        Path {
            bytes: [0; 4096],
            length: 0,
        }
    }

    /// Appends text, unless the path would be too long.
    pub fn push(&mut self, text: &[u8]) -> &mut Path {
        if self.length + text.len() < self.bytes.len() {
            self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
            self.length += text.len();
            self.bytes[self.length] = 0;
        }
        self
    }

    pub fn clear(&mut self) -> &mut Path {
        self.length = 0;
        self.bytes[0] = 0;
        self
    }

    /// Returns the path without its NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the path with its NUL.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Sets the path to the target of the symbolic link `link`; returns true on success.
    pub fn read_link(&mut self, link: &CStr) -> bool {
        // SAFETY: the buffer has one byte more than the length that is passed, for the NUL.
        let length = unsafe {
            sys!(
                nr::READLINK,
                link.as_ptr(),
                self.bytes.as_mut_ptr(),
                self.bytes.len() - 1
            )
        };
        self.length = length.max(0) as usize;
        self.bytes[self.length] = 0;
        length > 0
    }

    /// Returns true if a file of this name can be opened for reading.
    pub fn is_file(&self) -> bool {
        // SAFETY: openat(2) reads the terminated path; the descriptor is this function's. The
        // arguments are AT_FDCWD and O_RDONLY|O_CLOEXEC.
        unsafe {
            let fd = sys!(nr::OPENAT, -100isize, self.as_ptr(), 0o2000000, 0);
            fd >= 0 && sys!(nr::CLOSE, fd) == 0
        }
    }

    /// Returns the part before the last slash, or `.` if the path has no slash.
    pub fn directory(path: &[u8]) -> &[u8] {
        match path.iter().rposition(|&byte| byte == b'/') {
            Some(0) => b"/",
            Some(slash) => &path[..slash],
            None => b".",
        }
    }
}

/// Finds the file that ld.so would have loaded for the program's dependency on `soname`.
///
/// Stores the path in `found`, and returns true on success. The search order is that of ld.so(8):
/// the RPATH of the object that depends on the library, `library_path` (LD_LIBRARY_PATH), the
/// object's RUNPATH, the cache, the default directories.
pub fn find_library(soname: &[u8], library_path: &[u8], found: &mut Path) -> bool {
    let dependent = objects()
        .find(|object| object.needs(soname))
        .or(objects().next());
    let runpath = dependent.and_then(|object| object.strings(Dynamic::RUNPATH).next());
    let rpath = if runpath.is_none() {
        dependent.and_then(|object| object.strings(Dynamic::RPATH).next())
    } else {
        None
    };
    let mut origin_path = Path::new();
    if let Some(object) = dependent {
        if object.name().is_empty() {
            origin_path.read_link(c"/proc/self/exe");
        } else {
            origin_path.push(object.name());
        }
    }
    let origin = Path::directory(origin_path.as_bytes());
    let lists = [rpath.unwrap_or(b""), library_path, runpath.unwrap_or(b"")];
    lists.iter().any(|list| search(list, origin, soname, found))
        || search_cache(soname, found)
        || search(
            b"/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib",
            origin,
            soname,
            found,
        )
}

fn search(list: &[u8], origin: &[u8], soname: &[u8], found: &mut Path) -> bool {
    list.split(|&byte| byte == b':' || byte == b';')
        .filter(|dir| !dir.is_empty())
        .any(|dir| {
            found.clear();
            let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"]
                .iter()
                .find_map(|token| dir.strip_prefix(*token));
            match rest {
                Some(rest) => found.push(origin).push(rest),
                None => found.push(dir),
            };
            found.push(b"/").push(soname);
            found.is_file()
        })
}

const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;
/// `FLAG_ELF_LIBC6 | FLAG_X8664_LIB64`
const CACHE_FLAGS: u32 = 0x0303;

/// Searches /etc/ld.so.cache for `soname`.
///
/// glibc's format 1.1 has a header of 48 bytes and entries of 24 bytes, with offsets of strings
/// from the start of the file.
fn search_cache(soname: &[u8], found: &mut Path) -> bool {
    let Some(cache) = read_file(c"/etc/ld.so.cache") else {
        return false;
    };
    if !cache.starts_with(CACHE_MAGIC) || cache.len() < CACHE_HEADER {
        return false;
    }
    let word = |offset: usize| {
        cache
            .get(offset..offset + 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    let text = |offset: u32| {
        cache
            .get(offset as usize..)
            .and_then(|b| CStr::from_bytes_until_nul(b).ok())
            .map(CStr::to_bytes)
    };
    (0..word(20) as usize)
        .map(|index| CACHE_HEADER + index * CACHE_ENTRY)
        .any(|entry| {
            if word(entry) != CACHE_FLAGS || text(word(entry + 4)) != Some(soname) {
                return false;
            }
            found.clear().push(text(word(entry + 8)).unwrap_or(b""));
            found.is_file()
        })
}

/// Reads a file of at most 16 MiB into new memory, which is never unmapped.
fn read_file(path: &CStr) -> Option<&'static [u8]> {
    const LIMIT: usize = 16 << 20;
    let buffer = sys::map_anonymous(0, LIMIT, sys::MAP_NORESERVE).ok()?;
    // SAFETY: a private buffer of `LIMIT` bytes, filled by pread(2).
    unsafe {
        let fd = sys!(nr::OPENAT, -100isize, path.as_ptr(), 0o2000000, 0);
        if fd < 0 {
            return None;
        }
        let length = sys!(nr::PREAD64, fd, buffer, LIMIT, 0);
        sys!(nr::CLOSE, fd);
        (length > 0).then(|| core::slice::from_raw_parts(buffer as *const u8, length as usize))
    }
}

/// Returns the addresses at which an object is mapped, from the program headers at `base`.
///
/// # Safety
/// `base` must be the address of a mapped ELF header.
pub unsafe fn extent(base: usize) -> Extent {
    let mut extent = Extent {
        base,
        length: 0,
        code: 0,
        code_length: 0,
        data: 0,
        data_length: 0,
    };
    // SAFETY: the caller guarantees that `base` is the address of a mapped ELF header.
    let headers = unsafe { program_headers(base) };
    for segment in headers
        .iter()
        .filter(|header| header.kind == ProgramHeader::LOAD)
    {
        let (start, size) = (segment.address, segment.size);
        extent.length = extent.length.max(start + size);
        if segment.is_code() {
            (extent.code, extent.code_length) = (base + start, size);
        } else if segment.is_data() {
            (extent.data, extent.data_length) = (base + start, size);
        }
    }
    extent
}

/// Addresses at which an object is mapped.
pub struct Extent {
    /// First address.
    pub base: usize,
    /// Size in bytes from the first address to the end of the last segment.
    pub length: usize,
    pub code: usize,
    pub code_length: usize,
    pub data: usize,
    pub data_length: usize,
}

#[repr(C)]
struct DlInfo {
    name: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

/// Returns the object that contains an address (dladdr(3)).
fn object_at(address: usize) -> DlInfo {
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut DlInfo) -> i32;
    }
    let null = core::ptr::null_mut();
    let mut info = DlInfo {
        name: c"".as_ptr(),
        base: null,
        symbol: core::ptr::null(),
        address: null,
    };
    // SAFETY: dladdr(3) accepts any address, and fills the structure.
    unsafe { dladdr(address as *const c_void, &mut info) };
    info
}

/// Returns the file of the object that contains an address, or an empty name.
pub fn file_of(address: usize) -> &'static [u8] {
    // SAFETY: the name is empty, or one that ld.so keeps as long as the object.
    unsafe { sys::bytes(object_at(address).name) }
}

/// Returns the path of this library.
pub fn own_path() -> &'static [u8] {
    file_of(own_path as *const () as usize)
}

/// Returns the base address of the object that contains an address.
pub fn base_of(address: usize) -> usize {
    object_at(address).base as usize
}

/// Returns the base address of this library.
pub fn own_base() -> usize {
    unsafe extern "C" {
        static __ehdr_start: u8;
    }
    &raw const __ehdr_start as usize
}

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);
static mut REQUESTED_FILE: Path = Path::new();

/// Stores the file of libmpi that the program opens; only the first file counts.
pub fn set_requested_file(file: Path) {
    if !IS_REQUESTED.load(Ordering::Relaxed) {
        // SAFETY: the variable is written once, and read only after the mark below is set.
        unsafe { REQUESTED_FILE = file };
        IS_REQUESTED.store(true, Ordering::Release);
    }
}

/// Returns the file of libmpi that the program has opened, if any.
#[allow(static_mut_refs)]
pub fn requested_file() -> Option<&'static Path> {
    // SAFETY: the variable was written once, before the mark was set.
    IS_REQUESTED
        .load(Ordering::Acquire)
        .then_some(unsafe { &REQUESTED_FILE })
}
