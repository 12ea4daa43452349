//! Error handlers, error classes and codes (MPI 4.1, 9.3 to 9.5), wholly on our side.
//!
//! The real library never calls a handler of the program: real communicators return their errors, and `raise::raise`
//! does the rest. Codes that the program adds are not known to it either, because a rollback could not take them back.
#![allow(unsafe_code)]

use super::lookup::{Predefined, created};
use super::{comm, file, objects, objects_mut, session, window};
use crate::abi;
use crate::arch::{call_program, function_of};
use crate::errors::{ERR_ARG, SUCCESS};
use crate::generated::HandleKind;
use crate::handles::{
    Named, VirtComm, VirtErrhandler, VirtFile, VirtSession, VirtWin, named, virtual_handle,
};
use crate::objects::Runtime;
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::Domain;

/// `MPI_ERR_LASTCODE`, the greatest predefined code.
pub const LAST_PREDEFINED: c_int = 92;

static NULL: Predefined = Predefined::new("ompi_mpi_errhandler_null");
static FATAL: Predefined = Predefined::new("ompi_mpi_errors_are_fatal");
static ABORT: Predefined = Predefined::new("ompi_mpi_errors_abort");
static RETURN: Predefined = Predefined::new("ompi_mpi_errors_return");
static THROW: Predefined = Predefined::new("ompi_mpi_errors_throw_exceptions");

/// What an error handler of the program may be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Kind {
    Comm,
    File,
    Win,
    Session,
}

/// What errors are raised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Comm(VirtComm),
    File(VirtFile),
    /// `MPI_FILE_NULL`: errors without a file.
    NoFile,
    Win(VirtWin),
    Session(VirtSession),
    /// A communicator or a session that is being made, with this error handler.
    New(VirtErrhandler),
}

/// An error handler of the program.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Errhandler {
    /// What it may be set for.
    pub kind: Kind,
    /// Address of the program's function.
    pub function: u64,
    /// Number of handles that the program has: `MPI_Comm_get_errhandler` and `MPI_File_get_errhandler` give
    /// one more, which is to be freed as well.
    pub handles: u32,
}

/// What an error leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The end of the job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// The end of the communicator's processes (`MPI_ERRORS_ABORT`).
    Abort,
    Return,
    /// The same as `Fatal`, since no exception gets through the layer (`MPI::ERRORS_THROW_EXCEPTIONS` of Open MPI 4).
    Throw,
    /// A call of the program's function at this address.
    Call(u64),
}

/// `MPI_ERRHANDLER_NULL` as the program knows it.
pub fn null_handle(rt: &Runtime) -> VirtErrhandler {
    VirtErrhandler(NULL.get(rt))
}

/// `MPI_FILE_NULL` as the program knows it.
pub fn no_file(rt: &Runtime) -> VirtFile {
    static NO_FILE: Predefined = Predefined::new("ompi_mpi_file_null");
    VirtFile(NO_FILE.get(rt))
}

/// What a file that is opened now has as its error handler: that of `MPI_FILE_NULL`.
pub fn default_of_files(rt: &Runtime) -> u64 {
    objects(rt).file_errhandler
}

/// What an error handler does; nothing for `MPI_ERRHANDLER_NULL` and for what is no error handler.
fn action(rt: &Runtime, errhandler: VirtErrhandler) -> Option<Action> {
    if let Some(index) = created(HandleKind::Errhandler, errhandler.0) {
        return Some(Action::Call(objects(rt).errhandlers.get(index)?.function));
    }
    if !matches!(named(errhandler.0), Named::Predefined(_)) {
        return None;
    }
    match errhandler.0 {
        handle if handle == FATAL.get(rt) => Some(Action::Fatal),
        handle if handle == ABORT.get(rt) => Some(Action::Abort),
        handle if handle == RETURN.get(rt) => Some(Action::Return),
        handle if handle == THROW.get(rt) => Some(Action::Throw),
        _ => None,
    }
}

/// What an error handler of the program may be set for; nothing for others.
fn kind_of(rt: &Runtime, errhandler: VirtErrhandler) -> Option<Kind> {
    let own = created(HandleKind::Errhandler, errhandler.0)?;
    objects(rt).errhandlers.get(own).map(|own| own.kind)
}

