//! What ckptd and its clients say to each other.
//!
//! ```text
//! frame   magic[4] version:u16 zero:u16 length:u32 check:u32 payload[length]      little-endian, length ≤ 256 KiB
//! ```
//!
//! `payload` is an [`Ask`] or an [`Answer`] in bincode 2's standard configuration, `check` the low
//! half of its XXH3-64. A client asks, the daemon answers; which questions have an answer is said
//! there. Over TCP the daemon speaks first, with a challenge ([`auth`]).
//!
//! A [`Decoder`] takes bytes as they come, from anybody: what is no frame of this version is an
//! error, after which nothing more can be read; it never keeps more than one frame and what was fed
//! last, and never allocates more than [`DECODE_LIMIT`] for a message.

pub mod auth;
pub mod client;
mod frame;
pub mod io;
pub mod line;
mod message;
pub mod spares;

pub use frame::{
    DECODE_LIMIT, Decoder, Frames, HEAD, MAX_PAYLOAD, UNAUTHENTICATED, VERSION, WireError, encode,
    encode_within,
};
pub use message::{Answer, Ask, Event, JobStatus, SpareStatus};
