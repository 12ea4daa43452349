//! Name of the host.

/// Returns the name of this host (uname(2), `nodename`).
pub fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
