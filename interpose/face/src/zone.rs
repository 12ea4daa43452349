//! The zone: confining every mapping of the runtime side to its own range of addresses.
//!
//! User-side mappings must land at the same address in every rank, so nothing of the runtime side may take addresses
//! that the kernel would otherwise give to the user side. Interposing the symbol `mmap` misses the maps that ld.so and
//! libc make internally; therefore the system call *instruction* of their `mmap` is patched:
//!
//! ```text
//!     b8 09 00 00 00   mov $9,%eax            b8 ss ss ss ss   mov $stub,%eax
//!     0f 05            syscall          →     ff d0            call *%rax
//! ```
//!
//! The stub lies in a page below 4 GiB, so its address fits the immediate. *Whose map it is* is told by the stack
//! pointer: in the zone means the runtime, else the user; no flag is kept, and no caller need cooperate. The registers
//! that a system call preserves are preserved.
#![allow(unsafe_code)]

use crate::sys;
use core::arch::naked_asm;
use core::sync::atomic::AtomicUsize;
use understudy_abi::{MPI_ZONE_START, STUB_PAGE, ZONE_END, ZONE_SHIFT, ZONE_START, ZONE_TAG};

/// The halves of the zone: that of the runtime, and that of the MPI library.
#[derive(Clone, Copy)]
pub enum Half {
    /// The runtime's; the first.
    Runtime,
    /// The MPI library's, which a reset gives back as a whole.
    Mpi,
}

/// `address >> HALF_SHIFT` tells the halves apart.
const HALF_SHIFT: u32 = ZONE_SHIFT - 1;
/// Where each half begins to give out addresses.
const FIRST: [usize; 2] = [ZONE_START + (2 << 30), MPI_ZONE_START];
/// The next address that each half gives out. Nothing is reserved: MAP_FIXED_NOREPLACE finds places that are taken.
static NEXT: [AtomicUsize; 2] = [AtomicUsize::new(FIRST[0]), AtomicUsize::new(FIRST[1])];

/// Addresses for the next libraries that ld.so maps for the user side; 0 ends the list. An understudy opens the
/// libraries that the dead rank had opened, at the same addresses.
pub static mut LIBRARY_PLACES: [usize; understudy_abi::LIBRARY_PLACES] =
    [0; understudy_abi::LIBRARY_PLACES];

/// Mappings from this size on are aligned to it halved, so that they can have huge pages.
const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

const _: () = assert!(
    ZONE_TAG == 4 && LARGE == 2 * HUGE_PAGE && MPI_ZONE_START == (2 * ZONE_TAG + 1) << HALF_SHIFT
);

/// Replaces `mov $9,%eax; syscall` (mmap): arguments in rdi, rsi, rdx, r10, r8, r9 as of the system call.
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
        "cmp rax, -17", // EEXIST: the next place
        "je 2b",
        "jmp 6f",
        "5: movabs rcx, {restart}", // the half's end: start over, NOREPLACE skips what is still in use
        "mov qword ptr [rip + {next} + {half}], rcx",
        "jmp 2b",
        "6: pop r10",
        "pop rdi",
        "ret",
        // The user side: ld.so's cache, a private mapping for reading, is in nobody's way in the zone.
        "9: cmp r10d, {private}",
        "jne 29f",
        "cmp edx, {read}",
        "jne 29f",
        "test rdi, rdi",
        "jz 20b",
        // ld.so's first map of a library goes where the list says. MAP_DENYWRITE marks it, or no access rights: if the library
        // is to be aligned, room for that is reserved first.
        "29: cmp qword ptr [rip + {places}], 0",
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
        "mov rdi, qword ptr [rip + {places}]",
        "xor ecx, ecx",
        "lea rax, [rip + {places}]",
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
        places = sym LIBRARY_PLACES,
        deny_write = const 0x800,
        private = const 2,
        read = const 1,
        shift = const ZONE_SHIFT,
        tag = const ZONE_TAG,
        fixed = const 0x10_0010,
        noreplace = const 0x10_0000,
        large = const LARGE,
        huge = const HUGE_PAGE,
        next = sym NEXT,
        half = const 8 * HALF,
        half_shift = const HALF_SHIFT,
        half_tag = const 2 * ZONE_TAG + HALF,
        restart = const FIRST[HALF],
    )
}

/// Replaces `mov $25,%eax; syscall` (mremap): a mapping of the runtime that may move is moved within the zone.
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
        large = const LARGE,
        huge = const HUGE_PAGE,
        next = sym NEXT,
        half = const 8 * HALF,
    )
}

/// Replaces `mov $30,%eax; syscall` (shmat): a segment gets an address of its own, with room for its size (shmctl(2), IPC_STAT).
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
        "cmp rax, -22", // EINVAL: something is there already
        "je 2b",
        "6: pop r9",
        "pop r8",
        "pop rsi",
        "ret",
        "5: movabs rcx, {restart}", // the half's end
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
        // As often a place may be taken.
        tries = const 4096,
        huge = const HUGE_PAGE,
        next = sym NEXT,
        half = const 8 * HALF,
        half_shift = const HALF_SHIFT,
        half_tag = const 2 * ZONE_TAG + HALF,
        restart = const FIRST[HALF],
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
    /// All of them, with their names.
    pub const ALL: [(Patched, &'static str); 3] = [
        (Patched::Mmap, "mmap"),
        (Patched::Mremap, "mremap"),
        (Patched::Shmat, "shmat"),
    ];

    fn number(self) -> u8 {
        [9, 25, 30][self as usize]
    }

    fn target(self, half: Half) -> usize {
        let targets = [
            [zone_mmap::<0> as *const (), zone_mmap::<1> as *const ()],
            [zone_mremap::<0> as *const (), zone_mremap::<1> as *const ()],
            [zone_shmat::<0> as *const (), zone_shmat::<1> as *const ()],
        ];
        targets[self as usize][half as usize] as usize
    }
}

