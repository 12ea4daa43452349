//! Libraries that the program has opened since its start (dlopen(3)).
//!
//! ld.so's own state does not roll back with the program, so it is brought in line by its own means: libraries opened
//! after the cut are closed again, libraries closed since are opened again, and an understudy opens what the dead rank
//! had open. A handle is the address of ld.so's record; it and the library's place must come out as they were.
#![allow(unsafe_code)]

use super::UserError;
use crate::arch::call_user;
use crate::{told, unwinder};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use understudy_abi::LIBRARY_PLACES;

/// A loaded library.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Library {
    path: String,
    base: u64,
    handle: u64,
}

/// The public head of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: u64,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// All libraries of the user side in load order.
pub fn capture() -> Vec<Library> {
    let mut list = Vec::new();
    let mut at = told::info().link_map.cast::<LinkMap>();
    // SAFETY: ld.so's list of the program's namespace; the program does not run meanwhile.
    while let Some(map) = unsafe { at.as_ref() } {
        // SAFETY: ld.so keeps the name as long as the record.
        let path = unsafe { CStr::from_ptr(map.name) }.to_string_lossy().into_owned();
        list.push(Library {
            path,
            base: map.base,
            handle: at as u64,
        });
        at = map.next;
    }
    list
}

/// Whether the program is inside of ld.so: the constructor of a library that is being opened has called MPI. It cannot be
/// saved there, for ld.so would not be where the program is.
pub fn is_loading() -> bool {
    let mut found = false;
    // SAFETY: the unwinder calls with this argument, on this stack.
    unsafe { unwinder::_Unwind_Backtrace(look_for_loader, (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look_for_loader(context: *mut c_void, found: *mut c_void) -> c_int {
    let info = told::info();
    // SAFETY: the unwinder passes a valid context, and the argument is that of `is_loading`.
    unsafe {
        let is_in = unwinder::_Unwind_GetIP(context).wrapping_sub(info.loader_base) < info.loader_length;
        found.cast::<bool>().write(is_in);
        if is_in {
            unwinder::END_OF_STACK
        } else {
            unwinder::NO_REASON
        }
    }
}

/// Makes the loaded libraries those of the cut; to be called before mappings and pages are put back.
pub fn restore(saved: &[Library]) -> Result<(), UserError> {
    close_newer(saved);
    let now = capture();
    let missing: Vec<&Library> = saved.iter().filter(|library| !now.contains(library)).collect();
    for part in missing.chunks(LIBRARY_PLACES - 1) {
        place(part);
        part.iter().try_for_each(|library| open(library))?;
        place(&[]);
    }
    match (capture(), saved) {
        (now, saved) if now == saved => Ok(()),
        (now, saved) => {
            let differs = |library: &&Library| !now.contains(library);
            let left = || now.iter().find(|library| !saved.contains(library));
            let path = saved
                .iter()
                .find(differs)
                .or_else(left)
                .map(|library| library.path.clone());
            Err(UserError::Library(
                path.unwrap_or_else(|| "the list of libraries".into()),
            ))
        }
    }
}

/// Closes what is not in the list, the newest first, as often as it was opened. What is there because another library needs it
/// goes with that.
fn close_newer(saved: &[Library]) {
    const MOST_OPENINGS: usize = 1000;
    for _ in 0..MOST_OPENINGS {
        let newer = || capture().into_iter().rev().filter(|library| !saved.contains(library));
        // SAFETY: records of loaded libraries. Their memory is about to be put back.
        newer().for_each(|library| unsafe { (told::info().user_hide_destructors)(library.handle as *const c_void) });
        if !newer().any(|library| close(&library)) {
            return;
        }
    }
}

fn close(library: &Library) -> bool {
    // SAFETY: dlclose(3) on the program's stack, which fails for what was not opened by itself.
    unsafe { call_user(told::info().user_dlclose as *const c_void, library.handle, 0, 0, 0, 0) == 0 }
}

/// Tells ld.so where the next libraries go.
fn place(libraries: &[&Library]) {
    let mut places = [0; LIBRARY_PLACES];
    for (place, library) in places.iter_mut().zip(libraries) {
        *place = library.base as usize;
    }
    // SAFETY: the face's list, which only ld.so's calls from this thread use.
    unsafe { told::info().library_places.write_volatile(places) };
}

fn open(library: &Library) -> Result<(), UserError> {
    let loaded = || capture().contains(library);
    if loaded() {
        return Ok(());
    }
    let path = CString::new(library.path.clone()).map_err(|_| UserError::Library(library.path.clone()))?;
    // SAFETY: dlopen(3) on the program's stack; the library's constructors are not run.
    unsafe {
        call_user(
            told::info().user_dlopen as *const c_void,
            path.as_ptr() as u64,
            libc::RTLD_NOW as u64,
            0,
            0,
            0,
        )
    };
    if loaded() {
        return Ok(());
    }
    log::debug!("wanted {library:x?} among {:x?}", capture());
    Err(UserError::Library(library.path.clone()))
}
