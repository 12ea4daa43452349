//! Entries of datatypes in the table.

use super::recipe::Recipe;
use crate::objects::attribute::value::Attributes;

/// What is needed to make a datatype again, and what the program has attached to it.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Datatype {
    /// How it is made.
    pub recipe: Recipe,
    /// Whether it is committed.
    pub committed: bool,
    /// Its name. C strings need not be UTF-8.
    pub name: Vec<u8>,
    /// Attributes: key and value.
    pub attributes: Attributes,
    /// Number of references from recipes and by [`retain`].
    pub holders: u32,
    /// Whether the program has freed it.
    pub freed: bool,
}
