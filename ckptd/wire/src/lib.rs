//! Messages between ckptd and its clients, and between the processes of a job ([`line`]).
//!
//! Frames of ckptd:
//!
//! ```text
//! frame   magic[4] version:u16 zero:u16 length:u32 check:u32 payload[length]
//!         (little-endian, length ≤ 256 KiB)
//! ```
//!
//! `payload` is a [`Request`] or an [`Answer`] in bincode 2's standard configuration; `check` is
//! the low half of its XXH3-64. A client sends requests, the daemon answers them; the documentation
//! of [`Request`] lists the answers. Over TCP the daemon sends the first message, a challenge
//! ([`auth`]).
//!
//! A [`Decoder`] accepts bytes from any peer. Bytes that are not a frame of this version cause an
//! error, after which nothing more can be read. The decoder never stores more than one frame and
//! the last input, and never allocates more than [`DECODE_LIMIT`] for a message.

pub mod auth;
pub mod client;
mod frame;
pub mod io;
pub mod line;
mod message;
pub mod spares;

pub use frame::{
    DECODE_LIMIT, Decoder, FrameDecoder, HEAD_BYTES, MAX_PAYLOAD, MAX_UNAUTHENTICATED_BYTES,
    VERSION, WireError, encode, encode_within,
};
pub use message::{Answer, Event, JobStatus, Request, SpareStatus};
