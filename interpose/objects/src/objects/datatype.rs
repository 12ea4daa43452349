//! Derived datatypes (MPI 4.1, chapter 5).
//!
//! The recipe of a datatype is its constructor with the arguments (`recipe`). The real library
//! reports both (`recipe_inspection`), and `build` creates the datatype from them.
//!
//! A datatype may be freed while other datatypes are derived from it; its entry then stays as a
//! *zombie* until no recipe refers to the entry.

mod build;
pub mod combiner;
mod constructors;
mod datatype_entries;
mod datatype_rebuild;
mod derived_datatype;
pub mod elements;
mod real_datatypes;
mod recipe;
mod recipe_inspection;

pub use datatype_entries::{
    attributes, attributes_for_update, create, duplicate_equal, free, index_of_created,
    is_predefined, may_free, recipe, recipe_even_if_freed, release, retain, set_committed,
    set_name,
};
pub use datatype_rebuild::{rebuild, release_all};
pub use derived_datatype::Datatype;
pub use real_datatypes::{handle, name_of, null_handle, virtual_of};
pub use recipe::{CountSize, Recipe};
