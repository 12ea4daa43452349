//! Thread-local storage of the main thread's user side.
//!
//! The static TLS block and the thread's control block hold data of both sides: the modules of the program, the modules
//! of the runtime's namespace, and the C library's own record of the thread. Only the first, the slots of the program's
//! pthread keys and its list of held robust mutexes belong to the image; the pages themselves are left out of it.
#![allow(unsafe_code)]

use super::UserError;
use crate::{sys, told};
use std::ffi::{CStr, c_char, c_int, c_void};
use understudy_abi::RUNTIME_FIRST_KEY;
use understudy_image::runs::AddrRange;
use xxhash_rust::xxh3::xxh3_64;

/// A piece of memory with its name.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
struct Piece {
    module: String,
    address: u64,
    bytes: Vec<u8>,
}

/// The thread-local state.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Saved {
    pieces: Vec<Piece>,
    /// MXCSR and the x87 control word.
    floating_point: (u32, u16),
}

/// `struct dl_phdr_info` of dl_iterate_phdr(3).
#[repr(C)]
pub(super) struct ModuleInfo {
    pub base: usize,
    pub name: *const c_char,
    pub headers: *const Header,
    pub header_count: u16,
    pub adds: u64,
    pub subs: u64,
    pub tls_module: usize,
    pub tls_data: *mut c_void,
}

/// `Elf64_Phdr`
#[repr(C)]
pub(super) struct Header {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub virtual_address: u64,
    pub physical_address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

/// A module of the user side.
pub struct Module {
    /// Path; empty for the program.
    pub name: String,
    /// First and last address of its segments, page-aligned.
    pub ranges: Vec<(u64, u64)>,
    /// Address and length of its thread-local block in this thread.
    tls: Option<(u64, usize)>,
    /// Checksum of its notes, one of which is the linker's checksum of the whole file (build id) in most.
    notes: Option<u64>,
}

impl Module {
    /// Checksum of what it was built from.
    pub fn build(&self) -> u64 {
        let path = if self.name.is_empty() {
            "/proc/self/exe"
        } else {
            &self.name
        };
        let file = || xxh3_64(&std::fs::read(path).unwrap_or_default());
        self.notes.unwrap_or_else(file)
    }
}

unsafe extern "C" fn collect(info: *const ModuleInfo, _size: usize, modules: *mut c_void) -> c_int {
    const PT_LOAD: u32 = 1;
    const PT_TLS: u32 = 7;
    const PT_NOTE: u32 = 4;
    // Kind NT_GNU_BUILD_ID, owner "GNU" (elf(5)).
    const BUILD_ID: &[u8] = b"\x03\0\0\0GNU\0";
    // SAFETY: dl_iterate_phdr passes a valid structure and our own argument.
    unsafe {
        let (info, modules) = (&*info, &mut *modules.cast::<Vec<Module>>());
        let headers = std::slice::from_raw_parts(info.headers, info.header_count as usize);
        let name = CStr::from_ptr(info.name).to_string_lossy().into_owned();
        let range = |header: &Header| {
            let start = info.base as u64 + header.virtual_address;
            (start & !4095, (start + header.memory_size + 4095) & !4095)
        };
        let ranges = headers
            .iter()
            .filter(|header| header.kind == PT_LOAD)
            .map(range)
            .collect();
        let tls = headers
            .iter()
            .find(|header| header.kind == PT_TLS && !info.tls_data.is_null());
        let tls = tls.map(|header| (info.tls_data as u64, header.memory_size as usize));
        let bytes = |header: &Header| {
            std::slice::from_raw_parts(
                (info.base as u64 + header.virtual_address) as *const u8,
                header.memory_size as usize,
            )
        };
        let notes: Vec<&[u8]> = headers
            .iter()
            .filter(|header| header.kind == PT_NOTE)
            .map(bytes)
            .collect();
        let notes = notes.concat();
        let has_build_id = notes.windows(8).any(|window| window == BUILD_ID);
        modules.push(Module {
            name,
            ranges,
            tls,
            notes: has_build_id.then(|| xxh3_64(&notes)),
        });
    }
    0
}

/// Checksum of what this library was built from.
pub fn own_build() -> u64 {
    let here = own_build as *const () as u64;
    let is_here = |module: &Module| {
        module
            .ranges
            .iter()
            .any(|&(start, end)| (start..end).contains(&here))
    };
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: `collect` takes what dl_iterate_phdr(3) passes; the structures' beginnings are the same.
    unsafe {
        type Callback = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;
        type Own = unsafe extern "C" fn(*const ModuleInfo, usize, *mut c_void) -> c_int;
        let callback = std::mem::transmute::<Own, Callback>(collect);
        libc::dl_iterate_phdr(Some(callback), (&raw mut modules).cast());
    }
    modules
        .iter()
        .find(|module| is_here(module))
        .map_or(0, Module::build)
}

/// The modules of the user side, in load order.
pub fn modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    let callback: unsafe extern "C" fn(*const ModuleInfo, usize, *mut c_void) -> c_int = collect;
    // SAFETY: the callback has the type that dl_iterate_phdr(3) calls.
    unsafe { (told::info().user_iterate)(callback as *const c_void, (&raw mut modules).cast()) };
    modules
}

