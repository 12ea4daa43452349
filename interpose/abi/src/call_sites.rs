//! Finds the system calls of a given number in a library's machine code.
//!
//! glibc's inline system calls load the number into eax and execute `syscall`. Compilers place
//! instructions that prepare arguments before that pair, and sometimes between the two
//! instructions:
//!
//! ```text
//!     b8 09 00 00 00   mov $9,%eax            b8 09 00 00 00   mov $9,%eax
//!     0f 05            syscall                41 83 ca 40      or $0x40,%r10d
//!                                             0f 05            syscall
//! ```
//!
//! Sources: Intel's manual, volume 2, chapter 2 (instruction format); the System V ABI for x86-64,
//! A.2.1.

/// Length in bytes of `mov $imm32,%eax`.
pub const LOAD_LENGTH: usize = 5;
/// Length in bytes of the instruction `syscall`.
const SYSCALL_LENGTH: usize = 2;
/// Maximum number of bytes between the load and `syscall`.
pub const MAX_BETWEEN: usize = 12;

/// A system call in machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Offset of the instruction that loads the number.
    pub start: usize,
    /// Number of bytes between the load and `syscall`, which can be executed at another address.
    pub between: usize,
}

impl CallSite {
    /// Number of bytes from the first instruction to the end of `syscall`.
    pub fn length(self) -> usize {
        LOAD_LENGTH + self.between + SYSCALL_LENGTH
    }
}

/// Returns the call sites in `code` of system call `number`, in ascending order.
///
/// The instructions between the load and `syscall` are later executed at another address, with that
/// address in rax and with one more return address on the stack. A site is therefore omitted if one
/// of these instructions uses memory, rax or rsp, is a jump, or is of an unknown form.
pub fn find(code: &[u8], number: u8) -> impl Iterator<Item = CallSite> + '_ {
    syscall_offsets(code).filter_map(move |syscall| site_before(code, syscall, number))
}

/// Returns the offsets of all `syscall` byte pairs.
///
/// Blocks without a pair are skipped by a loop that compilers vectorise: libc has more than a
/// million bytes of code.
fn syscall_offsets(code: &[u8]) -> impl Iterator<Item = usize> + '_ {
    const BLOCK: usize = 512;
    let last = code.len().saturating_sub(1);
    let end = move |start: usize| (start + BLOCK).min(last);
    let has_syscall = move |&start: &usize| {
        let pairs = code[start..end(start)].iter().zip(&code[start + 1..]);
        pairs.fold(false, |is_found, (&first, &second)| {
            is_found | (first == 0x0f) & (second == 0x05)
        })
    };
    (0..last)
        .step_by(BLOCK)
        .filter(has_syscall)
        .flat_map(move |start| start..end(start))
        .filter(|&at| code[at..at + SYSCALL_LENGTH] == [0x0f, 0x05])
}

/// Returns the site of system call `number` that ends with the `syscall` at this offset.
fn site_before(code: &[u8], syscall: usize, number: u8) -> Option<CallSite> {
    (0..=MAX_BETWEEN.min(syscall.checked_sub(LOAD_LENGTH)?)).find_map(|between| {
        let start = syscall - between - LOAD_LENGTH;
        // With the prefix REX.B the instruction loads r8d instead of eax.
        let has_prefix = start > 0 && code[start - 1] & 0xf1 == 0x41;
        let is_load = !has_prefix && code[start..start + LOAD_LENGTH] == [0xb8, number, 0, 0, 0];
        let is_movable = is_load && are_movable(&code[start + LOAD_LENGTH..syscall]);
        is_movable.then_some(CallSite { start, between })
    })
}

/// True if the bytes are whole instructions that may be executed at another address.
fn are_movable(mut code: &[u8]) -> bool {
    while !code.is_empty() {
        match movable_length(code) {
            Some(length) if length <= code.len() => code = &code[length..],
            _ => return false,
        }
    }
    true
}

