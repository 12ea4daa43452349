//! Info objects in the table, and their real objects.
#![allow(unsafe_code)]

use super::info_pairs::Info;
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtInfo, real_info};
use crate::objects::comm::hints;
use crate::objects::lookup::{PredefinedHandle, created_index};
use crate::objects::rebuild_error::log_not_rebuilt;
use crate::objects::{objects, objects_mut};
use std::cell::RefMut;
use std::ffi::{CString, c_int};
use understudy_catalogue::message;
use understudy_mpi::real_types::RealInfo;

pub const ERR_INFO: c_int = 34;
static NULL: PredefinedHandle = PredefinedHandle::new("ompi_mpi_info_null");

/// Returns the program's handle of `MPI_INFO_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtInfo {
    VirtInfo(NULL.get(rt))
}

/// Returns the index of a created info object.
pub fn index(rt: &Runtime, info: VirtInfo) -> Option<u32> {
    created_index(HandleKind::Info, info.0).filter(|&index| objects(rt).infos.get(index).is_some())
}

/// Borrows the entry of a created info object to change it.
pub fn get_mut(rt: &Runtime, info: VirtInfo) -> Option<RefMut<'_, Info>> {
    let index = created_index(HandleKind::Info, info.0)?;
    RefMut::filter_map(objects_mut(rt), |all| all.infos.get_mut(index)).ok()
}

/// Enters a real info object, which the runtime owns from now on.
pub fn adopt(rt: &Runtime, real: RealInfo) -> VirtInfo {
    let pairs = hints::pairs(real);
    let index = objects_mut(rt).infos.insert(Info { pairs });
    handles::set_real(rt, HandleKind::Info, index, real.0);
    VirtInfo(handles::virtual_handle(HandleKind::Info, index))
}

/// Creates an info object with these keys and values.
pub fn create(rt: &Runtime, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<VirtInfo, c_int> {
    create_real(
        rt,
        &Info {
            pairs: pairs.to_vec(),
        },
    )
    .map(|real| adopt(rt, real))
}

/// Returns keys and values of an info object.
///
/// Empty for the null handle and invalid handles.
pub fn pairs(rt: &Runtime, info: VirtInfo) -> Vec<(Vec<u8>, Vec<u8>)> {
    get_mut(rt, info).map_or_else(Vec::new, |info| info.pairs.clone())
}

pub fn free(rt: &Runtime, info: VirtInfo) -> c_int {
    let Some(index) = index(rt, info) else {
        return ERR_INFO;
    };
    objects_mut(rt).infos.remove(index);
    drop_real(rt, index)
}

fn drop_real(rt: &Runtime, index: u32) -> c_int {
    let mut info = real_info(
        rt,
        VirtInfo(handles::virtual_handle(HandleKind::Info, index)),
    );
    handles::set_real(rt, HandleKind::Info, index, std::ptr::null_mut());
    if info.0.is_null() {
        return SUCCESS;
    }
    // SAFETY: the entry has just lost this handle, so no other code uses the info object.
    unsafe { real::PMPI_Info_free(&mut info) }
}

/// Creates a real info object with these pairs.
pub fn create_real(rt: &Runtime, info: &Info) -> Result<RealInfo, c_int> {
    let mut new = hints::null_info(rt);
    // SAFETY: the info object is the runtime's, and keys and values are C strings.
    unsafe {
        match real::PMPI_Info_create(&mut new) {
            SUCCESS => (),
            rc => return Err(rc),
        }
        for (key, value) in &info.pairs {
            let (Ok(name), Ok(text)) =
                (CString::new(key.as_slice()), CString::new(value.as_slice()))
            else {
                continue;
            };
            let rc = real::PMPI_Info_set(new, name.as_ptr(), text.as_ptr());
            if rc != SUCCESS {
                log::warn!(
                    "{}",
                    message::info_not_rebuilt(understudy_mpi::error::text(rc))
                );
            }
        }
    }
    Ok(new)
}

/// Frees all real info objects.
pub fn release_all(rt: &Runtime) {
    let all: Vec<u32> = objects(rt).infos.iter().map(|(index, _)| index).collect();
    for index in all {
        drop_real(rt, index);
    }
}

/// Creates the real info objects from their recipes.
pub fn rebuild(rt: &Runtime) {
    for (index, info) in objects(rt).infos.iter() {
        match create_real(rt, info) {
            Ok(real) => handles::set_real(rt, HandleKind::Info, index, real.0),
            Err(rc) => log_not_rebuilt(&format!("info object {index}"), rc),
        }
    }
}
