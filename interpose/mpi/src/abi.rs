//! Other ABIs than Open MPI's, and the edges where calls are translated.
//!
//! The runtime knows one ABI, that of Open MPI: its constants, its status, handles that are pointers. Whatever differs in
//! others is in a table (`data/abis.tbl`), from which the [`Abi`]s are generated. Calls are translated at two edges:
//!
//! ```text
//!   program ─► thunk ─► edge ─► handler ─► real::PMPI_… ─► edge ─► the library
//!              its ABI  │        Open MPI's                 │       its ABI
//!                       runtime's `Program`                 [`Library`]
//! ```
//!
//! With Open MPI neither edge exists: the tables of functions that are called hold the handlers and the library's procedures.
//! Handles of a real library of another ABI are kept as they are, in the low bytes of the `Real…` types.
#![allow(unsafe_code)]

mod arguments;
mod library;
mod special;

pub use arguments::{Handles, Integers, Statuses, Way, pointer, value};
pub(crate) use library::connect;
pub use library::{Library, current, datatype_at, degrees, members, object, rank};

use crate::real_types::{HandleKind, Status};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Generated from the table of ABIs.
mod generated {
    use super::{Abi, HandleKind, Predefined, StatusLayout, Value};
    include!("generated/abis.rs");
}
pub use generated::{Domain, MPICH, Pointer, STANDARD};

/// Generated from the call table: a function for each procedure.
mod edges {
    use super::arguments::{
        Handles, Integers, Statuses, Way, displacement, number, pointer, sum_of, value,
    };
    use super::special::{contents, copy_status};
    use super::{Domain, Edge, Pointer};
    use crate::real_types::HandleKind;
    use std::ffi::c_int;
    include!("generated/edges.rs");
}
pub use edges::table;
use edges::{FOREIGN, FOREIGN_CALLS};

/// Bytes of Open MPI's handles.
const HANDLE: usize = 8;
/// Error codes of the program are behind those of the library: the first of MPI_ERR_LASTCODE's successors.
const FIRST_OWN_CODE: c_int = 0x4000_0000;
/// `MPI_ERR_LASTCODE` of Open MPI.
const LAST_CODE: c_int = 92;
/// The first key of an attribute that the runtime gives out; those of predefined attributes are smaller.
const FIRST_KEY: c_int = 1000;

pub struct Predefined {
    /// What it is a handle of.
    pub kind: HandleKind,
    /// Open MPI's name of the object.
    pub symbol: &'static CStr,
    pub value: u64,
}

/// Where the members of a status are, in bytes from its start.
pub struct StatusLayout {
    /// Bytes of the whole.
    pub size: usize,
    pub source: usize,
    pub tag: usize,
    pub error: usize,
    /// Bytes received: the low word, then the high one, whose lowest bit says whether the operation was cancelled (MPICH).
    pub bytes: usize,
}

/// A constant of an ABI.
pub enum Value {
    /// Known from the header.
    Constant(isize),
    /// The value of a variable of the library.
    Variable(&'static CStr),
}

/// What differs between Open MPI's ABI and this one.
pub struct Abi {
    pub name: &'static str,
    /// Bytes of a handle.
    pub handle: usize,
    pub status: StatusLayout,
    pub handles: &'static [Predefined],
    /// By domain: values in Open MPI and here.
    pub values: [&'static [(c_int, c_int)]; 20],
    /// By kind of pointer: values in Open MPI and here.
    pub pointers: [&'static [(isize, Value)]; 5],
    /// Limits: name, that of Open MPI, that here.
    pub limits: &'static [(&'static str, usize, usize)],
}

/// Values of variables that have been looked up, in the order in which they occur.
static VARIABLES: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

impl Abi {
    /// Bytes of a handle: files are pointers everywhere.
    pub fn width(&self, kind: HandleKind) -> usize {
        if kind == HandleKind::File {
            HANDLE
        } else {
            self.handle
        }
    }

    /// The integer here of Open MPI's.
    pub fn foreign(&self, domain: Domain, value: c_int) -> c_int {
        let pairs = self.values[domain as usize];
        if matches!(domain, Domain::Assert | Domain::FileMode) {
            return bits(pairs.iter().copied(), value);
        }
        match (pairs.iter().find(|pair| pair.0 == value), domain) {
            (Some(pair), _) => pair.1,
            (None, Domain::ErrorCode) if value > LAST_CODE => FIRST_OWN_CODE + value,
            (None, Domain::ErrorCode) if value != 0 => self.foreign(domain, crate::abi::OTHER),
            (None, Domain::Keyval) if value >= FIRST_KEY => pairs[0].1 + value,
            (None, _) => value,
        }
    }

    /// Whether a value here is one of the constants.
    pub fn has(&self, domain: Domain, value: c_int) -> bool {
        self.values[domain as usize]
            .iter()
            .any(|pair| pair.1 == value)
    }

    /// Open MPI's integer of that here.
    pub fn canonical(&self, domain: Domain, value: c_int) -> c_int {
        let pairs = self.values[domain as usize];
        if matches!(domain, Domain::Assert | Domain::FileMode) {
            return bits(pairs.iter().map(|&(ours, theirs)| (theirs, ours)), value);
        }
        match (pairs.iter().find(|pair| pair.1 == value), domain) {
            (Some(pair), _) => pair.0,
            (None, Domain::ErrorCode) if value >= FIRST_OWN_CODE => value - FIRST_OWN_CODE,
            (None, Domain::Keyval) if value >= pairs[0].1 + FIRST_KEY => value - pairs[0].1,
            (None, _) => value,
        }
    }

