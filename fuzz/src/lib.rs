//! Bodies of fuzz targets for files, messages and settings.
//!
//! `ckptd/tests/fuzzed.rs` runs the modules below with random bytes, so that all test runs compile
//! and execute them. The other targets run functions of the crates that they test, or have a module
//! of their own.

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
