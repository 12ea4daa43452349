//! Release of real datatypes before a rollback, and their rebuild from recipes.

use super::build;
use super::real_datatypes::{drop_real, rename, set_real};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{self, VirtDatatype, real_datatype};
use crate::objects::objects;
use crate::objects::rebuild_error::log_not_rebuilt;
use std::ffi::c_void;

/// Frees all real datatypes that the runtime owns, and discards all real handles.
///
/// Predefined and parameterised datatypes belong to the library.
pub fn release_all(rt: &Runtime) {
    let all: Vec<(u32, bool)> = objects(rt)
        .datatypes
        .iter()
        .map(|(index, entry)| {
            (
                index,
                entry.recipe.is_named() || entry.recipe.is_parameterised(),
            )
        })
        .collect();
    for (index, is_library_owned) in all {
        if is_library_owned {
            handles::set_real(rt, HandleKind::Datatype, index, std::ptr::null_mut());
        } else {
            drop_real(rt, index);
        }
    }
    rt.objects.reverse.set(None);
}

/// Creates the real datatypes from their recipes, and names predefined ones.
pub fn rebuild(rt: &Runtime) {
    rt.objects.reverse.set(None);
    let bases: Vec<(u32, Vec<u32>)> = objects(rt)
        .datatypes
        .iter()
        .map(|(index, entry)| (index, entry.recipe.bases().collect()))
        .collect();
    for index in build::sort_by_dependency(&bases) {
        let all = objects(rt);
        let Some(entry) = all.datatypes.get(index) else {
            continue;
        };
        if entry.recipe.is_named() {
            let handle = entry.recipe.contained.first().copied().unwrap_or(0);
            rename(
                real_datatype(rt, VirtDatatype(handle as *mut c_void)),
                &entry.name,
            );
            continue;
        }
        match build::make(rt, entry) {
            Ok(real) => set_real(rt, index, real),
            Err(rc) => log_not_rebuilt(&format!("datatype {index}"), rc),
        }
    }
}
