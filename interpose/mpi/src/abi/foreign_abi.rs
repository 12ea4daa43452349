//! Constants, handles and statuses of ABIs other than Open MPI's.
#![allow(unsafe_code)]

use crate::real_types::{HandleKind, Status};
use std::ffi::{CStr, c_int};

// Generated from the table of ABIs.
include!("../generated/abis.rs");

/// Size of Open MPI's handles in bytes.
pub(super) const HANDLE: usize = 8;
/// Number added, in other ABIs, to error classes and codes that the program has created.
///
/// The program creates classes and codes by `MPI_Add_error_class` and `MPI_Add_error_code`. The sum
/// is greater than all codes of the library, as MPI 4.1, 9.5, requires.
const ADDED_CODE_OFFSET: c_int = 0x4000_0000;
/// `MPI_ERR_LASTCODE` of Open MPI.
const LAST_CODE: c_int = 92;
/// First attribute key that the runtime assigns; predefined keys are smaller.
const FIRST_KEY: c_int = 1000;

/// Handle of a predefined object.
pub struct PredefinedHandle {
    /// Kind of the object.
    pub kind: HandleKind,
    /// Open MPI's name of the object.
    pub symbol: &'static CStr,
    pub value: u64,
}

/// Size of a status, and offsets of its members from its start, in bytes.
pub struct StatusLayout {
    /// Size of the status in bytes.
    pub size: usize,
    pub source: usize,
    pub tag: usize,
    pub error: usize,
    /// Received bytes: the low word, followed by the high word.
    ///
    /// The lowest bit of the high word is set if the operation was cancelled, as in MPICH.
    pub bytes: usize,
}

/// Constant of an ABI.
pub enum ConstantValue {
    /// Constant of the header.
    Constant(isize),
    /// Name of a variable of the library that contains the value.
    Variable(&'static CStr),
}

/// Differences of an ABI from Open MPI's.
pub struct Abi {
    pub name: &'static str,
    /// Size of a handle in bytes, except file handles ([`Abi::width`]).
    pub handle: usize,
    pub status: StatusLayout,
    pub handles: &'static [PredefinedHandle],
    /// Pairs of Open MPI's value and this ABI's value, for each [`Domain`].
    pub values: [&'static [(c_int, c_int)]; 20],
    /// Pairs of Open MPI's value and this ABI's value, for each [`Pointer`].
    pub pointers: [&'static [(isize, ConstantValue)]; 5],
    /// Limits: name, value in Open MPI, value in this ABI.
    pub limits: &'static [(&'static str, usize, usize)],
}

impl Abi {
    /// Returns the size of a handle in bytes; file handles are pointers in all ABIs.
    #[inline]
    pub fn width(&self, kind: HandleKind) -> usize {
        if kind == HandleKind::File {
            HANDLE
        } else {
            self.handle
        }
    }

    /// Converts an integer of Open MPI to this ABI.
    #[inline]
    pub fn foreign(&self, domain: Domain, value: c_int) -> c_int {
        match is_equal_in_all(domain, value) {
            true => value,
            false => self.find_foreign(domain, value),
        }
    }

    fn find_foreign(&self, domain: Domain, value: c_int) -> c_int {
        let pairs = self.values[domain as usize];
        if matches!(domain, Domain::Assert | Domain::FileMode) {
            return convert_bits(pairs.iter().copied(), value);
        }
        match (pairs.iter().find(|pair| pair.0 == value), domain) {
            (Some(pair), _) => pair.1,
            (None, Domain::ErrorCode) if value > LAST_CODE => ADDED_CODE_OFFSET + value,
            (None, Domain::ErrorCode) if value != 0 => self.foreign(domain, ERR_OTHER),
            (None, Domain::Keyval) if value >= FIRST_KEY => pairs[0].1 + value,
            (None, _) => value,
        }
    }

    /// True if a value of this ABI is one of its constants.
    pub fn has(&self, domain: Domain, value: c_int) -> bool {
        self.values[domain as usize]
            .iter()
            .any(|pair| pair.1 == value)
    }

    /// Converts an integer of this ABI to Open MPI.
    #[inline]
    pub fn canonical(&self, domain: Domain, value: c_int) -> c_int {
        match is_equal_in_all(domain, value) {
            true => value,
            false => self.find_canonical(domain, value),
        }
    }

    fn find_canonical(&self, domain: Domain, value: c_int) -> c_int {
        let pairs = self.values[domain as usize];
        if matches!(domain, Domain::Assert | Domain::FileMode) {
            return convert_bits(
                pairs
                    .iter()
                    .map(|&(canonical, foreign)| (foreign, canonical)),
                value,
            );
        }
        match (pairs.iter().find(|pair| pair.1 == value), domain) {
            (Some(pair), _) => pair.0,
            (None, Domain::ErrorCode) if value >= ADDED_CODE_OFFSET => value - ADDED_CODE_OFFSET,
            (None, Domain::Keyval) if value >= pairs[0].1 + FIRST_KEY => value - pairs[0].1,
            (None, _) => value,
        }
    }

