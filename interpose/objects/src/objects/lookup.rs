//! Lookup of handles: table indices, and Fortran handles (MPI 4.1, 19.3.4).

use crate::Runtime;
use crate::generated::HandleKind;
pub use crate::handles::created_index;
use crate::handles::{
    DenotedObject, denoted_object, predefined_handle, predefined_of, virtual_handle,
};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fortran handle of the first created object.
///
/// Fortran handles of predefined objects are those of the real library. In Open MPI these are
/// smaller than this number.
const FORTRAN_BASE: c_int = 1_000_000;
/// End of the Fortran handles of created objects.
///
/// MPICH's Fortran handles equal its C handles. `MPI_COMM_NULL`, the least of these, has this
/// value.
const FORTRAN_END: c_int = 0x400_0000;
/// Fortran handle that denotes no object, as in the real library.
const FORTRAN_INVALID: c_int = -1;

/// Returns the Fortran handle of a handle.
///
/// `real` supplies the Fortran handle of a predefined object.
pub fn to_fortran(kind: HandleKind, handle: *mut c_void, real: impl FnOnce() -> c_int) -> c_int {
    match denoted_object(handle) {
        DenotedObject::Created(_) => created_index(kind, handle)
            .and_then(|index| c_int::try_from(index).ok()?.checked_add(FORTRAN_BASE))
            .filter(|&number| number < FORTRAN_END)
            .unwrap_or(FORTRAN_INVALID),
        DenotedObject::Predefined(_) => real(),
        DenotedObject::Nothing => FORTRAN_INVALID,
    }
}

/// Returns the handle that a Fortran handle denotes.
///
/// Null, as in the real library, if the Fortran handle is invalid.
///
/// `exists` returns true for the index of an existing created object. `real` converts the Fortran
/// handle of a predefined object by the real library.
pub fn from_fortran(
    rt: &Runtime,
    kind: HandleKind,
    number: c_int,
    exists: impl FnOnce(u32) -> bool,
    real: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if !(FORTRAN_BASE..FORTRAN_END).contains(&number) {
        return predefined_of(rt, real()).unwrap_or(std::ptr::null_mut());
    }
    let index = (number - FORTRAN_BASE) as u32;
    if exists(index) {
        virtual_handle(kind, index)
    } else {
        std::ptr::null_mut()
    }
}

/// Predefined handle, looked up once by the name of its data symbol.
pub struct PredefinedHandle {
    name: &'static str,
    address: AtomicUsize,
}

impl PredefinedHandle {
    /// Returns a predefined handle by its name; looked up at the first use.
    pub const fn new(name: &'static str) -> PredefinedHandle {
        PredefinedHandle {
            name,
            address: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub fn get(&self, rt: &Runtime) -> *mut c_void {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(rt),
            address => address as *mut c_void,
        }
    }

    #[cold]
    fn find(&self, rt: &Runtime) -> *mut c_void {
        let address = predefined_handle(rt, self.name);
        self.address.store(address as usize, Ordering::Relaxed);
        address
    }
}

#[cfg(test)]
mod tests {
    use super::{created_index, from_fortran, to_fortran};
    use crate::Runtime;
    use crate::generated::HandleKind;
    use crate::handles::virtual_handle;

    #[test]
    fn created_handles_are_of_one_kind() {
        let handle = virtual_handle(HandleKind::Group, 7);
        assert_eq!(created_index(HandleKind::Group, handle), Some(7));
        assert_eq!(created_index(HandleKind::Op, handle), None);
        assert_eq!(
            created_index(HandleKind::Group, handle.wrapping_byte_add(8)),
            None
        );
    }

    #[test]
    fn fortran_handles_survive_a_round_trip() {
        let rt = &Runtime::new();
        let handle = virtual_handle(HandleKind::Op, 41);
        assert_eq!(
            to_fortran(HandleKind::Op, handle, || unreachable!()),
            1_000_041
        );
        assert_eq!(
            from_fortran(
                rt,
                HandleKind::Op,
                1_000_041,
                |index| index == 41,
                || unreachable!()
            ),
            handle
        );
        assert!(
            from_fortran(rt, HandleKind::Op, 1_000_041, |_| false, || unreachable!()).is_null()
        );
        // MPICH's Fortran handles of predefined objects are greater, and `real` supplies them.
        let mpich = 0x5800_0003;
        let is_called = std::cell::Cell::new(false);
        let real = || {
            is_called.set(true);
            std::ptr::null_mut()
        };
        assert!(
            from_fortran(rt, HandleKind::Op, mpich, |_| true, real).is_null() && is_called.get()
        );
        assert_eq!(to_fortran(HandleKind::Info, handle, || unreachable!()), -1);
        assert_eq!(
            to_fortran(HandleKind::Op, std::ptr::null_mut(), || unreachable!()),
            -1
        );
    }
}
