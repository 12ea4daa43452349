//! Request to drain a host, which is open until the host is free.

/// Request of the user to drain a host.
pub(super) struct DrainRequest {
    pub(super) node: u32,
    pub(super) host: String,
    /// Node and identifier of each request for this host.
    pub(super) requests: Vec<(u32, u64)>,
    /// True if the node manager of the host has exited.
    pub(super) has_left: bool,
    /// True if the command that was started for the host has ended.
    pub(super) has_agent_ended: bool,
}
