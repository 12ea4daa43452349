//! Number of the system call before an address of the program's code.
//!
//! After a system call that a signal has interrupted, rax contains the result, and the number is
//! lost. It is found in the code: compilers load the number by `mov $number,%eax` before the call.
//! Between load and call there may be instructions that load arguments into other registers, as in
//! glibc's msgrcv(2) and select(2).

/// Maximum length of the code between the load and the call, in bytes.
const MAX_BETWEEN: usize = 16;
/// Length of `mov $number,%eax`.
pub const LOAD: usize = 5;
/// Number of bytes before the call that are examined.
pub const MAX_CODE: usize = MAX_BETWEEN + LOAD;
/// Opcode of `mov $number,%eax`.
const MOVE: u8 = 0xb8;
/// Upper limit of the numbers of system calls.
const MAX_NUMBER: u32 = 1024;

/// Returns the number that the code before a system call loads.
pub fn loaded_number(code: &[u8]) -> Option<usize> {
    let loads = (0..=code.len().checked_sub(LOAD)?).rev();
    loads.into_iter().find_map(|offset| {
        let (load, between) = code[offset..].split_at(LOAD);
        let number = u32::from_le_bytes(load[1..].try_into().ok()?);
        // With a REX prefix, the same bytes are `mov $number,%r8d`.
        let before = offset.checked_sub(1).map(|before| code[before]);
        let has_prefix = before.is_some_and(|rex| matches!(rex, 0x40..=0x4f) && rex & 1 != 0);
        let is_move = load[0] == MOVE && !has_prefix;
        let is_load = is_move && number < MAX_NUMBER && keeps_number(between);
        is_load.then_some(number as usize)
    })
}

/// True if this code consists of instructions that change only registers other than `%eax`.
fn keeps_number(mut code: &[u8]) -> bool {
    while !code.is_empty() {
        match argument_length(code).and_then(|length| code.get(length..)) {
            Some(rest) => code = rest,
            None => return false,
        }
    }
    true
}

/// Returns the length of the first instruction if it changes a register other than `%eax`.
fn argument_length(code: &[u8]) -> Option<usize> {
    let (prefix, rest) = match code {
        [rex @ 0x40..=0x4f, rest @ ..] => (*rex, rest),
        _ => (0, code),
    };
    let prefixes = code.len() - rest.len();
    let (opcode, rest) = rest.split_first()?;
    let operands = match opcode {
        // mov of an immediate of 32 bits to a register.
        0xb8 if prefix & 9 == 1 => return Some(prefixes + LOAD),
        0xb9..=0xbf if prefix & 8 == 0 => return Some(prefixes + LOAD),
        _ => operand_length(rest)?,
    };
    let (mode, register, other) = (rest[0] >> 6, rest[0] >> 3 & 7, rest[0] & 7);
    let (is_number, immediate) = match opcode {
        // mov, lea and xor with the destination in the middle bits.
        0x8b | 0x8d | 0x33 => (register == 0 && prefix & 4 == 0, 0),
        // mov and xor with the destination in the last bits, and with an immediate of one or four
        // bytes.
        0x89 | 0x31 => (other == 0 && prefix & 1 == 0, 0),
        0x80 | 0x83 => (other == 0 && prefix & 1 == 0, 1),
        0x81 => (other == 0 && prefix & 1 == 0, 4),
        _ => return None,
    };
    let is_in_memory = mode != 3 && !matches!(opcode, 0x8b | 0x8d | 0x33);
    (!is_number && !is_in_memory).then_some(prefixes + 1 + operands + immediate)
}

/// Returns the length of the operand byte and of the address after it.
fn operand_length(code: &[u8]) -> Option<usize> {
    let operands = *code.first()?;
    let has_index = operands & 7 == 4;
    match (operands >> 6, operands & 7) {
        (3, _) => Some(1),
        (0, 4) if code.get(1)? & 7 == 5 => None,
        (0, 5) | (2, _) => Some(5 + usize::from(has_index)),
        (1, _) => Some(2 + usize::from(has_index)),
        _ => Some(1 + usize::from(has_index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_right_before_the_call_is_found() {
        assert_eq!(
            loaded_number(&[0x90, 0x90, 0xb8, 0x45, 0, 0, 0]),
            Some(0x45)
        );
        assert_eq!(loaded_number(&[0xb8, 0x45, 0, 0]), None);
        // mov $0x8,%r8d
        assert_eq!(loaded_number(&[0x90, 0x41, 0xb8, 8, 0, 0, 0]), None);
    }

    #[test]
    fn arguments_may_be_loaded_after_the_number() {
        let between: [&[u8]; 8] = [
            &[0x41, 0xb8, 8, 0, 0, 0],                   // mov $0x8,%r8d
            &[0x8b, 0x7c, 0x24, 0x08],                   // mov 0x8(%rsp),%edi
            &[0x48, 0x8b, 0x74, 0x24, 0x10],             // mov 0x10(%rsp),%rsi
            &[0x31, 0xff],                               // xor %edi,%edi
            &[0x40, 0x80, 0xf6, 0x81],                   // xor $0x81,%sil
            &[0xba, 8, 0, 0, 0],                         // mov $0x8,%edx
            &[0x48, 0x8d, 0x35, 0xdd, 0x78, 0x11, 0],    // lea 0x1178dd(%rip),%rsi
            &[0x41, 0x8b, 0x70, 0x10, 0x8b, 0x7d, 0xa0], // mov 0x10(%r8),%esi; mov -0x60(%rbp),%edi
        ];
        for between in between {
            let code = [&[0x90, 0xb8, 0x46, 0, 0, 0], between].concat();
            assert_eq!(loaded_number(&code), Some(0x46), "{between:x?}");
        }
    }

    #[test]
    fn a_number_that_does_not_stay_is_not_taken() {
        let between: [&[u8]; 5] = [
            &[0x31, 0xc0],       // xor %eax,%eax
            &[0x44, 0x89, 0xc0], // mov %r8d,%eax
            &[0x8b, 0x03],       // mov (%rbx),%eax
            &[0xe8, 0, 0, 0, 0], // call
            &[0x8b, 0x7c, 0x24], // cut off
        ];
        for between in between {
            let code = [&[0xb8, 0x46, 0, 0, 0], between].concat();
            assert_eq!(loaded_number(&code), None, "{between:x?}");
        }
    }
}
