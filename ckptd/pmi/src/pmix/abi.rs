//! Structures, constants and functions that libpmix and this server share.
//!
//! The definitions are taken from the PMIx Standard and OpenPMIx's `pmix_common.h` and
//! `pmix_server.h`, which are equal in 4.2.2, 4.2.9, 5.0.11, 6.1.0 and 7.0.0 ([`Version`]). The
//! definitions are not generated, because many installations of MPI have no headers of PMIx.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;

/// Length of a namespace's name in bytes, with the final zero (PMIX_MAX_NSLEN + 1).
pub const NAMESPACE_SIZE: usize = 256;
/// Length of a key in bytes, with the final zero (PMIX_MAX_KEYLEN + 1).
pub const KEY_SIZE: usize = 512;

/// Result of PMIx functions (`pmix_status_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    pub const SUCCESS: Status = Status(0);
    pub const ERROR: Status = Status(-1);
    pub const BAD_PARAM: Status = Status(-27);
    pub const NOT_FOUND: Status = Status(-46);
    pub const NOT_SUPPORTED: Status = Status(-47);
    pub const DUPLICATE_KEY: Status = Status(-53);
    pub const LOST_CONNECTION: Status = Status(-61);
    /// The call has completed the operation; the callback is not called.
    pub const OPERATION_SUCCEEDED: Status = Status(-157);

    pub fn is_good(self) -> bool {
        matches!(self, Status::SUCCESS | Status::OPERATION_SUCCEEDED)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PMIx status {}", self.0)
    }
}

/// Every rank of a namespace (PMIX_RANK_WILDCARD).
pub const EVERY_RANK: u32 = u32::MAX - 1;

/// A process (`pmix_proc_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Proc {
    pub namespace: [c_char; NAMESPACE_SIZE],
    pub rank: u32,
}

/// Types of values (`pmix_data_type_t`), as far as this server uses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Type(pub u16);

impl Type {
    pub const BOOL: Type = Type(1);
    pub const STRING: Type = Type(3);
    pub const UINT16: Type = Type(13);
    pub const UINT32: Type = Type(14);
    pub const STATUS: Type = Type(20);
    pub const INFO: Type = Type(24);
    pub const BYTE_OBJECT: Type = Type(27);
    pub const DATA_ARRAY: Type = Type(39);
    pub const PROC_RANK: Type = Type(40);
}

/// A byte object (`pmix_byte_object_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Bytes {
    pub start: *mut c_char,
    pub size: usize,
}

/// Elements of one type (`pmix_data_array_t`).
#[repr(C)]
pub struct Array {
    pub of: Type,
    pub size: usize,
    pub start: *mut c_void,
}

/// Contents of a value; `room` has the size of the largest member (`pmix_envar_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub union Data {
    pub flag: bool,
    pub uint16: u16,
    pub uint32: u32,
    pub status: Status,
    pub string: *mut c_char,
    pub bytes: Bytes,
    pub array: *mut Array,
    pub room: [usize; 3],
}

/// A value with its type (`pmix_value_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    pub of: Type,
    pub data: Data,
}

/// A key with its value (`pmix_info_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Info {
    pub key: [c_char; KEY_SIZE],
    pub flags: u32,
    pub value: Value,
}

/// A published value (`pmix_pdata_t`).
#[repr(C)]
pub struct Published {
    pub by: Proc,
    pub key: [c_char; KEY_SIZE],
    pub value: Value,
}

/// A program that is to be spawned (`pmix_app_t`).
#[repr(C)]
pub struct App {
    pub command: *mut c_char,
    pub arguments: *mut *mut c_char,
    pub environment: *mut *mut c_char,
    pub directory: *mut c_char,
    pub processes: c_int,
    pub infos: *mut Info,
    pub info_count: usize,
}

// Sizes of the structures in C on x86-64.
const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<Array>() == 24);
    assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
    assert!(size_of::<App>() == 56);
    assert!(size_of::<Published>() == 808 && std::mem::offset_of!(Published, value) == 776);
};

pub type OpDone = unsafe extern "C" fn(Status, *mut c_void);
pub type Release = unsafe extern "C" fn(*mut c_void);
pub type ModexDone =
    unsafe extern "C" fn(Status, *const c_char, usize, *mut c_void, Option<Release>, *mut c_void);
pub type LookupDone = unsafe extern "C" fn(Status, *mut Published, usize, *mut c_void);
pub type DmodexDone = unsafe extern "C" fn(Status, *mut c_char, usize, *mut c_void);

pub type OfClient =
    unsafe extern "C" fn(*const Proc, *mut c_void, Option<OpDone>, *mut c_void) -> Status;
