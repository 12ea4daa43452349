//! Bodies of the fuzz targets.
//!
//! `ckptd/tests/fuzzed.rs` runs them with random bytes, so that all test runs compile and execute
//! them.

pub mod epoch_reader;
pub mod event_reader;
pub mod line_messages;
pub mod recording_allocator;
pub mod settings_text;
pub mod sums;
pub mod wire_decoder;

/// Runs [`wire_decoder::drive`], with correct checksums if the first byte requests that.
pub fn messages(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if let [how, frames @ ..] = sealed.as_mut_slice()
        && *how & 0x80 == 0
    {
        sums::wire(frames);
    }
    wire_decoder::drive(&sealed);
}