    /// Reads a status.
    ///
    /// # Safety
    /// `at` must be that of a status of this ABI.
    pub unsafe fn read_status(&self, at: *const u8) -> Status {
        let layout = &self.status;
        // SAFETY: within the status.
        let word = |offset: usize| unsafe { at.add(offset).cast::<u32>().read_unaligned() };
        let (low, high) = (word(layout.bytes), word(layout.bytes + 4));
        Status {
            source: self.canonical(Domain::Rank, word(layout.source) as c_int),
            tag: self.canonical(Domain::Tag, word(layout.tag) as c_int),
            error: word(layout.error) as c_int,
            cancelled: (high & 1) as c_int,
            bytes: (u64::from(low) | u64::from(high >> 1) << 32) as usize,
        }
    }

    /// Writes a status; its error is taken as it is.
    ///
    /// # Safety
    /// As [`Abi::read_status`].
    pub unsafe fn write_status(&self, at: *mut u8, status: &Status) {
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
            // SAFETY: within the status.
            unsafe { at.add(offset).cast::<u32>().write_unaligned(word) };
        }
    }
}

/// A limit of the program's ABI, such as `MPI_MAX_OBJECT_NAME`. Texts are as long as the program expects them on the whole way from the
/// library: whoever has room for one on the way has it for the longest of any ABI.
pub fn limit(name: &str) -> usize {
    let of = |abi: &'static Abi| abi.limits.iter().find(|limit| limit.0 == name);
    let limit = match current() {
        Some(abi) => of(abi).map(|limit| limit.2),
        None => of(&MPICH).map(|limit| limit.1),
    };
    limit.unwrap_or(256)
}

/// The bits of a value, each by its own pair; bits that have none are left out.
fn bits(pairs: impl Iterator<Item = (c_int, c_int)>, value: c_int) -> c_int {
    let set = pairs.filter(|&(from, _)| value & from != 0);
    set.fold(0, |all, (_, to)| all | to)
}

/// `MPI_ERR_OTHER` of Open MPI.
const OTHER: c_int = 16;

/// Where calls are translated.
pub trait Edge: 'static {
    /// Whether the caller has the other ABI, and the callee Open MPI's.
    const INWARD: bool;

    /// What lives as long as the call.
    type Guard;

    fn abi() -> &'static Abi;

    /// A handle of the caller's, for the callee.
    fn handle(kind: HandleKind, handle: u64) -> u64;

    /// A handle of the callee's, for the caller.
    fn handle_back(kind: HandleKind, handle: u64) -> u64;

    /// An error code of the callee's, for the caller.
    fn outcome(code: c_int) -> c_int;

    /// An error code of the caller's, for the callee.
    fn code(code: c_int) -> c_int;

    /// Whether the caller is not to be given anything: it does not go on.
    fn is_void(code: c_int) -> bool;

    /// To be called before anything else.
    fn guard() -> Self::Guard;

    /// The procedure of a slot.
    fn callee(slot: usize) -> *const ();

    /// Processes of a communicator of the callee's, or of its remote group.
    fn members(comm: u64) -> usize;

    /// The rank of this process in it.
    fn rank(comm: u64) -> c_int;

    /// Its neighbours: those that send to this process, and those that it sends to.
    fn degrees(comm: u64) -> (usize, usize);

    /// The value of a variable of whoever has the other ABI.
    fn variable(name: &'static CStr) -> isize;
}

/// The value of a variable of the library; looked up once.
fn variable(name: &'static CStr) -> isize {
    const NAMES: [&CStr; 3] = [
        c"MPI_UNWEIGHTED",
        c"MPI_WEIGHTS_EMPTY",
        c"MPI_T_PVAR_ALL_HANDLES",
    ];
    let index = NAMES
        .iter()
        .position(|known| *known == name)
        .expect("a variable");
    match VARIABLES[index].load(Relaxed) {
        0 => {
            let at = crate::library::symbol(name).cast::<usize>();
            let value = match at.is_null() {
                true => 0,
                // SAFETY: a variable of the library, a pointer.
                false => unsafe { at.read() },
            };
            VARIABLES[index].store(value, Relaxed);
            value as isize
        }
        value => value as isize,
    }
}

#[cfg(test)]
mod tests {
    use super::{Domain, MPICH, STANDARD};
    use crate::real_types::Status;

    #[test]
    fn statuses_go_there_and_back() {
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
                let mut theirs = [0xa5u8; 40];
                // SAFETY: there is room for a status of either ABI.
                let again = unsafe {
                    abi.write_status(theirs.as_mut_ptr(), &status);
                    abi.read_status(theirs.as_ptr())
                };
                assert_eq!(again, status, "{}", abi.name);
                assert!(
                    theirs[abi.status.size..].iter().all(|&byte| byte == 0xa5),
                    "{}",
                    abi.name
                );
            }
        }
    }

    #[test]
    fn integers_go_there_and_back() {
        for abi in [&MPICH, &STANDARD] {
            let rank = |value| abi.canonical(Domain::Rank, abi.foreign(Domain::Rank, value));
            assert!([-1, -2, -4, 0, 5].iter().all(|&value| rank(value) == value));
            for code in [0, 1, 13, 52, 92, 93, 200] {
                let theirs = abi.foreign(Domain::ErrorCode, code);
                assert_eq!(
                    abi.canonical(Domain::ErrorCode, theirs),
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
        // The program's own codes are behind all of the library's (MPI 4.1, 9.5).
        assert!(MPICH.foreign(Domain::ErrorCode, 93) > MPICH.foreign(Domain::ErrorCode, 92));
    }
}
