//! Hints of windows.
#![allow(unsafe_code)]

use super::rma_window::{NO_LOCKS, Window};
use crate::Runtime;
use crate::generated::real;
use crate::handles::{VirtInfo, real_info};
use crate::objects::comm::hints::{self, Pairs};
use crate::objects::info;
use std::ffi::c_int;
use understudy_mpi::real_types::{RealInfo, RealWin};

/// Returns the hints of a real window.
pub fn info_of(rt: &Runtime, win: RealWin) -> Pairs {
    let mut info = hints::null_info(rt);
    // SAFETY: a window of the runtime, which owns the returned info object.
    unsafe {
        if real::PMPI_Win_get_info(win, &mut info) != 0 {
            return Vec::new();
        }
        let found = hints::pairs(info);
        real::PMPI_Info_free(&mut info);
        found
    }
}

/// Program's hints for a window, in the form for the library.
pub struct WindowHints {
    /// Program's value of [`NO_LOCKS`].
    pub no_locks: Option<Vec<u8>>,
    /// Hints for the library, without [`NO_LOCKS`].
    pub real: RealInfo,
    /// True if `real` was created by [`WindowHints::read`].
    is_own: bool,
}

impl WindowHints {
    /// Reads the hints of an info object.
    ///
    /// # Errors
    /// Fails if a real procedure fails.
    pub fn read(rt: &Runtime, info: VirtInfo) -> Result<WindowHints, c_int> {
        let mut pairs = info::pairs(rt, info);
        let hint = pairs.iter().find(|(key, _)| key == NO_LOCKS);
        let no_locks = hint.map(|(_, value)| value.clone());
        pairs.retain(|(key, _)| key != NO_LOCKS);
        let is_own = no_locks.is_some();
        let real = if is_own {
            info_with(rt, &pairs)?
        } else {
            real_info(rt, info)
        };
        Ok(WindowHints {
            no_locks,
            real,
            is_own,
        })
    }
}

impl Drop for WindowHints {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: `read` has created the info object, and only this value frees the info
            // object.
            unsafe { real::PMPI_Info_free(&mut self.real) };
        }
    }
}

/// Returns the hints of a window that the program sees.
pub fn visible_hints(rt: &Runtime, window: &Window, real: RealWin) -> Pairs {
    let mut pairs = info::Info {
        pairs: info_of(rt, real),
    };
    if let Some(value) = &window.no_locks {
        pairs.set(NO_LOCKS, value);
    }
    pairs.pairs
}

/// Creates a real info object with these hints, which the caller must free.
pub(super) fn info_with(rt: &Runtime, pairs: &Pairs) -> Result<RealInfo, c_int> {
    info::create_real(
        rt,
        &info::Info {
            pairs: pairs.clone(),
        },
    )
}