/// Where the C library keeps the values of the pthread keys that belong to the user side: the first-level block of 32
/// keys in the control block, and the pointers to the user side's further blocks.
///
fn key_slots() -> Vec<(u64, usize)> {
    let offset = sys::debuggers_offset(c"_thread_db_pthread_specific");
    let size = sys::debuggers_size(c"_thread_db_sizeof_pthread_key_data");
    let (Some(offset), Some(key_size)) = (offset, size) else {
        return Vec::new();
    };
    const KEYS_PER_BLOCK: u32 = 32;
    let table = control_block() + offset;
    // SAFETY: the first word of the table in this thread's control block.
    let first_block = unsafe { (table as *const u64).read() };
    let mut slots = vec![(
        table + 8,
        (RUNTIME_FIRST_KEY / KEYS_PER_BLOCK - 1) as usize * 8,
    )];
    if first_block != 0 {
        slots.push((first_block, KEYS_PER_BLOCK as usize * key_size as usize));
    }
    slots
}

/// Address of this thread's control block.
pub fn control_block() -> u64 {
    understudy_abi::control_block::address() as u64
}

/// Checksum of the stack protector's value and the pointer guard, which stacks and saved contexts hold.
pub fn guards() -> u64 {
    // SAFETY: words of glibc's thread control block on x86-64.
    let guards = unsafe { (control_block() as *const [u64; 2]).byte_add(0x28).read() };
    xxh3_64(&guards.map(u64::to_le_bytes).concat())
}

/// The list of the robust mutexes that the main thread holds (get_robust_list(2)): its head, in the control block, and
/// glibc's pointer before that, which makes it a list in both directions.
fn robust_list() -> Option<(u64, usize)> {
    const POINTER: usize = size_of::<u64>();
    let (mut head, mut length) = (0u64, 0usize);
    // SAFETY: get_robust_list(2) of the main thread writes both.
    unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            libc::getpid(),
            &raw mut head,
            &raw mut length,
        )
    };
    // A program may have given the kernel another one, which is in its memory then.
    let is_glibcs = (control_block()..control_block() + 4096).contains(&head);
    is_glibcs.then_some((head - POINTER as u64, length + POINTER))
}

impl Saved {
    /// MXCSR and the x87 control word of the thread that has made the cut.
    pub fn floating_point(&self) -> (u32, u16) {
        self.floating_point
    }

    /// The addresses of what is saved.
    pub fn ranges(&self) -> Vec<AddrRange> {
        let range =
            |piece: &Piece| AddrRange::new(piece.address, piece.address + piece.bytes.len() as u64);
        self.pieces.iter().map(range).collect()
    }
}

fn places() -> Vec<(String, u64, usize)> {
    let modules = modules()
        .into_iter()
        .filter_map(|module| module.tls.map(|(at, length)| (module.name, at, length)));
    modules
        .chain(
            key_slots()
                .into_iter()
                .map(|(at, length)| ("pthread keys".to_owned(), at, length)),
        )
        .chain(robust_list().map(|(at, length)| ("robust mutexes".to_owned(), at, length)))
        .collect()
}

/// Copies the thread-local state.
pub fn capture() -> Saved {
    let copy = |(module, address, length): (String, u64, usize)| Piece {
        module,
        address,
        // SAFETY: thread-local memory of this thread.
        bytes: unsafe { std::slice::from_raw_parts(address as *const u8, length) }.to_vec(),
    };
    let (mut mxcsr, mut control) = (0u32, 0u16);
    // SAFETY: stores the two control registers.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &mut mxcsr, in(reg) &mut control, options(nostack))
    };
    Saved {
        pieces: places().into_iter().map(copy).collect(),
        floating_point: (mxcsr, control),
    }
}

/// Puts the thread-local state back.
pub fn restore(saved: &Saved) -> Result<(), UserError> {
    let places = places();
    for piece in &saved.pieces {
        let found = places
            .iter()
            .any(|(_, at, length)| *at == piece.address && *length == piece.bytes.len());
        if !found {
            return Err(UserError::ThreadLocals(piece.module.clone()));
        }
        // SAFETY: thread-local memory of the user side, of that length.
        unsafe {
            (piece.address as *mut u8)
                .copy_from_nonoverlapping(piece.bytes.as_ptr(), piece.bytes.len())
        };
    }
    let (mxcsr, control) = saved.floating_point;
    // SAFETY: loads values that were stored by `capture`.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &mxcsr, in(reg) &control, options(nostack))
    };
    Ok(())
}