/// Whether it is an error handler that may be set for objects of a kind.
pub fn is_of(rt: &Runtime, errhandler: VirtErrhandler, kind: Kind) -> bool {
    action(rt, errhandler).is_some() && kind_of(rt, errhandler).is_none_or(|own| own == kind)
}

impl Object {
    fn kind(self, rt: &Runtime) -> Kind {
        match self {
            Object::New(errhandler) => kind_of(rt, errhandler).unwrap_or(Kind::Comm),
            Object::Session(_) => Kind::Session,
            Object::Comm(_) => Kind::Comm,
            Object::File(_) | Object::NoFile => Kind::File,
            Object::Win(_) => Kind::Win,
        }
    }

    /// The error handler that is set; errors of files return unless the program says otherwise (14.7).
    fn errhandler(self, rt: &Runtime) -> VirtErrhandler {
        let (handle, default) = match self {
            Object::Comm(comm) => (comm::errhandler(rt, comm), &FATAL),
            Object::File(file) => (
                file::get(rt, file).map_or(0, |file| file.errhandler),
                &RETURN,
            ),
            Object::NoFile => (objects(rt).file_errhandler, &RETURN),
            Object::Win(win) => (window::errhandler(rt, win), &FATAL),
            Object::Session(session) => (session::errhandler(rt, session), &FATAL),
            Object::New(errhandler) => (errhandler.0 as u64, &FATAL),
        };
        match handle {
            0 => VirtErrhandler(default.get(rt)),
            handle => VirtErrhandler(handle as *mut c_void),
        }
    }

    /// What an error leads to.
    pub fn action(self, rt: &Runtime) -> Action {
        action(rt, self.errhandler(rt)).unwrap_or(Action::Fatal)
    }

    /// Sets the error handler, if it is one of this kind.
    pub fn set(self, rt: &Runtime, errhandler: VirtErrhandler) -> c_int {
        if !is_of(rt, errhandler, self.kind(rt)) {
            return ERR_ARG;
        }
        match self {
            Object::Comm(comm) => comm::set_errhandler(rt, comm, errhandler.0 as u64),
            Object::File(file) => {
                if let Some(mut file) = file::get_mut(rt, file) {
                    file.errhandler = errhandler.0 as u64;
                }
            }
            Object::NoFile => objects_mut(rt).file_errhandler = errhandler.0 as u64,
            Object::Win(win) => {
                if let Some(mut window) = window::get_mut(rt, win) {
                    window.errhandler = errhandler.0 as u64;
                }
            }
            Object::Session(session) => {
                if let Some(mut session) = session::get_mut(rt, session) {
                    session.errhandler = errhandler.0 as u64;
                }
            }
            Object::New(_) => {}
        }
        SUCCESS
    }

    /// One more handle of its error handler.
    pub fn get(self, rt: &Runtime) -> VirtErrhandler {
        let handle = self.errhandler(rt);
        if let Some(index) = created(HandleKind::Errhandler, handle.0)
            && let Some(entry) = objects_mut(rt).errhandlers.get_mut(index)
        {
            entry.handles += 1;
        }
        handle
    }

    /// Calls an error handler of the program for an error.
    pub fn call(self, rt: &Runtime, function: u64, mut code: c_int) {
        let mut handle = match self {
            Object::Comm(comm) => abi::for_program(rt, HandleKind::Comm, comm.0 as u64),
            Object::File(file) => abi::for_program(rt, HandleKind::File, file.0 as u64),
            Object::NoFile => abi::for_program(rt, HandleKind::File, no_file(rt).0 as u64),
            Object::Win(win) => abi::for_program(rt, HandleKind::Win, win.0 as u64),
            Object::Session(session) => abi::for_program(rt, HandleKind::Session, session.0 as u64),
            Object::New(_) if self.kind(rt) == Kind::Session => {
                abi::for_program(rt, HandleKind::Session, session::null_handle(rt).0 as u64)
            }
            Object::New(_) => {
                abi::for_program(rt, HandleKind::Comm, comm::null_handle(rt).0 as u64)
            }
        };
        code = abi::integer_for_program(Domain::ErrorCode, code);
        // SAFETY: a handler called by the program runs; its function takes pointers to a handle and a code. The further
        // arguments are not to be looked at (9.3.1).
        unsafe {
            let (address, context) = function_of(function);
            call_program(
                address,
                [&raw mut handle as u64, &raw mut code as u64, 0, 0, context],
            );
        };
    }
}