pub type Connected = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    *mut Info,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> Status;
pub type Abort = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Proc,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> Status;
pub type Fence = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    Option<ModexDone>,
    *mut c_void,
) -> Status;
pub type DirectModex =
    unsafe extern "C" fn(*const Proc, *const Info, usize, Option<ModexDone>, *mut c_void) -> Status;
pub type Publish =
    unsafe extern "C" fn(*const Proc, *const Info, usize, Option<OpDone>, *mut c_void) -> Status;
pub type Lookup = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    Option<LookupDone>,
    *mut c_void,
) -> Status;
pub type Unpublish = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> Status;

pub type SpawnDone = unsafe extern "C" fn(Status, *mut c_char, *mut c_void);
pub type Spawn = unsafe extern "C" fn(
    *const Proc,
    *const Info,
    usize,
    *const App,
    usize,
    Option<SpawnDone>,
    *mut c_void,
) -> Status;
pub type Connect = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> Status;

/// A function that this server does not have; libpmix reports that it is not supported.
pub type Absent = Option<unsafe extern "C" fn()>;

/// Functions of the server that libpmix calls (`pmix_server_module_t`).
///
/// libpmix copies as much of the structure as its version has. Later versions have more functions,
/// so that the structure ends with room for them.
#[repr(C)]
pub struct Module {
    /// Unused, because `connected2` is set.
    pub connected: Absent,
    pub finalized: Option<OfClient>,
    pub abort: Option<Abort>,
    pub fence: Option<Fence>,
    pub direct_modex: Option<DirectModex>,
    pub publish: Option<Publish>,
    pub lookup: Option<Lookup>,
    pub unpublish: Option<Unpublish>,
    pub spawn: Option<Spawn>,
    pub connect: Option<Connect>,
    pub disconnect: Option<Connect>,
    pub register_events: Absent,
    pub deregister_events: Absent,
    pub listener: Absent,
    pub notify_event: Absent,
    pub query: Absent,
    pub tool_connected: Absent,
    /// Must be absent.
    ///
    /// A client that logs would wait for the answer of this function. Without the function the
    /// client prints the text itself.
    pub log: Absent,
    pub allocate: Absent,
    pub job_control: Absent,
    pub monitor: Absent,
    pub get_credential: Absent,
    pub validate_credential: Absent,
    pub forward_output: Absent,
    pub push_input: Absent,
    pub group: Absent,
    pub fabric: Absent,
    pub connected2: Option<Connected>,
    pub later: [Absent; 64],
}

/// A release of OpenPMIx.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub release: u32,
}

impl Version {
    /// First supported version; structures were compared from 4.2.2 on.
    pub const OLDEST: Version = Version {
        major: 4,
        minor: 2,
        release: 0,
    };
    /// Last major version whose structures were compared.
    pub const NEWEST_MAJOR: u32 = 7;

    /// Parses the result of PMIx_Get_version: `OpenPMIx 5.0.11rc1 (PMIx Standard: …)`.
    pub fn of(text: &str) -> Option<Version> {
        let number = text.strip_prefix("OpenPMIx ")?.split(' ').next()?;
        let mut parts = number.split('.').map(|part| {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..digits].parse::<u32>().ok()
        });
        Some(Version {
            major: parts.next()??,
            minor: parts.next()??,
            release: parts.next().flatten().unwrap_or(0),
        })
    }

    pub fn is_supported(self) -> bool {
        self >= Version::OLDEST && self.major <= Version::NEWEST_MAJOR
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_judged() {
        let of = |text: &str| {
            Version::of(text).map(|version| (version.to_string(), version.is_supported()))
        };
        for (text, number, is_known) in [
            (
                "OpenPMIx 5.0.11rc1 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)",
                "5.0.11",
                true,
            ),
            (
                "OpenPMIx 4.2.2 (PMIx Standard: 4.1, Stable ABI: 4.1, Provisional ABI: 4.1)",
                "4.2.2",
                true,
            ),
            ("OpenPMIx 6.1.0", "6.1.0", true),
            ("OpenPMIx 4.1.3, repo rev: v4.1.3", "4.1.3", false),
            ("OpenPMIx 7.0.0rc1 (…)", "7.0.0", true),
            ("OpenPMIx 8.0.0a1 (…)", "8.0.0", false),
        ] {
            assert_eq!(of(text), Some((number.to_owned(), is_known)), "{text}");
        }
        assert_eq!(of("PMIx from elsewhere"), None);
        assert_eq!(of("OpenPMIx x.y"), None);
    }
}
