//! The runtime of this process.

use crate::Runtime;
use crate::cell::Entered;

static RUNTIME: Entered<Runtime> = Entered::new(Runtime::new());

/// The runtime, for handlers and what else is entered from outside.
#[inline]
#[track_caller]
pub fn runtime() -> &'static Runtime {
    RUNTIME.get()
}
