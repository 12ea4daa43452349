//! Spawn requests of ranks (PMIx_Spawn; MPI 4.1, 11.8).
#![allow(unsafe_code)]

use super::host_state::{HOST, Host};
use crate::pmix::abi::{App, Info, Proc, SpawnDone, Status, Type};
use crate::pmix::values::{slice, text_in, texts};
use crate::{Answer, Spawn};
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use understudy_messages::ChildProgram;

/// Key of the working directory of the processes (PMIX_WDIR).
const DIRECTORY: &str = "pmix.wdir";

/// Callback of libpmix that waits for the name of a namespace, with its context.
struct SpawnCallback {
    done: SpawnDone,
    context: *mut c_void,
}

// SAFETY: libpmix accepts the call from any thread; the context is only passed back to it.
unsafe impl Send for SpawnCallback {}

impl SpawnCallback {
    /// Calls the callback, unless libpmix was shut down.
    fn answer(self, name: Option<Vec<u8>>) {
        let host = HOST.read();
        if host.is_none() {
            return;
        }
        let name = name.and_then(|name| CString::new(name).ok());
        let (status, text) = match &name {
            Some(name) => (Status::SUCCESS, name.as_ptr().cast_mut()),
            None => (Status::ERROR, std::ptr::null_mut()),
        };
        // SAFETY: libpmix copies the name; the lock prevents a shutdown of libpmix meanwhile.
        unsafe { (self.done)(status, text, self.context) };
    }
}

/// Converts an application into a program.
///
/// # Safety
/// libpmix has created the application.
unsafe fn program(app: &App) -> Option<ChildProgram> {
    // SAFETY: libpmix has created the application (guaranteed by the caller): its strings and
    // lists of strings are null or end with zero, and `info_count` is the number of its infos.
    unsafe {
        let infos = slice(app.infos.cast_const(), app.info_count);
        let text = |text: *mut c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let is_directory =
            |info: &&Info| text_in(&info.key) == Some(DIRECTORY) && info.value.of == Type::STRING;
        let directory = infos
            .iter()
            .find(is_directory)
            .map(|info| info.value.data.string);
        let variables = texts(app.environment).into_iter().filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(ChildProgram {
            file: text(app.command)?,
            arguments: texts(app.arguments),
            variables: variables.collect(),
            directory: directory
                .or(Some(app.directory))
                .and_then(text)
                .map(PathBuf::from),
            processes: u32::try_from(app.processes)
                .ok()
                .filter(|&processes| processes > 0)?,
        })
    }
}

pub unsafe extern "C" fn spawn(
    proc: *const Proc,
    _: *const Info,
    _: usize,
    apps: *const App,
    count: usize,
    done: Option<SpawnDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a valid process and `count` applications that it has created, all
    // valid during the call.
    let (proc, programs) = unsafe {
        let apps = std::slice::from_raw_parts(apps, count);
        (
            &*proc,
            apps.iter()
                .map(|app| program(app))
                .collect::<Option<Vec<_>>>(),
        )
    };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let (Some((generation, rank)), Some(programs)) = (host.owner_of(proc), programs) else {
        return Status::BAD_PARAM;
    };
    let waiting = SpawnCallback { done, context };
    let (answer, recall) = Answer::new(Box::new(move |name| waiting.answer(name)));
    if host.register_request(std::iter::once(&generation), &recall) {
        host.peers.spawn(Spawn {
            generation,
            rank,
            programs,
            put: Vec::new(),
            answer,
        });
    }
    Status::SUCCESS
}
