//! Tables of all objects.
//!
//! The operations on each kind of objects are in the files of that kind, which use this file.

use super::attribute::Keyvals;
use super::comm::{Comm, LocalComms};
use super::datatype::Datatype;
use super::dynamic::{ConnectionState, SpawnCounts};
use super::errhandler::{Errhandler, ErrorCodes};
use super::file::{LocalFile, OpenFile, RegisteredRepresentation};
use super::group::Group;
use super::info::Info;
use super::op::{Bindings, Op};
use super::session::{Session, WorldModel};
use super::slots::Slots;
use super::tool::{RealToolHandles, ToolHandles};
use super::window::{DirectWindow, RecentPart, Window};
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Objects of this process, with the state that is not in their recipes.
pub struct ObjectTables {
    /// Recipes of the objects.
    pub(super) all: StateCell<Objects>,
    /// State of communicators that is not in their recipes.
    pub(super) comm: LocalComms,
    /// Numbers of spawns at the last capture and at the last commit.
    pub(super) spawns: Cell<SpawnCounts>,
    /// Indices of datatypes, by real handle.
    pub(super) reverse: StateCell<Option<HashMap<usize, u32>>>,
    /// State of open files, by index.
    pub(super) files: StateCell<BTreeMap<u32, LocalFile>>,
    /// True if the message about an open file without a name was logged.
    pub(super) is_nameless_logged: Cell<bool>,
    /// Access to the memory of windows in this MPI instance, by index of the window.
    pub(super) direct: StateCell<BTreeMap<u32, Rc<DirectWindow>>>,
    /// Most recently accessed part of a window.
    pub(super) recent: StateCell<Option<RecentPart>>,
    /// Real handles of the tool interface.
    pub(super) tools: StateCell<RealToolHandles>,
    /// Functions of the program that the trampolines call.
    pub(super) bindings: StateCell<Bindings>,
}

#[derive(bincode::Encode, bincode::Decode)]
pub struct Objects {
    /// Communicators; 0 is the world, 1 is self.
    pub comms: Slots<Comm>,
    pub groups: Slots<Group>,
    pub datatypes: Slots<Datatype>,
    pub ops: Slots<Op>,
    pub errhandlers: Slots<Errhandler>,
    pub files: Slots<OpenFile>,
    /// Data representations that the program has registered.
    pub representations: Vec<RegisteredRepresentation>,
    /// Program's handle of the error handler of `MPI_FILE_NULL`; zero for the default.
    pub file_errhandler: u64,
    /// Error classes and codes of the program.
    pub error_codes: ErrorCodes,
    pub infos: Slots<Info>,
    pub keyvals: Keyvals,
    /// Handles of the tool interface that the program has.
    pub tool: ToolHandles,
    pub windows: Slots<Window>,
    pub sessions: Slots<Session>,
    /// Ports and published names.
    pub dynamic: ConnectionState,
    /// State of the World Model: `MPI_Init` and `MPI_Finalize`.
    pub world_model: WorldModel,
}

impl ObjectTables {
    /// Returns the state at the start of the process.
    pub const fn start() -> ObjectTables {
        ObjectTables {
            all: StateCell::new(Objects {
                comms: Slots::NONE,
                groups: Slots::NONE,
                datatypes: Slots::NONE,
                ops: Slots::NONE,
                errhandlers: Slots::NONE,
                files: Slots::NONE,
                representations: Vec::new(),
                file_errhandler: 0,
                error_codes: ErrorCodes::NONE,
                infos: Slots::NONE,
                keyvals: Keyvals::NONE,
                tool: ToolHandles::NONE,
                windows: Slots::NONE,
                sessions: Slots::NONE,
                dynamic: ConnectionState::NONE,
                world_model: WorldModel::NotYet,
            }),
            comm: LocalComms::start(),
            spawns: Cell::new(SpawnCounts::NONE),
            reverse: StateCell::new(None),
            files: StateCell::new(BTreeMap::new()),
            is_nameless_logged: Cell::new(false),
            direct: StateCell::new(BTreeMap::new()),
            recent: StateCell::new(None),
            tools: StateCell::new(RealToolHandles::START),
            bindings: StateCell::new(Bindings::start()),
        }
    }

    /// Discards the most recently accessed part of a window.
    #[inline]
    pub(super) fn discard_recent_part(&self) {
        if self.recent.borrow().is_some() {
            self.recent.set(None);
        }
    }
}
