//! Reserved range: confines all mappings of the runtime and MPI sides to one range.
//!
//! Mappings of the program side must have equal addresses in every rank, so the other sides must
//! not use addresses that the kernel would otherwise give to the program side. A function `mmap`
//! that replaces libc's would miss the mappings that ld.so and libc create internally. Therefore
//! every instruction sequence in their code that makes the system call is patched ([`call_sites`]):
//!
//! ```text
//!     b8 09 00 00 00   mov $9,%eax            b8 ss ss ss ss   mov $stub,%eax
//!     0f 05            syscall          →     ff d0            call *%rax
//! ```
//!
//! Both sequences have seven bytes. The stub is in a page below 4 GiB, so its address fits the
//! 32-bit constant. If instructions lie between the `mov` and the `syscall`, they are copied to a
//! trampoline in that page, which ends with a jump to the stub. The call site then calls the
//! trampoline, and its remaining bytes become NOPs.
//!
//! The stub jumps to a function of [`zone_calls`], which makes the system call. The stack pointer
//! determines to which side the new mapping belongs. The runtime and MPI sides run on stacks in
//! the reserved range; for these sides, the function chooses an address in that range. For any
//! other stack the mapping is the program's, and the kernel chooses the address. The functions
//! preserve all registers that a system call preserves.
//!
//! After the patch, `load.rs` makes test mappings. A mapping outside of its half ([`check`]) shows
//! that the search has missed some code, and the libc is refused.
#![allow(unsafe_code)]

mod zone_calls;

use crate::sys;
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::call_sites::{self, CallSite};
use understudy_abi::{STUB_PAGE, ZONE_TAG};
pub use zone_calls::LIBRARY_ADDRESSES;
use zone_calls::{HALF_SHIFT, zone_mmap, zone_mremap, zone_shmat};

const PAGE: usize = 4096;
/// Access rights of mprotect(2).
const READ: usize = 1;
const WRITE: usize = 2;
const EXECUTE: usize = 4;

/// Halves of the reserved range: that of the runtime, and that of the MPI library.
#[derive(Clone, Copy)]
pub enum ReservedHalf {
    /// First half, for mappings of the runtime.
    Runtime,
    /// Second half, for mappings of the MPI library; a reinit unmaps all of them.
    Mpi,
}

/// System call that is patched in the code of libraries.
#[derive(Clone, Copy)]
pub enum PatchableCall {
    /// mmap(2)
    Mmap,
    /// mremap(2)
    Mremap,
    /// shmat(2)
    Shmat,
}

impl PatchableCall {
    /// All patchable system calls, with their names.
    pub const ALL: [(PatchableCall, &'static str); 3] = [
        (PatchableCall::Mmap, "mmap"),
        (PatchableCall::Mremap, "mremap"),
        (PatchableCall::Shmat, "shmat"),
    ];

    fn number(self) -> u8 {
        [9, 25, 30][self as usize]
    }

    fn target(self, half: ReservedHalf) -> usize {
        let targets = [
            [zone_mmap::<0> as *const (), zone_mmap::<1> as *const ()],
            [zone_mremap::<0> as *const (), zone_mremap::<1> as *const ()],
            [zone_shmat::<0> as *const (), zone_shmat::<1> as *const ()],
        ];
        targets[self as usize][half as usize] as usize
    }
}

/// Library whose instructions are patched.
#[derive(Clone, Copy)]
pub enum Library {
    /// ld.so, which maps libraries for all namespaces.
    Loader,
    /// The libc of the runtime's or the MPI library's namespace.
    Libc(ReservedHalf),
}

impl Library {
    fn index(self) -> usize {
        match self {
            Library::Loader => 0,
            Library::Libc(half) => 1 + half as usize,
        }
    }