/// A new error handler that calls the function at this address of the user side.
pub fn create(rt: &Runtime, kind: Kind, function: u64) -> VirtErrhandler {
    collect(rt);
    let index = objects_mut(rt).errhandlers.insert(Errhandler {
        kind,
        function,
        handles: 1,
    });
    VirtErrhandler(virtual_handle(HandleKind::Errhandler, index))
}

/// The program gives a handle back. Predefined ones may be, since `MPI_Comm_get_errhandler` returns them.
pub fn free(rt: &Runtime, errhandler: VirtErrhandler) -> c_int {
    match created(HandleKind::Errhandler, errhandler.0) {
        Some(index) => {
            match objects_mut(rt).errhandlers.get_mut(index) {
                Some(entry) if entry.handles > 0 => entry.handles -= 1,
                _ => return ERR_ARG,
            }
            collect(rt);
            SUCCESS
        }
        None => action(rt, errhandler).map_or(ERR_ARG, |_| SUCCESS),
    }
}

/// Removes error handlers that the program has freed and nothing has any more (9.3.4).
fn collect(rt: &Runtime) {
    let mut all = objects_mut(rt);
    let freed = all
        .errhandlers
        .iter()
        .filter(|(_, entry)| entry.handles == 0);
    let used = |index: u32| {
        let handle = virtual_handle(HandleKind::Errhandler, index) as u64;
        all.file_errhandler == handle
            || all.files.iter().any(|(_, file)| file.errhandler == handle)
            || all
                .windows
                .iter()
                .any(|(_, window)| window.errhandler == handle)
            || all
                .sessions
                .iter()
                .any(|(_, session)| session.errhandler == handle)
            || all.comms.iter().any(|(_, comm)| comm.errhandler == handle)
    };
    let unused: Vec<u32> = freed
        .map(|(index, _)| index)
        .filter(|&index| !used(index))
        .collect();
    for index in unused {
        all.errhandlers.remove(index);
    }
}

/// There are no real error handlers.
pub fn release_all() {}

/// There are no real error handlers.
pub fn rebuild() {}

/// Error classes and codes that the program has added (9.5): the first one follows `MPI_ERR_LASTCODE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ErrorCodes {
    added: Vec<ErrorCode>,
    /// Where those were that have been removed: these numbers are given again.
    free: Vec<u32>,
}

/// An added class or code.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
struct ErrorCode {
    /// Its class; a class is its own.
    class: i32,
    text: Vec<u8>,
    /// How many codes a class has, besides itself.
    codes: u32,
    is_removed: bool,
}

impl ErrorCodes {
    pub const NONE: ErrorCodes = ErrorCodes {
        added: Vec::new(),
        free: Vec::new(),
    };

    fn position(code: c_int) -> Option<usize> {
        usize::try_from(code.checked_sub(LAST_PREDEFINED + 1)?).ok()
    }

    fn entry(&self, code: c_int) -> Option<&ErrorCode> {
        let entry = self.added.get(Self::position(code)?)?;
        (!entry.is_removed).then_some(entry)
    }

    fn entry_mut(&mut self, code: c_int) -> Option<&mut ErrorCode> {
        let entry = self.added.get_mut(Self::position(code)?)?;
        (!entry.is_removed).then_some(entry)
    }

    /// A new code of a class, or of one of its own.
    fn add(&mut self, class: Option<c_int>) -> c_int {
        let place = self
            .free
            .pop()
            .map_or(self.added.len(), |place| place as usize);
        let code = LAST_PREDEFINED + 1 + place as c_int;
        let new = ErrorCode {
            class: class.unwrap_or(code),
            text: Vec::new(),
            codes: 0,
            is_removed: false,
        };
        match self.added.get_mut(place) {
            Some(old) => *old = new,
            None => self.added.push(new),
        }
        code
    }

    /// The greatest code that has been in use (`MPI_LASTUSEDCODE`).
    pub fn last_used(&self) -> c_int {
        LAST_PREDEFINED + self.added.len() as c_int
    }

    pub fn add_class(&mut self) -> c_int {
        self.add(None)
    }

    /// A new code of a class, if that is one.
    pub fn add_code(&mut self, class: c_int) -> Option<c_int> {
        let known = (0..=LAST_PREDEFINED).contains(&class) || self.class(class) == Some(class);
        if !known {
            return None;
        }
        if let Some(class) = self.entry_mut(class) {
            class.codes += 1;
        }
        Some(self.add(Some(class)))
    }

