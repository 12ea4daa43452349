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
//! 32-bit constant. Instructions between the load and `syscall` are copied to a trampoline in that
//! page, which executes them and jumps to the stub.
//!
//! The stub jumps to a function of this module, which makes the system call. The stack pointer
//! determines to which side the new mapping belongs. The runtime and MPI sides run on stacks in
//! the reserved range; for these sides, the function chooses an address in that range. For any
//! other stack the mapping is the program's, and the kernel chooses the address. The functions
//! preserve all registers that a system call preserves.
//!
//! To find code that the search has missed, mappings that are made right after the patch are
//! checked ([`check`]). A libc with such code is thus refused at the start.
#![allow(unsafe_code)]

use crate::sys;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use understudy_abi::call_sites::{self, CallSite};
use understudy_abi::{MPI_ZONE_START, STUB_PAGE, ZONE_END, ZONE_SHIFT, ZONE_START, ZONE_TAG};

/// Halves of the reserved range: that of the runtime, and that of the MPI library.
#[derive(Clone, Copy)]
pub enum ReservedHalf {
    /// First half, for mappings of the runtime.
    Runtime,
    /// Second half, for mappings of the MPI library; a reinit unmaps all of them.
    Mpi,
}

/// `address >> HALF_SHIFT` identifies the half.
const HALF_SHIFT: u32 = ZONE_SHIFT - 1;
/// Address at which allocation begins in each half.
const FIRST_ADDRESS: [usize; 2] = [ZONE_START + (2 << 30), MPI_ZONE_START];
/// Next address to allocate in each half.
///
/// The counter increases up to the end of the half, then restarts. mmap(2) detects addresses that
/// are still in use (MAP_FIXED_NOREPLACE), as does shmat(2).
static NEXT_ADDRESS: [AtomicUsize; 2] = [
    AtomicUsize::new(FIRST_ADDRESS[0]),
    AtomicUsize::new(FIRST_ADDRESS[1]),
];

/// Addresses for the next libraries that ld.so maps for the program side.
///
/// 0 ends the list. A replacement opens the libraries that the failed rank had opened, at equal
/// addresses.
pub static mut LIBRARY_ADDRESSES: [usize; understudy_abi::MAX_LIBRARY_ADDRESSES] =
    [0; understudy_abi::MAX_LIBRARY_ADDRESSES];

/// Minimum size of mappings that are aligned to a huge page.
const MIN_ALIGNED_SIZE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

const _: () = assert!(
    ZONE_TAG == 4
        && MIN_ALIGNED_SIZE == 2 * HUGE_PAGE
        && MPI_ZONE_START == (2 * ZONE_TAG + 1) << HALF_SHIFT
);

/// Replaces `mov $9,%eax; syscall` (mmap).
///
/// Arguments are those of the system call: address in rdi, length in rsi, protection in rdx, flags
/// in r10, descriptor in r8, offset in r9. For the runtime and MPI sides, the code adds the length
/// to the half's counter (`xadd`), and maps at the previous value, until that address is free. For
/// the program side, two mappings of ld.so are special; all others are passed to the kernel.
#[unsafe(naked)]
unsafe extern "C" fn zone_mmap<const HALF: usize>() {
    naked_asm!(
        "mov rax, rsp",
        "shr rax, {shift}",
        "cmp eax, {tag}",
        "jne 9f",
        "test r10d, {fixed}",
        "jnz 9f",
        "20: push rdi",
        "push r10",
        "or r10d, {noreplace}",
        "2: lea rax, [rsi + 0x1fff]", // a guard page behind every mapping
        "and rax, -0x1000",
        "cmp rsi, {large}",
        "jb 3f",
        "lea rax, [rsi + {large} - 1]",
        "and rax, -{huge}",
        "3: mov rdi, rax",
        "lock xadd qword ptr [rip + {next} + {half}], rdi",
        "cmp rsi, {large}",
        "jb 4f",
        "add rdi, {huge} - 1",
        "and rdi, -{huge}",
        "4: lea rcx, [rdi + rsi]",
        "shr rcx, {half_shift}",
        "cmp ecx, {half_tag}",
        "jne 5f",
        "mov eax, 9",
        "syscall",
        "cmp rax, -17", // EEXIST: try the next address
        "je 2b",
        "jmp 6f",
        "5: movabs rcx, {restart}", // end of the half: restart; NOREPLACE skips used addresses
        "mov qword ptr [rip + {next} + {half}], rcx",
        "jmp 2b",
        "6: pop r10",
        "pop rdi",
        "ret",
        // Program side: ld.so's cache, a private read-only mapping, is placed in the reserved
        // range, where it takes no address of the program.
        "9: cmp r10d, {private}",
        "jne 29f",
        "cmp edx, {read}",
        "jne 29f",
        "test rdi, rdi",
        "jz 20b",
        // ld.so's first map of a library receives the next address of the list. The map has
        // MAP_DENYWRITE, or no access rights if ld.so first reserves space for an aligned library.
        "29: cmp qword ptr [rip + {library_addresses}], 0",
        "je 8f",
        "test r10d, {fixed}",
        "jnz 8f",
        "test edx, edx",
        "jz 6f",
        "test r10d, {deny_write}",
        "jz 8f",
        "6: push rdi",
        "push rsi",
        "push r10",
        "mov rdi, qword ptr [rip + {library_addresses}]",
        "xor ecx, ecx",
        "lea rax, [rip + {library_addresses}]",
        "7: mov rsi, qword ptr [rax + rcx * 8 + 8]",
        "mov qword ptr [rax + rcx * 8], rsi",
        "inc ecx",
        "test rsi, rsi",
        "jnz 7b",
        "mov rsi, qword ptr [rsp + 8]",
        "or r10d, {noreplace}",
        "mov eax, 9",
        "syscall",
        "pop r10",
        "pop rsi",
        "pop rdi",
        "ret",
        "8: mov eax, 9",
        "syscall",
        "ret",
        library_addresses = sym LIBRARY_ADDRESSES,
        deny_write = const 0x800,
        private = const 2,
        read = const 1,
        shift = const ZONE_SHIFT,
        tag = const ZONE_TAG,
        fixed = const 0x10_0010,
        noreplace = const 0x10_0000,
        large = const MIN_ALIGNED_SIZE,
        huge = const HUGE_PAGE,
        next = sym NEXT_ADDRESS,
        half = const 8 * HALF,
        half_shift = const HALF_SHIFT,
        half_tag = const 2 * ZONE_TAG + HALF,
        restart = const FIRST_ADDRESS[HALF],
    )
}

