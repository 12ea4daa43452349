//! Instance of the runtime in this process.

use crate::Runtime;
use crate::runtime_state::MainThreadOnly;

static RUNTIME: MainThreadOnly<Runtime> = MainThreadOnly::new(Runtime::new());

/// Returns the runtime, for handlers and other entries from outside.
#[inline]
#[track_caller]
pub fn runtime() -> &'static Runtime {
    RUNTIME.get()
}
