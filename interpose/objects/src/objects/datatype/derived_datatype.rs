//! Entries of datatypes in the table.

use super::recipe::Recipe;
use crate::objects::attribute::value::Attributes;

/// Recipe of a datatype, and the values that the program has attached to it.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Datatype {
    /// Constructor and arguments.
    pub recipe: Recipe,
    /// True if the datatype is committed.
    pub committed: bool,
    /// Name of the datatype. C strings need not be UTF-8.
    pub name: Vec<u8>,
    /// Attributes: keys and values.
    pub attributes: Attributes,
    /// Number of references from recipes and by [`retain`](super::retain).
    pub holders: u32,
    /// True if the program has freed the datatype.
    pub freed: bool,
}
