//! The objects that the program has created, as *recipes*: enough to make each of them again in another process.
//!
//! This is the part of MPI's state that belongs to the program: it is saved at a cut, restored at a rollback, and
//! shipped to the buddy, as one encoded value. The real handles are not in it; [`rebuild_local`] and
//! [`comm::rebuild`] make them anew from the recipes, on survivors and understudies alike.

pub mod attribute;
pub mod comm;
pub mod datatype;
pub mod dynamic;
pub mod errhandler;
pub mod file;
pub mod group;
pub mod info;
pub(crate) mod lookup;
pub mod op;
pub mod session;
mod slots;
pub mod tool;
pub mod window;

use crate::abi;
use crate::cell::{Field, runtime};
pub use slots::Slots;
use std::cell::{Cell, Ref, RefMut};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::rc::Rc;
use understudy_mpi::call;

runtime! {
    pub struct Runtime: abi::Runtime {
        objects: Field<Objects> = Field::new(Objects {
            comms: Slots::NONE,
            groups: Slots::NONE,
            datatypes: Slots::NONE,
            ops: Slots::NONE,
            errhandlers: Slots::NONE,
            files: Slots::NONE,
            representations: Vec::new(),
            file_errhandler: 0,
            error_codes: errhandler::ErrorCodes::NONE,
            infos: Slots::NONE,
            keyvals: attribute::Keyvals::NONE,
            tool: tool::Tool::NONE,
            windows: Slots::NONE,
            sessions: Slots::NONE,
            dynamic: dynamic::Dynamic::NONE,
            world_model: session::WorldModel::NotYet,
        }),
        /// What no recipe has of communicators.
        comm: comm::Here = comm::Here::new(),
        /// How often processes had been spawned at the last capture, and at the last commit.
        spawns: Cell<(u64, u64)> = Cell::new((0, 0)),
        /// From real datatypes to indices.
        reverse: Field<Option<HashMap<usize, u32>>> = Field::new(None),
        /// By index of the file.
        files: Field<BTreeMap<u32, file::Here>> = Field::new(BTreeMap::new()),
        /// It has been said that an open file has no name.
        nameless_told: Cell<bool> = Cell::new(false),
        /// By index of the window: how its memory is reached in this generation.
        direct: Field<BTreeMap<u32, Rc<window::Direct>>> = Field::new(BTreeMap::new()),
        /// The part of a window that was reached last.
        recent: Field<Option<window::recent::Recent>> = Field::new(None),
        /// Real handles of the tool interface.
        tools: Field<tool::Reals> = Field::new(tool::Reals::START),
        /// Which function of ours calls which of the program's.
        bindings: Field<op::Bindings> = Field::new(op::Bindings::new()),
    }
}

#[derive(bincode::Encode, bincode::Decode)]
pub struct Objects {
    /// Communicators; 0 is the world, 1 is self.
    pub comms: Slots<comm::Comm>,
    pub groups: Slots<group::Group>,
    pub datatypes: Slots<datatype::Datatype>,
    pub ops: Slots<op::Op>,
    pub errhandlers: Slots<errhandler::Errhandler>,
    pub files: Slots<file::File>,
    /// Data representations that the library has accepted.
    pub representations: Vec<file::representation::Registered>,
    /// Error handler of MPI_FILE_NULL; 0: the default.
    pub file_errhandler: u64,
    /// Error classes and codes of the program.
    pub error_codes: errhandler::ErrorCodes,
    pub infos: Slots<info::Info>,
    pub keyvals: attribute::Keyvals,
    /// What the tool interface has given out.
    pub tool: tool::Tool,
    pub windows: Slots<window::Window>,
    pub sessions: Slots<session::Session>,
    /// Ports and published names.
    pub dynamic: dynamic::Dynamic,
    /// What has become of `MPI_Init` and `MPI_Finalize`.
    pub world_model: session::WorldModel,
}

/// The objects of this process. A borrow must not be held while the program is called back.
#[inline]
#[track_caller]
pub fn objects(rt: &Runtime) -> Ref<'_, Objects> {
    rt.objects.borrow()
}

/// The same, to be changed.
#[track_caller]
pub fn objects_mut(rt: &Runtime) -> RefMut<'_, Objects> {
    window::recent::forget(rt);
    rt.objects.borrow_mut()
}

/// Replaces all objects by saved ones; the real handles are stale until they are rebuilt.
pub fn replace(rt: &Runtime, saved: Objects) {
    rt.objects.set(saved);
    window::recent::forget(rt);
    comm::forget_recent(rt);
    file::forget_open(rt);
    session::tell(rt);
}

/// Releases the real objects that are local to this process, before [`replace`].
pub fn release_local(rt: &Runtime) {
    group::release_all(rt);
    datatype::release_all(rt);
    op::release_all(rt);
    errhandler::release_all();
    info::release_all(rt);
    tool::forget_reals(rt);
}

/// Tells of an object that could not be made again. If a further failure is why, all are made again in the next attempt.
fn not_made_again(what: &str, rc: c_int) {
    if rc != call::ABANDONED && !call::is_over() {
        log::error!(
            "{what} could not be made again: {}",
            understudy_mpi::error::text(rc)
        );
    }
}

/// Makes the real objects that need no communication from their recipes.
pub fn rebuild_local(rt: &Runtime) {
    info::rebuild(rt);
    errhandler::rebuild();
    datatype::rebuild(rt);
    op::rebuild(rt);
    file::representation::rebuild(rt);
}
