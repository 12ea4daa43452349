//! Functions that make the calls mmap(2), mremap(2) and shmat(2) for the patched code.
//!
//! The functions choose addresses in the reserved range for the runtime and MPI sides.
#![allow(unsafe_code)]

use core::arch::naked_asm;
use core::sync::atomic::AtomicUsize;
use understudy_abi::{MPI_ZONE_START, ZONE_SHIFT, ZONE_START, ZONE_TAG};

/// `address >> HALF_SHIFT` identifies the half.
pub(super) const HALF_SHIFT: u32 = ZONE_SHIFT - 1;
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
pub(super) unsafe extern "C" fn zone_mmap<const HALF: usize>() {
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
        "5: mov rcx, rsi", // half of the half or more: ENOMEM, as such a mapping may never fit
        "shr rcx, {half_shift} - 1",
        "mov rax, -12",
        "jnz 6f",
        "movabs rcx, {restart}", // end of the half: restart; NOREPLACE skips used addresses
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
/// MREMAP_FIXED would replace mappings that are in use, and mremap(2) has no flag like
/// MAP_FIXED_NOREPLACE. Therefore [`zone_mmap`] first reserves the target (inaccessible memory).
#[unsafe(naked)]
pub(super) unsafe extern "C" fn zone_mremap<const HALF: usize>() {
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
        "push r9",
        "push r8",
        "push rdx",
        "push rsi",
        "push rdi",
        "xor edi, edi",
        "mov rsi, rdx",
        "xor edx, edx", // PROT_NONE
        "mov r10d, {reservation}",
        "mov r8, -1",
        "xor r9d, r9d",
        "call {mmap}",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "test rax, rax",
        "js 6f",
        "mov r8, rax",
        "mov r10, qword ptr [rsp + 16]",
        "or r10d, 2",
        "mov eax, 25",
        "syscall",
        "test rax, rax",
        "jns 6f",
        "push rax",
        "push rdi",
        "push rsi",
        "mov rdi, r8",
        "mov rsi, rdx",
        "mov eax, 11", // munmap(2) of the reservation
        "syscall",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "6: pop r8",
        "pop r9",
        "pop r10",
        "ret",
        "9: mov eax, 25",
        "syscall",
        "ret",
        shift = const ZONE_SHIFT,
        tag = const ZONE_TAG,
        // MAP_PRIVATE, MAP_ANONYMOUS and MAP_NORESERVE
        reservation = const 0x4022,
        mmap = sym zone_mmap::<HALF>,
    )
}

/// Replaces `mov $30,%eax; syscall` (shmat).
///
/// A segment of the runtime or MPI side receives the next address of the half. The size, which
/// shmat(2) does not take as an argument, is obtained by shmctl(2) with IPC_STAT.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn zone_shmat<const HALF: usize>() {
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
