//! Fault `blind`: the kernel does not report what the MPI library writes.

use crate::generated::LOCAL;
use understudy_image::blind_writes::BlindWrites;
use understudy_mpi::blind::{CallObserver, observe};

/// Observer that hides the library's writes.
struct HiddenWrites(BlindWrites);

impl CallObserver for HiddenWrites {
    fn before(&mut self) {
        report(self.0.begin());
    }

    fn after(&mut self) {
        report(self.0.end());
    }
}

/// Ends the process after an error: the test would otherwise show nothing.
fn report(result: std::io::Result<()>) {
    if let Err(error) = result {
        panic!("the fault `blind` cannot hide writes: {error}");
    }
}

/// Hides the writes of the library's procedures, except of those that wait for no process.
///
/// # Errors
/// Fails if the page map cannot be opened.
pub fn set() -> std::io::Result<()> {
    let writes = HiddenWrites(BlindWrites::new()?);
    let slots = LOCAL.iter().enumerate().filter(|(_, is_local)| !**is_local);
    observe(slots.map(|(slot, _)| slot), Box::new(writes));
    Ok(())
}
