//! What the runtime asks the launcher for by itself: to start a process (PMIx 4.1 standard, 7.3, `PMIx_Spawn`), and to pass a
//! word from one to another (4.3, `PMIx_Publish`, `PMIx_Lookup`).
//!
//! MPI_Comm_spawn would do, but it gives the launcher no word on what a failure of the new process is to mean: it would end
//! the job.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use understudy_mpi::library;

/// `pmix_value_t`, with the members that are used.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    text: *const c_char,
    /// The longest members have three words.
    words: [usize; 3],
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Info>() == 552);

/// `pmix_app_t`
#[repr(C)]
struct App {
    command: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
    processes: c_int,
    info: *const Info,
    info_count: usize,
}

/// `pmix_pdata_t`
#[repr(C)]
struct Found {
    /// `pmix_proc_t`: name of the job, rank.
    publisher: ([c_char; 256], u32),
    key: [c_char; 512],
    value: Value,
}

const _: () = assert!(size_of::<Found>() == 808);

type Spawn = unsafe extern "C" fn(*const Info, usize, *const App, usize, *mut c_char) -> c_int;

const SUCCESS: c_int = 0;
/// `PMIX_BOOL`
const BOOL: u16 = 1;
/// `PMIX_STRING`
const STRING: u16 = 3;
/// `PMIX_JOB_RECOVERABLE` and `PMIX_JOB_CONTINUOUS`: the launcher ends nobody when the process fails.
const TOLERANT: [&CStr; 2] = [c"pmix.recover", c"pmix.continuous"];

fn key(name: &CStr) -> [c_char; 512] {
    let mut key = [0; 512];
    for (to, &from) in key.iter_mut().zip(name.to_bytes()) {
        *to = from as c_char;
    }
    key
}

/// `PMIX_MAPBY`: the launcher does not know the slots of dead processes for free.
const MAP_BY: (&CStr, &CStr) = (c"pmix.mapby", c"slot:OVERSUBSCRIBE");

impl Info {
    fn text(name: &CStr, text: &'static CStr) -> Info {
        let mut info = Info::on(name);
        info.value.kind = STRING;
        info.value.data.text = text.as_ptr();
        info
    }

    fn on(name: &CStr) -> Info {
        let key = key(name);
        let value = Value {
            kind: BOOL,
            data: Data { words: [0; 3] },
        };
        let mut info = Info { key, flags: 0, value };
        info.value.data.flag = true;
        info
    }
}

/// What is to be started.
pub struct Program {
    /// Path of the executable file.
    pub path: CString,
    /// From the program's name on.
    pub arguments: Vec<CString>,
    /// `NAME=value`, besides what the launcher sets.
    pub environment: Vec<CString>,
    /// Where it starts.
    pub directory: CString,
}

/// Starts one process of `program`. The error says what the launcher has against it.
pub fn spawn(program: &Program) -> Result<(), String> {
    let (function, text) = (library::symbol(c"PMIx_Spawn"), library::symbol(c"PMIx_Error_string"));
    if function.is_null() || text.is_null() {
        return Err("this Open MPI has no PMIx_Spawn".into());
    }
    let [recoverable, continuous] = TOLERANT.map(Info::on);
    let info = [recoverable, continuous, Info::text(MAP_BY.0, MAP_BY.1)];
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        let all = strings.iter().map(|string| string.as_ptr());
        all.chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(&program.arguments), pointers(&program.environment));
    let app = App {
        command: program.path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        directory: program.directory.as_ptr(),
        processes: 1,
        info: std::ptr::null(),
        info_count: 0,
    };
    // `PMIX_MAX_NSLEN` and a terminating zero.
    let mut job = [0 as c_char; 256];
    // SAFETY: PMIx's functions of these types; the structures are as its headers of version 4 to 6 declare them.
    unsafe {
        let spawn = transmute::<*mut c_void, Spawn>(function);
        let text = transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(text);
        match spawn(info.as_ptr(), info.len(), &app, 1, job.as_mut_ptr()) {
            SUCCESS => Ok(()),
            error => Err(CStr::from_ptr(text(error)).to_string_lossy().into_owned()),
        }
    }
}

/// Makes a word known to all processes of the launcher.
pub fn publish(word: &CStr) -> bool {
    let function = library::symbol(c"PMIx_Publish");
    // SAFETY: PMIx's function of this type, or null.
    unsafe {
        let publish = transmute::<*mut c_void, Option<unsafe extern "C" fn(*const Info, usize) -> c_int>>(function);
        publish.is_some_and(|publish| publish(&Info::on(word), 1) == SUCCESS)
    }
}

/// Whether a word has been made known.
pub fn is_published(word: &CStr) -> bool {
    type Lookup = unsafe extern "C" fn(*mut Found, usize, *const Info, usize) -> c_int;
    let function = library::symbol(c"PMIx_Lookup");
    let mut found = Found {
        publisher: ([0; 256], 0),
        key: key(word),
        value: Value {
            kind: 0,
            data: Data { words: [0; 3] },
        },
    };
    // SAFETY: PMIx's function of this type, or null; it fills in a truth value, which owns no memory.
    unsafe {
        let lookup = transmute::<*mut c_void, Option<Lookup>>(function);
        lookup.is_some_and(|lookup| lookup(&mut found, 1, std::ptr::null(), 0) == SUCCESS)
    }
}
