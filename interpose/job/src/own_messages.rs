//! Messages of the runtime's own: started in memory of the runtime, and tested.
//!
//! After a failure they are forgotten. Their memory is kept until nobody can write there any more
//! ([`keep`]).

mod heard;
mod lent;
mod peer;
mod swap;
mod told;

pub use heard::next;
pub use lent::{Lent, all_is_back, keep};
pub use peer::{Peer, cancel, receive, send, test};
pub use swap::swap;
pub use told::Told;

/// Tags of the messages on [`crate::world::private`].
pub mod tag {
    use std::ffi::c_int;

    /// The begin of a copy: see `copies::Transfer`.
    pub const HEAD: c_int = 1;
    /// The description of its pages.
    pub const HEADER: c_int = 2;
    /// The rest of the state.
    pub const STATE: c_int = 3;
    /// Pages.
    pub const PAGES: c_int = 4;
    pub const SUMS: c_int = 5;
    /// Whether a cut is due.
    pub const VOTE: c_int = 6;
    /// A worker has what it needs to commit.
    pub const COMMIT: c_int = 7;
    /// What a holder needs for a rehearsal.
    pub const SCRIPT: c_int = 8;
    /// What a rehearsal has proved.
    pub const PROOF: c_int = 10;
    /// How static data can be rebuilt, for the holder of a copy.
    pub const STATIC: c_int = 11;
    /// The same for the process that gets a copy.
    pub const OFFER: c_int = 12;
    /// Which pages of a copy its holder has itself.
    pub const ANSWER: c_int = 9;
    /// All look for a cut wherever they are.
    pub const GATHER: c_int = 13;
    pub const STAND: c_int = 14;
    /// Nobody is to stand still.
    pub const OFF: c_int = 15;
    /// Processes come to the entry of a constructor.
    pub const ASSEMBLE: c_int = 16;
    /// The program has received a message that a cut had taken.
    pub const TAKEN: c_int = 17;
    /// Which messages a cut has taken.
    pub const SETTLE: c_int = 18;
    /// All still stand still.
    pub const CONFIRM: c_int = 19;
}