/// Whose instruction is patched.
#[derive(Clone, Copy)]
pub enum Library {
    /// ld.so, which maps for everybody.
    Loader,
    /// The libc of a namespace of the runtime side.
    Libc(Half),
}

impl Library {
    fn index(self) -> usize {
        match self {
            Library::Loader => 0,
            Library::Libc(half) => 1 + half as usize,
        }
    }

    /// Where the patched instruction jumps to.
    fn stub(self, call: Patched) -> usize {
        STUB_PAGE + 16 * (3 * self.index() + call as usize)
    }
}

fn write_stub(library: Library, call: Patched, half: Half) {
    let mut code = [0xcc_u8; 16];
    code[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]); // jmp *0(%rip)
    code[6..14].copy_from_slice(&(call.target(half) as u64).to_le_bytes());
    // SAFETY: within the page that `make_stubs` has mapped, while it is writable.
    unsafe { (library.stub(call) as *mut [u8; 16]).write(code) };
}

/// Makes the stub page: one `jmp *address` for each library and call.
pub fn make_stubs() -> Result<(), i32> {
    sys::map_anonymous(STUB_PAGE, 4096, 0)?;
    for (call, _) in Patched::ALL {
        write_stub(Library::Loader, call, Half::Runtime);
        write_stub(Library::Libc(Half::Runtime), call, Half::Runtime);
        write_stub(Library::Libc(Half::Mpi), call, Half::Mpi);
    }
    // SAFETY: the page is ours.
    unsafe { sys::protect(STUB_PAGE, 4096, 5) }
}

/// From now on what ld.so maps for the runtime side lies in this half.
///
/// Later than the start, only the MPI library opens libraries there.
pub fn load_into(half: Half) -> Result<(), i32> {
    // SAFETY: the page is ours, and no other thread is in ld.so's mmap.
    unsafe { sys::protect(STUB_PAGE, 4096, 3)? };
    write_stub(Library::Loader, Patched::Mmap, half);
    // SAFETY: as above.
    unsafe { sys::protect(STUB_PAGE, 4096, 5) }
}

/// Why a library could not be patched.
pub enum PatchError {
    /// The instruction pair was found this many times.
    Found(usize),
    /// mprotect(2) refused, with this errno.
    Protect(i32),
}

/// Where `pattern` occurs, which ends with a system call. Blocks without one are passed over, many bytes at once: libc's code has more
/// than a million.
fn places<'a>(text: &'a [u8], pattern: &'a [u8; 7]) -> impl Iterator<Item = usize> + 'a {
    const BLOCK: usize = 512;
    const BEFORE: usize = 5;
    let [.., first, second] = *pattern;
    let end = move |start: usize| (start + BLOCK).min(text.len() - 1);
    let has_call = move |&start: &usize| {
        let pairs = text[start..end(start)].iter().zip(&text[start + 1..]);
        pairs.fold(false, |has, (&one, &other)| {
            has | (one == first) & (other == second)
        })
    };
    let blocks = (0..text.len().saturating_sub(1))
        .step_by(BLOCK)
        .filter(has_call);
    blocks
        .flat_map(move |start| start.max(BEFORE) - BEFORE..end(start).max(BEFORE) - BEFORE)
        .filter(|&at| text[at..].starts_with(pattern))
}

/// Patches the one instruction pair of `call` in `library`'s code at `code`; it must occur exactly once.
///
/// # Safety
/// The range must be the mapped code of a library, and no other thread may run in it.
pub unsafe fn patch(
    library: Library,
    call: Patched,
    code: usize,
    length: usize,
) -> Result<(), PatchError> {
    let pattern = [0xb8, call.number(), 0, 0, 0, 0x0f, 0x05];
    // SAFETY: mapped code, as the caller promises.
    let text = unsafe { core::slice::from_raw_parts(code as *const u8, length) };
    let mut found = places(text, &pattern);
    let (Some(at), 0) = (found.next(), found.by_ref().count()) else {
        return Err(PatchError::Found(places(text, &pattern).count()));
    };
    let mut code_bytes = [0xb8, 0, 0, 0, 0, 0xff, 0xd0];
    code_bytes[1..5].copy_from_slice(&(library.stub(call) as u32).to_le_bytes());
    let first_page = (code + at) & !4095;
    let pages = (code + at + pattern.len() - first_page).next_multiple_of(4096);
    // SAFETY: the pages hold code of the library; nobody else runs in it, as the caller promises.
    unsafe {
        sys::protect(first_page, pages, 7).map_err(PatchError::Protect)?;
        core::ptr::copy_nonoverlapping(
            code_bytes.as_ptr(),
            (code + at) as *mut u8,
            code_bytes.len(),
        );
        sys::protect(first_page, pages, 5).map_err(PatchError::Protect)
    }
}

const _: () = assert!(ZONE_END > ZONE_START);