/// Replaces `mov $25,%eax; syscall` (mremap).
///
/// A growing, movable mapping of the runtime or MPI side is moved to new addresses of its half.
#[unsafe(naked)]
unsafe extern "C" fn zone_mremap<const HALF: usize>() {
    naked_asm!(
        "mov rax, rsp",
        "shr rax, {shift}",
        "cmp eax, {tag}",
        "jne 9f",
        "test r10d, 2", // MREMAP_FIXED
        "jnz 9f",
        "test r10d, 1", // MREMAP_MAYMOVE
        "jz 9f",
        "cmp rdx, rsi",
        "jbe 9f",
        "push r10",
        "push r8",
        "or r10d, 2",
        "lea r8, [rdx + {large} - 1]",
        "and r8, -{huge}",
        "lock xadd qword ptr [rip + {next} + {half}], r8",
        "add r8, {huge} - 1",
        "and r8, -{huge}",
        "mov eax, 25",
        "syscall",
        "pop r8",
        "pop r10",
        "ret",
        "9: mov eax, 25",
        "syscall",
        "ret",
        shift = const ZONE_SHIFT,
        tag = const ZONE_TAG,
        large = const MIN_ALIGNED_SIZE,
        huge = const HUGE_PAGE,
        next = sym NEXT_ADDRESS,
        half = const 8 * HALF,
    )
}

/// Replaces `mov $30,%eax; syscall` (shmat).
///
/// A segment of the runtime or MPI side receives the next address of the half. The size, which
/// shmat(2) does not take as an argument, is obtained by shmctl(2) with IPC_STAT.
#[unsafe(naked)]
unsafe extern "C" fn zone_shmat<const HALF: usize>() {
    naked_asm!(
        "mov rax, rsp",
        "shr rax, {shift}",
        "cmp eax, {tag}",
        "jne 9f",
        "test rsi, rsi",
        "jnz 9f",
        "push rsi",
        "push r8",
        "push r9",
        "push rdx",
        "sub rsp, {description}",
        "mov esi, {stat}",
        "mov rdx, rsp",
        "mov eax, 31",
        "syscall",
        "mov r8, qword ptr [rsp + {size}]",
        "add rsp, {description}",
        "pop rdx",
        "test rax, rax",
        "js 6f",
        "add r8, 2 * {huge} - 1",
        "and r8, -{huge}",
        "mov r9d, {tries}",
        "2: mov rax, -22",
        "dec r9d",
        "js 6f",
        "mov rsi, r8",
        "lock xadd qword ptr [rip + {next} + {half}], rsi",
        "add rsi, {huge} - 1",
        "and rsi, -{huge}",
        "lea rcx, [rsi + r8]",
        "shr rcx, {half_shift}",
        "cmp ecx, {half_tag}",
        "jne 5f",
        "mov eax, 30",
        "syscall",
        "cmp rax, -22", // EINVAL: the address is in use
        "je 2b",
        "6: pop r9",
        "pop r8",
        "pop rsi",
        "ret",
        "5: movabs rcx, {restart}", // end of the half
        "mov qword ptr [rip + {next} + {half}], rcx",
        "jmp 2b",
        "9: mov eax, 30",
        "syscall",
        "ret",
        shift = const ZONE_SHIFT,
        tag = const ZONE_TAG,
        // IPC_STAT, and `struct shmid_ds` with the segment's size.
        stat = const 2,
        description = const 112,
        size = const 48,
        // Maximum number of addresses that are tried.
        tries = const 4096,
        huge = const HUGE_PAGE,
        next = sym NEXT_ADDRESS,
        half = const 8 * HALF,
        half_shift = const HALF_SHIFT,
        half_tag = const 2 * ZONE_TAG + HALF,
        restart = const FIRST_ADDRESS[HALF],
    )
}

