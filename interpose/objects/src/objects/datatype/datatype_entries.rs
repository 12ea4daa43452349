//! Datatypes of the program: created, retained, freed.
//!
//! A datatype may be freed while other datatypes are derived from it. Its entry then stays as a
//! *zombie* until no recipe refers to the entry.
#![allow(unsafe_code)]

use super::build;
use super::constructors::DUP;
use super::derived_datatype::Datatype;
use super::real_datatypes::{drop_real, handle, name_of, null_handle, set_real};
use super::recipe::{CountSize, Recipe};
use super::recipe_inspection::inspect;
use crate::Runtime;
use crate::errors::{ERR_INTERN, ERR_TYPE, SUCCESS};
use crate::generated::{HandleKind, real};
use crate::handles::{DenotedObject, VirtDatatype, denoted_object, real_datatype};
use crate::objects::attribute::value::Attributes;
use crate::objects::lookup::created_index;
use crate::objects::{objects, objects_mut};
use std::cell::{Ref, RefMut};
use std::ffi::c_int;
use understudy_mpi::real_types::RealDatatype;

/// Returns the index of a created datatype that the program has not freed.
pub fn index_of_created(rt: &Runtime, datatype: VirtDatatype) -> Option<u32> {
    let index = created_index(HandleKind::Datatype, datatype.0)?;
    let all = objects(rt);
    let entry = all.datatypes.get(index)?;
    (!entry.freed && !entry.recipe.is_named()).then_some(index)
}

/// True for a predefined datatype other than the null handle.
pub fn is_predefined(rt: &Runtime, datatype: VirtDatatype) -> bool {
    matches!(denoted_object(datatype.0), DenotedObject::Predefined(_))
        && datatype != null_handle(rt)
}

/// Returns the index of a predefined datatype's entry, if one exists.
///
/// A predefined datatype has an entry only after the program has set its name or an attribute.
fn predefined_entry(rt: &Runtime, datatype: VirtDatatype) -> Option<u32> {
    let is_wanted =
        |entry: &Datatype| entry.recipe.is_named() && entry.recipe.contained == [datatype.0 as u64];
    objects(rt)
        .datatypes
        .iter()
        .find(|(_, entry)| is_wanted(entry))
        .map(|(index, _)| index)
}

/// Returns the index of a predefined datatype's entry, and creates the entry if necessary.
fn predefined_entry_or_new(rt: &Runtime, datatype: VirtDatatype) -> Option<u32> {
    if !is_predefined(rt, datatype) {
        return None;
    }
    predefined_entry(rt, datatype).or_else(|| {
        let recipe = Recipe {
            contained: vec![datatype.0 as u64],
            ..Recipe::default()
        };
        let name = name_of(real_datatype(rt, datatype));
        Some(objects_mut(rt).datatypes.insert(Datatype {
            recipe,
            committed: true,
            name,
            ..Datatype::default()
        }))
    })
}

/// Returns the attributes of a datatype; `None` if it has no entry.
///
/// Invalid handles, and most predefined datatypes, have no entry.
pub fn attributes(rt: &Runtime, datatype: VirtDatatype) -> Option<RefMut<'_, Attributes>> {
    attributes_of(
        rt,
        index_of_created(rt, datatype).or_else(|| predefined_entry(rt, datatype))?,
    )
}

/// Returns the attributes of any datatype, and creates an entry if necessary.
pub fn attributes_for_update(
    rt: &Runtime,
    datatype: VirtDatatype,
) -> Option<RefMut<'_, Attributes>> {
    attributes_of(
        rt,
        index_of_created(rt, datatype).or_else(|| predefined_entry_or_new(rt, datatype))?,
    )
}

fn attributes_of(rt: &Runtime, index: u32) -> Option<RefMut<'_, Attributes>> {
    RefMut::filter_map(objects_mut(rt), |all| {
        Some(&mut all.datatypes.get_mut(index)?.attributes)
    })
    .ok()
}

/// Creates an entry for a new real datatype; `contained` are the constructor's datatypes.
///
/// Returns the existing handle if the table already contains this parameterised datatype.
///
/// # Errors
/// Fails if the real datatype, which is then freed, cannot be inspected.
pub fn create(
    rt: &Runtime,
    mut datatype: RealDatatype,
    contained: &[VirtDatatype],
    counts: CountSize,
) -> Result<VirtDatatype, c_int> {
    let recipe = match inspect(rt, datatype, contained, counts) {
        Ok(recipe) => recipe,
        Err(rc) => {
            // SAFETY: a new datatype, whose handle the program has not received.
            unsafe { real::PMPI_Type_free(&mut datatype) };
            return Err(rc);
        }
    };
    if recipe.is_parameterised() {
        // Equal arguments give equal handles (MPI 4.1, 19.1.5).
        if let Some((index, _)) = objects(rt)
            .datatypes
            .iter()
            .find(|(_, entry)| entry.recipe == recipe)
        {
            return Ok(handle(index));
        }
    }
    let committed = match recipe.combiner {
        DUP => contained
            .first()
            .is_some_and(|&base| is_committed(rt, base)),
        _ => recipe.is_parameterised(),
    };
    Ok(enter(
        rt,
        Datatype {
            recipe,
            committed,
            name: name_of(datatype),
            ..Datatype::default()
        },
        datatype,
    ))
}