/// Returns the length of the first instruction if it may be executed at another address.
///
/// The operands of such an instruction are constants, and registers other than rax and rsp. The
/// instruction consists of an optional REX prefix, the opcode, in most cases a ModRM byte, and the
/// constant, if one is an operand. For example, `41 83 ca 40` is `or $0x40,%r10d`: REX.B (`41`)
/// selects the upper eight registers, `83` is an operation with a constant of 8 bits, and `ca`
/// names the operation (`or`) and register 2 of the eight.
fn movable_length(code: &[u8]) -> Option<usize> {
    let (rex, prefix) = match code[0] {
        rex @ 0x40..=0x4f => (rex, 1),
        _ => (0, 0),
    };
    let opcode = *code.get(prefix)?;
    // Numbers of registers: 0 is rax, 4 is rsp.
    let is_allowed = |register: u8| register != 0 && register != 4;
    let (has_second_register, constant) = match opcode {
        // mov, add, or, and, sub, xor, cmp, test between two registers
        0x89 | 0x8b | 0x01 | 0x03 | 0x09 | 0x0b | 0x21 | 0x23 | 0x29 | 0x2b | 0x31 | 0x33
        | 0x39 | 0x3b | 0x85 => (true, 0),
        // add, or, adc, sbb, and, sub, xor, cmp: 83 with a constant of 8 bits, 81 with one of 32
        // bits
        0x83 => (false, 1),
        0x81 => (false, 4),
        // mov $imm32 into a register of 32 bits
        0xb8..=0xbf if rex & 8 == 0 => {
            return is_allowed((rex & 1) << 3 | opcode & 7).then_some(prefix + 5);
        }
        _ => return None,
    };
    let modrm = *code.get(prefix + 1)?;
    let has_memory_operand = modrm >> 6 != 3;
    let first = (rex & 1) << 3 | modrm & 7;
    let second = (rex & 4) << 1 | modrm >> 3 & 7;
    let are_allowed = is_allowed(first) && (!has_second_register || is_allowed(second));
    (!has_memory_operand && are_allowed).then_some(prefix + 2 + constant)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MMAP: u8 = 9;

    fn sites(code: &[u8]) -> [Option<CallSite>; 3] {
        let mut found = find(code, MMAP);
        [found.next(), found.next(), found.next()]
    }

    fn site(start: usize, between: usize) -> Option<CallSite> {
        Some(CallSite { start, between })
    }

    #[test]
    fn a_call_next_to_its_number_is_found() {
        let code = [0x90, 0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d];
        assert_eq!(sites(&code), [site(1, 0), None, None]);
    }

    #[test]
    fn a_call_of_another_number_is_not_found() {
        let code = [0x90, 0xb8, 10, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d];
        assert_eq!(sites(&code), [None, None, None]);
    }

    #[test]
    fn instructions_between_are_part_of_the_site() {
        // mov $9,%eax; or $0x40,%r10d; syscall
        let code = [0xb8, 9, 0, 0, 0, 0x41, 0x83, 0xca, 0x40, 0x0f, 0x05];
        assert_eq!(sites(&code), [site(0, 4), None, None]);
        // mov $9,%eax; mov %r12,%rdi; xor %r9d,%r9d; syscall
        let code = [
            0xb8, 9, 0, 0, 0, 0x4c, 0x89, 0xe7, 0x45, 0x31, 0xc9, 0x0f, 0x05,
        ];
        assert_eq!(sites(&code), [site(0, 6), None, None]);
    }

    #[test]
    fn instructions_that_cannot_be_moved_exclude_a_site() {
        let between: [&[u8]; 6] = [
            &[0x8b, 0x05, 0, 0, 0, 0], // mov 0(%rip),%eax
            &[0x89, 0xc7],             // mov %eax,%edi
            &[0x48, 0x89, 0xe6],       // mov %rsp,%rsi
            &[0x74, 0x02],             // je
            &[0x50],                   // push %rax
            &[0x41, 0x83],             // an instruction without its end
        ];
        for between in between {
            let mut code = [0x90; LOAD_LENGTH + MAX_BETWEEN + SYSCALL_LENGTH];
            code[..LOAD_LENGTH].copy_from_slice(&[0xb8, 9, 0, 0, 0]);
            code[LOAD_LENGTH..LOAD_LENGTH + between.len()].copy_from_slice(between);
            code[LOAD_LENGTH + between.len()..][..SYSCALL_LENGTH].copy_from_slice(&[0x0f, 0x05]);
            assert_eq!(sites(&code), [None, None, None], "{between:x?}");
        }
    }

    #[test]
    fn a_load_of_another_register_is_not_found() {
        // mov $9,%r8d; syscall
        let code = [0x41, 0xb8, 9, 0, 0, 0, 0x0f, 0x05];
        assert_eq!(sites(&code), [None, None, None]);
    }

    #[test]
    fn sites_across_blocks_are_found() {
        let mut code = [0x90; 2000];
        for start in [506, 1020, 1990] {
            code[start..start + 7].copy_from_slice(&[0xb8, 9, 0, 0, 0, 0x0f, 0x05]);
        }
        assert_eq!(sites(&code), [site(506, 0), site(1020, 0), site(1990, 0)]);
    }

    #[test]
    fn code_that_is_shorter_than_a_site_has_none() {
        for length in 0..7 {
            assert_eq!(
                sites(&[0x0f, 0x05, 0x0f, 0x05, 0, 0, 0][..length]),
                [None; 3]
            );
        }
    }
}
