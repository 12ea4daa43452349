//! State of an open file that is not saved.
//!
//! A rollback recreates this state.

use super::layout::Layout;
use std::sync::Arc;

/// Descriptor of an open file, and its layout if that was computed.
#[derive(Default)]
pub struct LocalFile {
    pub(super) descriptor: Option<Arc<std::fs::File>>,
    pub(super) layout: Option<Arc<Layout>>,
}