/// Adds a datatype to the table, and references to the datatypes in its recipe.
fn enter(rt: &Runtime, entry: Datatype, real: RealDatatype) -> VirtDatatype {
    let bases: Vec<u32> = entry.recipe.bases().collect();
    for base in bases {
        add_reference(rt, base);
    }
    let index = objects_mut(rt).datatypes.insert(entry);
    set_real(rt, index, real);
    handle(index)
}

fn is_committed(rt: &Runtime, datatype: VirtDatatype) -> bool {
    match index_of_created(rt, datatype) {
        Some(index) => objects(rt)
            .datatypes
            .get(index)
            .is_some_and(|entry| entry.committed),
        None => is_predefined(rt, datatype),
    }
}

/// Creates an equal datatype, for `MPI_Type_get_contents`.
///
/// Predefined datatypes are returned as they are.
pub fn duplicate_equal(rt: &Runtime, datatype: VirtDatatype) -> Result<VirtDatatype, c_int> {
    let Some(index) = created_index(HandleKind::Datatype, datatype.0) else {
        return Ok(datatype);
    };
    let entry = objects(rt)
        .datatypes
        .get(index)
        .cloned()
        .ok_or(ERR_INTERN)?;
    if entry.recipe.is_parameterised() {
        return Ok(datatype);
    }
    let copy = Datatype {
        attributes: Vec::new(),
        references: 0,
        freed: false,
        ..entry
    };
    let real = build::make(rt, &copy)?;
    Ok(enter(rt, copy, real))
}

fn add_reference(rt: &Runtime, index: u32) {
    if let Some(entry) = objects_mut(rt).datatypes.get_mut(index) {
        entry.references += 1;
    }
}

/// Keeps a datatype even if the program frees it.
///
/// For instance, a pending request that is part of a cut refers to its datatype.
pub fn retain(rt: &Runtime, datatype: VirtDatatype) {
    if let Some(index) = created_index(HandleKind::Datatype, datatype.0) {
        add_reference(rt, index);
    }
}

pub fn release(rt: &Runtime, datatype: VirtDatatype) {
    let Some(index) = created_index(HandleKind::Datatype, datatype.0) else {
        return;
    };
    match objects_mut(rt).datatypes.get_mut(index) {
        Some(entry) => entry.references = entry.references.saturating_sub(1),
        None => return,
    }
    remove_unreferenced(rt, index);
}

/// Records that the program has freed a datatype.
///
/// The caller must have deleted the attributes of the datatype.
pub fn free(rt: &Runtime, datatype: VirtDatatype) -> c_int {
    let Some(index) = index_of_created(rt, datatype) else {
        return ERR_TYPE;
    };
    match objects_mut(rt).datatypes.get_mut(index) {
        Some(entry) if !entry.recipe.is_parameterised() => entry.freed = true,
        _ => return ERR_TYPE,
    }
    remove_unreferenced(rt, index);
    SUCCESS
}

/// True if the program may free the datatype.
pub fn may_free(rt: &Runtime, datatype: VirtDatatype) -> bool {
    let is_freeable = |entry: &Datatype| !entry.recipe.is_parameterised();
    index_of_created(rt, datatype)
        .is_some_and(|index| objects(rt).datatypes.get(index).is_some_and(is_freeable))
}

/// Removes the entry of a datatype that is freed and has no references.
///
/// Then removes, by the same rule, the entries of the datatypes from which it was derived.
fn remove_unreferenced(rt: &Runtime, index: u32) {
    let mut candidates = vec![index];
    while let Some(index) = candidates.pop() {
        let is_used = |entry: &Datatype| !entry.freed || entry.references > 0;
        if objects(rt).datatypes.get(index).is_none_or(is_used) {
            continue;
        }
        let Some(entry) = objects_mut(rt).datatypes.remove(index) else {
            continue;
        };
        drop_real(rt, index);
        for base in entry.recipe.bases() {
            if let Some(base) = objects_mut(rt).datatypes.get_mut(base) {
                base.references = base.references.saturating_sub(1);
            }
            candidates.push(base);
        }
    }
}

/// Records that the datatype is committed.
pub fn set_committed(rt: &Runtime, datatype: VirtDatatype) {
    if let Some(index) = index_of_created(rt, datatype)
        && let Some(entry) = objects_mut(rt).datatypes.get_mut(index)
    {
        entry.committed = true;
    }
}

/// Records the name of the real datatype, after the program has set it.
pub fn set_name(rt: &Runtime, datatype: VirtDatatype) {
    let Some(index) =
        index_of_created(rt, datatype).or_else(|| predefined_entry_or_new(rt, datatype))
    else {
        return;
    };
    let name = name_of(real_datatype(rt, datatype));
    if let Some(entry) = objects_mut(rt).datatypes.get_mut(index) {
        entry.name = name;
    }
}

/// Returns the recipe of a created datatype.
pub fn recipe(rt: &Runtime, datatype: VirtDatatype) -> Option<Ref<'_, Recipe>> {
    let index = index_of_created(rt, datatype)?;
    Ref::filter_map(objects(rt), |all| Some(&all.datatypes.get(index)?.recipe)).ok()
}

/// Returns the recipe of a created datatype, even if the program has freed the datatype.
pub fn recipe_even_if_freed(rt: &Runtime, datatype: VirtDatatype) -> Option<Ref<'_, Recipe>> {
    let index = created_index(HandleKind::Datatype, datatype.0)?;
    Ref::filter_map(objects(rt), |all| Some(&all.datatypes.get(index)?.recipe)).ok()
}
