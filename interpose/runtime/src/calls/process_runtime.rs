//! Instance of the runtime in this process.

use crate::Runtime;
use crate::cell::Entered;

static RUNTIME: Entered<Runtime> = Entered::new(Runtime::new());

/// Returns the runtime, for handlers and other entries from outside.
#[inline]
#[track_caller]
pub fn runtime() -> &'static Runtime {
    RUNTIME.get()
}
