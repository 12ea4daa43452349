//! Hints of a communicator or window.

/// Keys and values of an info object.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
