//! What the fuzz targets do with their bytes. `ckptd/tests/fuzzed.rs` does the same with random
//! ones, so that it is compiled and run with all tests.

pub mod epochs;
pub mod events;
pub mod sums;
pub mod watch;
pub mod wire;

/// [`wire::drive`], with right checksums if the first byte says so.
pub fn messages(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if let [how, frames @ ..] = sealed.as_mut_slice()
        && *how & 0x80 == 0
    {
        sums::wire(frames);
    }
    wire::drive(&sealed);
}