    /// Returns the address of the stub, which call sites call directly or through a trampoline.
    fn stub(self, call: PatchableCall) -> usize {
        STUB_PAGE + 16 * (3 * self.index() + call as usize)
    }
}

fn write_stub(library: Library, call: PatchableCall, half: ReservedHalf) {
    let mut code = [0xcc_u8; 16];
    code[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp *0(%rip)
    code[6..14].copy_from_slice(&(call.target(half) as u64).to_le_bytes());
    // SAFETY: within the stub page, which `with_writable_stubs` has made writable.
    unsafe { (library.stub(call) as *mut [u8; 16]).write(code) };
}

/// Creates the stub page, which has one `jmp *address` for each library and call.
pub fn make_stubs() -> Result<(), i32> {
    sys::map_anonymous(STUB_PAGE, PAGE, 0)?;
    with_writable_stubs(|| {
        for (call, _) in PatchableCall::ALL {
            write_stub(Library::Loader, call, ReservedHalf::Runtime);
            for half in [ReservedHalf::Runtime, ReservedHalf::Mpi] {
                write_stub(Library::Libc(half), call, half);
            }
        }
    })
}

/// Makes the stub page writable during `write`, and executable afterwards.
///
/// No stub of any library can be executed during `write`. The functions that call this function run
/// at the start, when the process has one thread.
fn with_writable_stubs(write: impl FnOnce()) -> Result<(), i32> {
    // SAFETY: the page belongs to this module, and no other thread executes its stubs.
    unsafe { sys::protect(STUB_PAGE, PAGE, READ | WRITE)? };
    write();
    // SAFETY: the page belongs to this module.
    unsafe { sys::protect(STUB_PAGE, PAGE, READ | EXECUTE) }
}

/// Makes ld.so map into this half when it runs on a reserved stack.
///
/// A reserved stack is one in the reserved range.
///
/// After the start, only the MPI library opens libraries in the reserved range.
pub fn load_into(half: ReservedHalf) -> Result<(), i32> {
    with_writable_stubs(|| write_stub(Library::Loader, PatchableCall::Mmap, half))
}

/// Reason for which a library cannot be patched.
pub enum PatchError {
    /// The library's code has no system call of the known form.
    NotFound,
    /// The library's code has more than [`MAX_SITES`] such system calls.
    TooMany,
    /// mprotect(2) failed with this errno.
    Protect(i32),
    /// A mapping that the patched code has made is outside of its half.
    Outside,
}

/// Maximum number of call sites of one system call in one library.
///
/// glibc has up to three such call sites.
const MAX_SITES: usize = 16;
/// Address of the trampolines, which follow the stubs in the stub page.
const TRAMPOLINES_START: usize = STUB_PAGE + 256;
const TRAMPOLINE_SIZE: usize = 32;
/// Number of trampolines in use.
static TRAMPOLINES_USED: AtomicUsize = AtomicUsize::new(0);

const _: () = assert!(call_sites::MAX_BETWEEN + 5 <= TRAMPOLINE_SIZE);

/// Redirects every call site of this system call in a library's code to the stub.
///
/// The code of `library` begins at `code` and has `length` bytes. The inserted `call`, and the
/// function behind the stub, write below rsp. The patched code must therefore not use the red zone
/// (the area below rsp in leaf functions). glibc's functions with these calls do not use it.
///
/// # Safety
/// The range must be the mapped code of a library, and no other thread may run in it.
pub unsafe fn patch(
    library: Library,
    call: PatchableCall,
    code: usize,
    length: usize,
) -> Result<(), PatchError> {
    let mut sites = [None; MAX_SITES];
    // SAFETY: the caller guarantees mapped code, which is unchanged while the slice is in use.
    let text = unsafe { core::slice::from_raw_parts(code as *const u8, length) };
    let mut found = call_sites::find(text, call.number());
    for site in &mut sites {
        *site = found.next();
    }
    if found.next().is_some() {
        return Err(PatchError::TooMany);
    }
    if sites[0].is_none() {
        return Err(PatchError::NotFound);
    }
    for site in sites.into_iter().flatten() {
        // SAFETY: the caller guarantees mapped code in which no other thread runs.
        unsafe { redirect(code, site, library.stub(call)) }.map_err(PatchError::Protect)?;
    }
    Ok(())
}

/// Makes the call site call the stub.
///
/// The call returns behind the `call`, to NOPs up to the end of the former `syscall`.
///
/// # Safety
/// The requirements of [`patch`] apply.
unsafe fn redirect(code: usize, site: CallSite, stub: usize) -> Result<(), i32> {
    const NOP: u8 = 0x90;
    let mut bytes = [NOP; call_sites::LOAD_LENGTH + call_sites::MAX_BETWEEN + 2];
    let start = code + site.start;
    let target = if site.between == 0 {
        stub
    } else {
        // SAFETY: the instructions lie in the mapped code, which is readable.
        unsafe { trampoline(start + call_sites::LOAD_LENGTH, site.between, stub)? }
    };
    bytes[0] = 0xb8; // mov $target,%eax
    bytes[1..5].copy_from_slice(&(target as u32).to_le_bytes());
    bytes[5..7].copy_from_slice(&[0xff, 0xd0]); // call *%rax
    let first_page = start & !(PAGE - 1);
    let pages = (start + site.length() - first_page).next_multiple_of(PAGE);
    // SAFETY: the pages contain code of the library, in which no other thread runs, as the caller
    // guarantees.
    unsafe {
        sys::protect(first_page, pages, READ | WRITE | EXECUTE)?;
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, site.length());
        sys::protect(first_page, pages, READ | EXECUTE)
    }
}

/// Creates a trampoline: `length` bytes of copied instructions, and a jump to the stub.
///
/// # Safety
/// The instructions must be readable and not depend on their address.
unsafe fn trampoline(instructions: usize, length: usize, stub: usize) -> Result<usize, i32> {
    const ENOSPC: i32 = 28;
    let index = TRAMPOLINES_USED.fetch_add(1, Ordering::Relaxed);
    let address = TRAMPOLINES_START + TRAMPOLINE_SIZE * index;
    if address + TRAMPOLINE_SIZE > STUB_PAGE + PAGE {
        return Err(ENOSPC);
    }
    let jump = address + length;
    let distance = (stub as i32).wrapping_sub((jump + 5) as i32);
    // SAFETY: the caller guarantees readable instructions; the page is writable, and the jump ends
    // within the trampoline.
    with_writable_stubs(|| unsafe {
        core::ptr::copy_nonoverlapping(instructions as *const u8, address as *mut u8, length);
        (jump as *mut u8).write(0xe9); // jmp
        ((jump + 1) as *mut i32).write_unaligned(distance);
    })?;
    Ok(address)
}

/// Fails if a mapping is outside of its half of the reserved range.
///
/// The mapping must be one that patched code has made.
pub fn check(half: ReservedHalf, mapping: usize) -> Result<(), PatchError> {
    if mapping >> HALF_SHIFT == 2 * ZONE_TAG + half as usize {
        Ok(())
    } else {
        Err(PatchError::Outside)
    }
}
