//! The objects that the program has created, as *recipes*: enough to make each of them again in another process.
//!
//! This is the part of MPI's state that belongs to the program: it is saved at a cut, restored at a rollback, and
//! shipped to the buddy, as one encoded value. The real handles are not in it; [`rebuild_local`] and
//! [`comm::rebuild`] make them anew from the recipes, on survivors and understudies alike.

pub mod attribute;
pub mod comm;
pub mod datatype;
pub mod errhandler;
pub mod group;
pub mod info;
pub(crate) mod lookup;
pub mod op;
mod slots;

use crate::cell::Main;
pub use slots::Slots;

/// All created objects.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Objects {
    /// Communicators; 0 is the world, 1 is self.
    pub comms: Slots<comm::Comm>,
    /// Groups.
    pub groups: Slots<group::Group>,
    /// Derived datatypes.
    pub datatypes: Slots<datatype::Datatype>,
    /// Operators.
    pub ops: Slots<op::Op>,
    /// Error handlers.
    pub errhandlers: Slots<errhandler::Errhandler>,
    /// Error handler of MPI_FILE_NULL; 0: the default.
    pub file_errhandler: u64,
    /// Error classes and codes of the program.
    pub error_codes: errhandler::ErrorCodes,
    /// Info objects.
    pub infos: Slots<info::Info>,
    /// Attribute keys.
    pub keyvals: attribute::Keyvals,
}

static OBJECTS: Main<Option<Objects>> = Main::new(None);

/// The objects of this process. A borrow must not be held while the program is called back.
pub fn objects() -> &'static mut Objects {
    OBJECTS.get().get_or_insert_with(Objects::default)
}

/// Replaces all objects by saved ones; the real handles are stale until they are rebuilt.
pub fn replace(saved: Objects) {
    *OBJECTS.get() = Some(saved);
    comm::forget_recent();
}

/// Releases the real objects that are local to this process, before [`replace`].
pub fn release_local() {
    group::release_all();
    datatype::release_all();
    op::release_all();
    errhandler::release_all();
    info::release_all();
}

/// Makes the real objects that need no communication from their recipes.
pub fn rebuild_local() {
    info::rebuild();
    errhandler::rebuild();
    datatype::rebuild();
    op::rebuild();
}
