//! The program's buffer for buffered sends (MPI 4.1, section 3.6), which is only counted with.

use crate::cell::Main;

/// Its place.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Attached {
    /// Address on the user side.
    pub address: u64,
    /// Bytes.
    pub size: i32,
}

static ATTACHED: Main<Option<Attached>> = Main::new(None);

/// What is attached, to be saved with a cut.
pub fn attached() -> Option<Attached> {
    *ATTACHED.borrow()
}

/// Attaches a buffer, or what was attached at a cut, or nothing.
pub fn attach(buffer: Option<Attached>) {
    ATTACHED.set(buffer);
}