/// System calls that can be patched.
#[derive(Clone, Copy)]
pub enum Patched {
    /// mmap(2)
    Mmap,
    /// mremap(2)
    Mremap,
    /// shmat(2)
    Shmat,
}

impl Patched {
    /// All patchable system calls, with their names.
    pub const ALL: [(Patched, &'static str); 3] = [
        (Patched::Mmap, "mmap"),
        (Patched::Mremap, "mremap"),
        (Patched::Shmat, "shmat"),
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

    /// Returns the address to which the patched instruction jumps.
    fn stub(self, call: Patched) -> usize {
        STUB_PAGE + 16 * (3 * self.index() + call as usize)
    }
}

fn write_stub(library: Library, call: Patched, half: ReservedHalf) {
    let mut code = [0xcc_u8; 16];
    code[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp *0(%rip)
    code[6..14].copy_from_slice(&(call.target(half) as u64).to_le_bytes());
    // SAFETY: within the page that `make_stubs` has mapped, while the page is writable.
    unsafe { (library.stub(call) as *mut [u8; 16]).write(code) };
}

/// Creates the stub page, which has one `jmp *address` for each library and call.
pub fn make_stubs() -> Result<(), i32> {
    sys::map_anonymous(STUB_PAGE, 4096, 0)?;
    for (call, _) in Patched::ALL {
        write_stub(Library::Loader, call, ReservedHalf::Runtime);
        write_stub(
            Library::Libc(ReservedHalf::Runtime),
            call,
            ReservedHalf::Runtime,
        );
        write_stub(Library::Libc(ReservedHalf::Mpi), call, ReservedHalf::Mpi);
    }
    // SAFETY: the page belongs to this module.
    unsafe { sys::protect(STUB_PAGE, 4096, 5) }
}

/// Makes ld.so map into this half from now on, on stacks in the reserved range.
///
/// After the start, only the MPI library opens libraries in the reserved range.
pub fn load_into(half: ReservedHalf) -> Result<(), i32> {
    // SAFETY: the page belongs to this module, and no other thread is in ld.so's mmap.
    unsafe { sys::protect(STUB_PAGE, 4096, 3)? };
    write_stub(Library::Loader, Patched::Mmap, half);
    // SAFETY: the page belongs to this module.
    unsafe { sys::protect(STUB_PAGE, 4096, 5) }
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
const TRAMPOLINES: usize = STUB_PAGE + 256;
const TRAMPOLINE_SIZE: usize = 32;
/// Number of trampolines in use.
static TRAMPOLINES_USED: AtomicUsize = AtomicUsize::new(0);

const _: () = assert!(call_sites::MAX_BETWEEN + 5 <= TRAMPOLINE_SIZE);

/// Redirects every call site of this system call in a library's code to the stub.
///
/// The code of `library` begins at `code` and has `length` bytes. The stub pushes words below rsp,
/// so code with a system call must not use the red zone (the area below rsp in leaf functions).
/// glibc's functions with these calls do not use the red zone.
///
/// # Safety
/// The range must be the mapped code of a library, and no other thread may run in it.
pub unsafe fn patch(
    library: Library,
    call: Patched,
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

/// Makes the call site call the stub, which returns to the instruction after the `syscall`.
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
    let first_page = start & !4095;
    let pages = (start + site.length() - first_page).next_multiple_of(4096);
    // SAFETY: the pages contain code of the library, in which no other thread runs, as the caller
    // guarantees.
    unsafe {
        sys::protect(first_page, pages, 7)?;
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, site.length());
        sys::protect(first_page, pages, 5)
    }
}

/// Creates a trampoline: `length` bytes of copied instructions, and a jump to the stub.
///
/// # Safety
/// The instructions must be readable and not depend on their address.
unsafe fn trampoline(instructions: usize, length: usize, stub: usize) -> Result<usize, i32> {
    const ENOSPC: i32 = 28;
    let index = TRAMPOLINES_USED.fetch_add(1, Ordering::Relaxed);
    let address = TRAMPOLINES + TRAMPOLINE_SIZE * index;
    if address + TRAMPOLINE_SIZE > STUB_PAGE + 4096 {
        return Err(ENOSPC);
    }
    let jump = address + length;
    let distance = (stub as i32).wrapping_sub((jump + 5) as i32);
    // SAFETY: the page belongs to this module; the jump ends within the trampoline.
    unsafe {
        sys::protect(STUB_PAGE, 4096, 3)?;
        core::ptr::copy_nonoverlapping(instructions as *const u8, address as *mut u8, length);
        (jump as *mut u8).write(0xe9); // jmp
        ((jump + 1) as *mut i32).write_unaligned(distance);
        sys::protect(STUB_PAGE, 4096, 5)?;
    }
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

const _: () = assert!(ZONE_END > ZONE_START);
