//! The program's buffer for buffered sends (MPI 4.1, section 3.6), which is only counted with.

use crate::requests::Runtime;

/// Its place.
#[derive(Clone, Copy, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Attached {
    /// Address on the user side.
    pub address: u64,
    /// Bytes.
    pub size: i32,
}

/// What is attached, to be saved with a cut.
pub fn attached(rt: &Runtime) -> Option<Attached> {
    *rt.attached.borrow()
}

/// Attaches a buffer, or what was attached at a cut, or nothing.
pub fn attach(rt: &Runtime, buffer: Option<Attached>) {
    rt.attached.set(buffer);
}