    /// Gives a code its text; whether it is one that was added.
    pub fn set_text(&mut self, code: c_int, text: &[u8]) -> bool {
        let entry = self.entry_mut(code);
        entry.map(|entry| entry.text = text.to_vec()).is_some()
    }

    /// Takes the text of a code away; whether it had one.
    pub fn remove_text(&mut self, code: c_int) -> bool {
        let text = self
            .entry_mut(code)
            .map(|entry| std::mem::take(&mut entry.text));
        text.is_some_and(|text| !text.is_empty())
    }

    /// Removes an added class that has neither codes nor a text; whether it is one.
    pub fn remove_class(&mut self, class: c_int) -> bool {
        let is_empty = self
            .entry(class)
            .is_some_and(|entry| entry.class == class && entry.codes == 0);
        is_empty && self.remove(class)
    }

    /// Removes an added code that has no text; whether it is one.
    pub fn remove_code(&mut self, code: c_int) -> bool {
        let Some(class) = self.class(code).filter(|&class| class != code) else {
            return false;
        };
        let is_removed = self.remove(code);
        if let Some(class) = self.entry_mut(class).filter(|_| is_removed) {
            class.codes -= 1;
        }
        is_removed
    }

    fn remove(&mut self, code: c_int) -> bool {
        let entry = self.entry_mut(code).filter(|entry| entry.text.is_empty());
        let is_removed = entry.map(|entry| entry.is_removed = true).is_some();
        if let Some(place) = Self::position(code).filter(|_| is_removed) {
            self.free.push(place as u32);
        }
        is_removed
    }

    /// The class of an added code.
    pub fn class(&self, code: c_int) -> Option<c_int> {
        Some(self.entry(code)?.class)
    }

    /// The text of an added code; empty if it was given none.
    pub fn text(&self, code: c_int) -> Option<&[u8]> {
        Some(&self.entry(code)?.text)
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCodes, LAST_PREDEFINED};

    #[test]
    fn codes_follow_the_predefined_ones() {
        let mut codes = ErrorCodes::default();
        assert_eq!(codes.last_used(), LAST_PREDEFINED);
        assert_eq!(
            (codes.add_class(), codes.add_code(93), codes.add_code(3)),
            (93, Some(94), Some(95))
        );
        assert_eq!(
            (codes.class(93), codes.class(94), codes.class(95)),
            (Some(93), Some(93), Some(3))
        );
        assert_eq!(codes.last_used(), 95);
    }

    #[test]
    fn only_classes_have_codes_and_only_added_codes_get_texts() {
        let mut codes = ErrorCodes::default();
        assert_eq!(
            (codes.add_code(93), codes.add_code(-1), codes.class(92)),
            (None, None, None)
        );
        assert_eq!(
            (codes.add_class(), codes.add_code(93), codes.add_code(94)),
            (93, Some(94), None)
        );
        assert!(codes.set_text(94, b"late"));
        assert!(
            !codes.set_text(95, b"") && !codes.set_text(92, b"") && !codes.set_text(i32::MIN, b"")
        );
        assert_eq!(
            (codes.text(93), codes.text(94)),
            (Some(&b""[..]), Some(&b"late"[..]))
        );
    }

    #[test]
    fn what_is_in_use_or_predefined_cannot_be_removed() {
        let mut codes = ErrorCodes::default();
        let (class, code) = (
            codes.add_class(),
            codes.add_code(93).expect("a code of the class"),
        );
        assert!(codes.set_text(code, b"text"));
        assert!(
            !codes.remove_class(class) && !codes.remove_code(code) && !codes.remove_code(class)
        );
        assert!(codes.remove_text(code) && !codes.remove_text(code));
        assert!(
            codes.remove_code(code) && !codes.remove_code(code) && !codes.set_text(code, b"text")
        );
        assert!(
            codes.remove_class(class)
                && !codes.remove_class(class)
                && codes.add_code(class).is_none()
        );
        assert!(!codes.remove_class(0) && !codes.remove_code(3) && !codes.remove_text(3));
        // Numbers are given again, or thousands that come and go would grow without bound.
        assert_eq!((codes.add_class(), codes.last_used()), (93, 94));
    }
}
