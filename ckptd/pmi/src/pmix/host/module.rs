//! Table of the functions that libpmix calls.

use super::exchanges::{connect, direct_modex, disconnect, fence};
use super::lifecycle::{abort, connected, finalized};
use super::published_names::{lookup, publish, unpublish};
use super::spawn::spawn;
use crate::pmix::abi::Module;

/// Returns the table for libpmix.
pub fn module() -> Module {
    Module {
        connected: None,
        finalized: Some(finalized),
        abort: Some(abort),
        fence: Some(fence),
        direct_modex: Some(direct_modex),
        publish: Some(publish),
        lookup: Some(lookup),
        unpublish: Some(unpublish),
        spawn: Some(spawn),
        connect: Some(connect),
        disconnect: Some(disconnect),
        register_events: None,
        deregister_events: None,
        listener: None,
        notify_event: None,
        query: None,
        tool_connected: None,
        log: None,
        allocate: None,
        job_control: None,
        monitor: None,
        get_credential: None,
        validate_credential: None,
        forward_output: None,
        push_input: None,
        group: None,
        fabric: None,
        connected2: Some(connected),
        later: [None; 64],
    }
}
