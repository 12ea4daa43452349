//! All objects of this process: replaced at a rollback.
//!
//! Objects that need no communication are rebuilt here.

use super::object_tables::Objects;
use super::{comm, datatype, file, group, info, op, session, tool};
use crate::Runtime;

/// Replaces all objects by saved ones; real handles are invalid until they are rebuilt.
pub fn replace(rt: &Runtime, saved: Objects) {
    rt.objects.all.set(saved);
    rt.objects.forget_recent_part();
    comm::forget_recent(rt);
    file::forget_open(rt);
    session::tell(rt);
}

/// Releases the real objects that are local to this process, before [`replace`].
pub fn release_local(rt: &Runtime) {
    group::release_all(rt);
    datatype::release_all(rt);
    op::release_all(rt);
    info::release_all(rt);
    tool::forget_reals(rt);
}

/// Creates the real objects that need no communication from their recipes.
pub fn rebuild_local(rt: &Runtime) {
    info::rebuild(rt);
    datatype::rebuild(rt);
    op::rebuild(rt);
    file::representation::rebuild(rt);
}
