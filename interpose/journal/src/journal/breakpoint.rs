//! Hardware breakpoint that counts the entries into one function of the program.
//!
//! The kernel sets the breakpoint (perf_event_open(2) with `PERF_TYPE_BREAKPOINT`). The program's
//! code is not changed.
#![allow(unsafe_code)]

use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use understudy_formats::function_names::denotes;
use understudy_image::vmas;

const PERF_TYPE_BREAKPOINT: u32 = 5;
const HW_BREAKPOINT_X: u32 = 4;
const FD_CLOEXEC: libc::c_ulong = 8;
/// `exclude_kernel` and `exclude_hv` of `struct perf_event_attr`.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// The first 72 bytes of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER1`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    bp_addr: u64,
    bp_len: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72);

/// Reason why a function cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum BreakpointError {
    #[error("the program's file cannot be read: {0}")]
    File(#[from] io::Error),
    /// Error of the parser, for example because the file is not an ELF file.
    #[error("the program's file cannot be parsed: {0}")]
    Format(#[from] object::Error),
    #[error("the program has no function of this name; `nm -C` lists them")]
    NoSymbol,
    /// Several functions have this name, for example with different arguments.
    #[error(
        "the program has {0} functions of this name; `nm` lists their symbols, of which one can \
         be named"
    )]
    Ambiguous(usize),
    /// The kernel refuses the breakpoint.
    #[error("the kernel refuses the breakpoint: {0}; see /proc/sys/kernel/perf_event_paranoid")]
    Refused(io::Error),
}

/// Watched function, as a descriptor of its breakpoint.
pub struct Breakpoint(File);

impl Breakpoint {
    /// Watches the entries of the calling thread into a function of the program's executable.
    pub fn on_function(name: &str) -> Result<Breakpoint, BreakpointError> {
        let address = address_of(name)?;
        let attributes = Attributes {
            kind: PERF_TYPE_BREAKPOINT,
            size: size_of::<Attributes>() as u32,
            flags: USER_ONLY,
            bp_type: HW_BREAKPOINT_X,
            bp_addr: address,
            bp_len: size_of::<usize>() as u64,
            ..Attributes::default()
        };
        // SAFETY: perf_event_open(2) for this thread gets a structure of the size that it names.
        // The descriptor is new and has no other owner.
        unsafe {
            let fd = libc::syscall(
                libc::SYS_perf_event_open,
                &attributes,
                0,
                -1,
                -1,
                FD_CLOEXEC,
            );
            if fd < 0 {
                return Err(BreakpointError::Refused(io::Error::last_os_error()));
            }
            // The descriptor is moved above those of the program: the program's next file must get
            // the number that it would get without the runtime.
            let low = OwnedFd::from_raw_fd(fd as i32);
            match libc::fcntl(
                low.as_raw_fd(),
                libc::F_DUPFD_CLOEXEC,
                understudy_abi::RUNTIME_FD_BASE,
            ) {
                -1 => Err(BreakpointError::Refused(io::Error::last_os_error())),
                fd => Ok(Breakpoint(File::from_raw_fd(fd))),
            }
        }
    }

    /// True if the function has been entered.
    pub fn was_hit(&self) -> bool {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count).is_ok() && u64::from_ne_bytes(count) > 0
    }
}

fn address_of(name: &str) -> Result<u64, BreakpointError> {
    let bytes = std::fs::read("/proc/self/exe")?;
    let file = object::File::parse(&*bytes)?;
    let base = match file.kind() {
        object::ObjectKind::Dynamic => first_mapping()?,
        _ => 0,
    };
    Ok(base + symbol_of(&file, name)?)
}

/// Returns the address in the file of the function that `name` denotes.
///
/// A function whose symbol equals `name` is preferred.
fn symbol_of(file: &object::File, name: &str) -> Result<u64, BreakpointError> {
    let functions = || {
        let all = file.symbols().chain(file.dynamic_symbols());
        all.filter(|symbol| symbol.is_definition())
    };
    if let Some(exact) = functions().find(|symbol| symbol.name() == Ok(name)) {
        return Ok(exact.address());
    }
    // A constructor may have several symbols with one address.
    let addresses: BTreeSet<u64> = functions()
        .filter(|symbol| {
            let is_denoted = |symbol_name| denotes(name, symbol_name);
            symbol.kind() == SymbolKind::Text && symbol.name().is_ok_and(is_denoted)
        })
        .map(|symbol| symbol.address())
        .collect();
    match (addresses.len(), addresses.first()) {
        (1, Some(&address)) => Ok(address),
        (0, _) | (_, None) => Err(BreakpointError::NoSymbol),
        (count, _) => Err(BreakpointError::Ambiguous(count)),
    }
}

/// Returns the address at which the program's executable is mapped.
fn first_mapping() -> io::Result<u64> {
    let path = std::fs::read_link("/proc/self/exe")?;
    let path = path.as_os_str().as_bytes();
    let all = vmas::read_self().map_err(io::Error::other)?;
    let first = all.iter().find(|vma| vma.path == path);
    first
        .map(|vma| vma.range.start)
        .ok_or_else(|| io::Error::other("the program's file is not mapped"))
}