    /// Reads a status.
    ///
    /// # Safety
    /// `address` must point to a status of this ABI.
    #[inline]
    pub unsafe fn read_status(&self, address: *const u8) -> Status {
        let layout = &self.status;
        // SAFETY: the offset is within the status, for which the caller guarantees memory.
        let word = |offset: usize| unsafe { address.add(offset).cast::<u32>().read_unaligned() };
        let (low, high) = (word(layout.bytes), word(layout.bytes + 4));
        Status {
            source: self.canonical(Domain::Rank, word(layout.source) as c_int),
            tag: self.canonical(Domain::Tag, word(layout.tag) as c_int),
            error: word(layout.error) as c_int,
            cancelled: (high & 1) as c_int,
            bytes: (u64::from(low) | u64::from(high >> 1) << 32) as usize,
        }
    }

    /// Writes a status; its error is not converted.
    ///
    /// # Safety
    /// The requirements of [`Abi::read_status`] apply.
    #[inline]
    pub unsafe fn write_status(&self, address: *mut u8, status: &Status) {
        let layout = &self.status;
        let bytes = status.bytes as u64;
        let words = [
            (
                layout.source,
                self.foreign(Domain::Rank, status.source) as u32,
            ),
            (layout.tag, self.foreign(Domain::Tag, status.tag) as u32),
            (layout.error, status.error as u32),
            (layout.bytes, bytes as u32),
            (
                layout.bytes + 4,
                ((bytes >> 32) as u32) << 1 | u32::from(status.cancelled != 0),
            ),
        ];
        for (offset, word) in words {
            // SAFETY: the offset is within the status, for which the caller guarantees memory.
            unsafe { address.add(offset).cast::<u32>().write_unaligned(word) };
        }
    }
}

/// True if an integer is no constant, and therefore equal in all ABIs.
///
/// The constants among ranks and tags are negative.
#[inline]
fn is_equal_in_all(domain: Domain, value: c_int) -> bool {
    matches!(domain, Domain::Rank | Domain::Tag) && value >= 0
}

/// Converts the bits of a value one by one; bits without a pair are dropped.
fn convert_bits(pairs: impl Iterator<Item = (c_int, c_int)>, value: c_int) -> c_int {
    let set = pairs.filter(|&(from, _)| value & from != 0);
    set.fold(0, |result, (_, to)| result | to)
}

/// `MPI_ERR_OTHER` of Open MPI.
const ERR_OTHER: c_int = 16;

#[cfg(test)]
mod tests {
    use super::{Domain, MPICH, STANDARD};
    use crate::real_types::Status;

    #[test]
    fn statuses_survive_a_round_trip() {
        for abi in [&MPICH, &STANDARD] {
            for (source, bytes, cancelled) in [(-1, 0, 0), (-2, 12, 1), (7, 0x1_2345_6789, 0)] {
                let (tag, error) = (3, 15);
                let status = Status {
                    source,
                    tag,
                    error,
                    cancelled,
                    bytes,
                };
                let mut foreign = [0xa5u8; 40];
                // SAFETY: the buffer has space for a status of either ABI.
                let read = unsafe {
                    abi.write_status(foreign.as_mut_ptr(), &status);
                    abi.read_status(foreign.as_ptr())
                };
                assert_eq!(read, status, "{}", abi.name);
                assert!(
                    foreign[abi.status.size..].iter().all(|&byte| byte == 0xa5),
                    "{}",
                    abi.name
                );
            }
        }
    }

    #[test]
    fn integers_survive_a_round_trip() {
        for abi in [&MPICH, &STANDARD] {
            let rank = |value| abi.canonical(Domain::Rank, abi.foreign(Domain::Rank, value));
            assert!([-1, -2, -4, 0, 5].iter().all(|&value| rank(value) == value));
            for code in [0, 1, 13, 52, 92, 93, 200] {
                let foreign = abi.foreign(Domain::ErrorCode, code);
                assert_eq!(
                    abi.canonical(Domain::ErrorCode, foreign),
                    code,
                    "{}",
                    abi.name
                );
            }
            let assert = |bits| abi.canonical(Domain::Assert, abi.foreign(Domain::Assert, bits));
            assert!((0..32).all(|bits| assert(bits) == bits), "{}", abi.name);
            let mode = |bits| abi.canonical(Domain::FileMode, abi.foreign(Domain::FileMode, bits));
            assert!((0..512).all(|bits| mode(bits) == bits), "{}", abi.name);
            let whence = |value| abi.canonical(Domain::Whence, abi.foreign(Domain::Whence, value));
            assert!([600, 602, 604].iter().all(|&value| whence(value) == value));
            let keys = [1000, 1001, 5000].map(|key| abi.foreign(Domain::Keyval, key));
            assert_eq!(
                keys.map(|key| abi.canonical(Domain::Keyval, key)),
                [1000, 1001, 5000]
            );
        }
        // Error codes of the program are greater than all codes of the library (MPI 4.1, 9.5).
        assert!(MPICH.foreign(Domain::ErrorCode, 93) > MPICH.foreign(Domain::ErrorCode, 92));
    }
}
