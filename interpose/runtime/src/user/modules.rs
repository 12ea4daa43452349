//! Libraries that the program has opened since its start (dlopen(3)).
//!
//! ld.so's own state does not roll back with the program, so it is brought in line by its own means: libraries opened
//! after the cut are closed again, libraries closed since are opened again, and an understudy opens what the dead rank
//! had open. A handle is the address of ld.so's record; it and the library's place must come out as they were.
#![allow(unsafe_code)]

use super::UserError;
use crate::arch::call_user;
use crate::boot;
use std::ffi::{CStr, CString, c_char, c_void};
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
    let mut at = boot::info().link_map.cast::<LinkMap>();
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

/// Closes what is not in the list, the newest first, as often as it was opened.
fn close_newer(saved: &[Library]) {
    const MOST_OPENINGS: usize = 1000;
    for _ in 0..MOST_OPENINGS {
        let Some(library) = capture().into_iter().rev().find(|library| !saved.contains(library)) else {
            return;
        };
        // SAFETY: dlclose(3) on the program's stack, since it runs the library's destructors.
        if unsafe { call_user(boot::info().user_dlclose as *const c_void, library.handle, 0, 0, 0, 0) } != 0 {
            return;
        }
    }
}

/// Tells ld.so where the next libraries go.
fn place(libraries: &[&Library]) {
    let mut places = [0; LIBRARY_PLACES];
    for (place, library) in places.iter_mut().zip(libraries) {
        *place = library.base as usize;
    }
    // SAFETY: the face's list, which only ld.so's calls from this thread use.
    unsafe { boot::info().library_places.write_volatile(places) };
}

fn open(library: &Library) -> Result<(), UserError> {
    let loaded = || capture().contains(library);
    if loaded() {
        return Ok(());
    }
    let path = CString::new(library.path.clone()).map_err(|_| UserError::Library(library.path.clone()))?;
    // SAFETY: dlopen(3) on the program's stack, since it runs the library's constructors.
    unsafe {
        call_user(
            boot::info().user_dlopen as *const c_void,
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
