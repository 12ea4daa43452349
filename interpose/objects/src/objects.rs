//! Objects that the program has created, as *recipes*.
//!
//! A recipe is enough to create its object in another process.
//!
//! The recipes are the part of MPI's state that belongs to the program: they are saved at a cut,
//! restored at a rollback, and sent to the buddy, as one encoded value. Real handles are not part
//! of them: [`rebuild_local`], [`comm::rebuild`], [`window::rebuild`] and [`tool::rebuild`] create
//! the real objects from the recipes, on survivors and replacements alike.

pub mod attribute;
pub mod comm;
pub mod datatype;
pub mod dynamic;
pub mod errhandler;
pub mod file;
pub mod group;
pub mod info;
mod local_objects;
pub mod lookup;
mod object_borrows;
mod object_tables;
pub mod op;
mod rebuild_error;
pub mod session;
mod slots;
pub mod tool;
pub mod window;

pub use local_objects::{rebuild_local, release_local, replace};
pub use object_borrows::{objects, objects_mut};
pub(crate) use object_tables::ObjectTables;
pub use object_tables::Objects;
pub use slots::Slots;
