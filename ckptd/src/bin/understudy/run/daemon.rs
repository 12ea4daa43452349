//! Daemon of a job: the user's daemon on this node, or the job's own.
//!
//! A job can run without a daemon. Errors here are therefore reported, and the job starts without
//! a daemon.

use super::attend::Events;
use super::settings::Settings;
use crate::product_files;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use understudy_daemon::default_socket;
use understudy_sockets::source_addresses;
use understudy_wire::client::{Client, DaemonAddress};

/// Setting that the daemon has from this program's options or files.
const PORTS: &str = "UNDERSTUDY_PORTS";
/// Maximum time in which a running daemon must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Daemon for the duration of the job.
#[derive(Default)]
pub struct Daemon {
    /// Environment variables by which the ranks find the daemon.
    pub variables: Vec<(&'static str, OsString)>,
    _own: Option<OwnDaemon>,
}

/// Daemon that was started for this job.
struct OwnDaemon {
    child: Child,
    _directory: TempDir,
    token: Option<PathBuf>,
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        // The daemon exits at the end of its standard input (`--until-stdin-ends`).
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        if let Some(token) = &self.token {
            let _ = std::fs::remove_file(token);
        }
    }
}

/// Request for the daemon of a job.
pub struct DaemonRequest<'a> {
    pub settings: &'a Settings,
    pub library: &'a Path,
    pub events: &'a Events,
    /// Hosts that ranks may run on; empty if that is this host alone.
    pub hosts: Vec<String>,
    /// True if no daemon may be started (`--dry-run`).
    pub is_dry: bool,
}

impl Daemon {
    /// Finds or starts the daemon of a job, unless the user's settings name a daemon.
    ///
    /// # Errors
    /// Fails if no daemon can be started; the error is a message for the user with the reason.
    pub fn for_job(request: &DaemonRequest<'_>) -> Result<Daemon, String> {
        if request.settings.get("UNDERSTUDY_DAEMON").is_some() {
            return Ok(Daemon::default());
        }
        if request.hosts.is_empty() {
            let socket = default_socket();
            if Client::connect(
                &DaemonAddress::Local(socket.clone()),
                None,
                ANSWER_TIMEOUT,
                0,
            )
            .is_ok()
            {
                return Ok(Daemon {
                    variables: vec![("UNDERSTUDY_DAEMON", socket.into())],
                    _own: None,
                });
            }
        }
        if request.is_dry {
            return Ok(Daemon::default());
        }
        start(request).map_err(|why| {
            format!("no daemon ({why}), so the lowest spare replaces each failed worker")
        })
    }
}

/// Starts a daemon that ends with this program.
fn start(request: &DaemonRequest<'_>) -> Result<Daemon, String> {
    let directory = tempfile::Builder::new()
        .prefix("understudy-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| format!("no directory can be made for its socket: {error}"))?;
    let socket = directory.path().join("ckptd.socket");
    let mut command = Command::new(product_files::companion(request.library, "ckptd"));
    command
        .args(["serve", "--until-stdin-ends", "--socket"])
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if std::env::var_os("UNDERSTUDY_LOG").is_none() {
        command.env("UNDERSTUDY_LOG", "warn");
    }
    let token = match request.hosts.as_slice() {
        [] => None,
        hosts => {
            let address = own_address(hosts)
                .ok_or("this host has no address that other hosts could reach")?;
            let token = request.events.path().join("ckptd.token");
            write_token(&token).map_err(|error| {
                format!(
                    "its token cannot be written to {}: {error}",
                    token.display()
                )
            })?;
            command.args([
                "--listen",
                &std::net::SocketAddr::new(address, 0).to_string(),
                "--token-file",
            ]);
            command.arg(&token);
            let ports = request.settings.get(PORTS);
            command.envs(ports.map(|ports| (PORTS, ports)));
            Some(token)
        }
    };
    let child = command
        .spawn()
        .map_err(|error| format!("ckptd cannot be executed: {error}"))?;
    let mut own = OwnDaemon {
        child,
        _directory: directory,
        token,
    };
    let remote =
        addresses(&mut own.child, own.token.is_some()).map_err(|error| error.to_string())?;
    let mut variables = vec![(
        "UNDERSTUDY_DAEMON",
        remote.map_or_else(|| socket.into(), OsString::from),
    )];
    if let Some(token) = &own.token {
        variables.push(("UNDERSTUDY_DAEMON_TOKEN", token.into()));
    }
    Ok(Daemon {
        variables,
        _own: Some(own),
    })
}

/// Waits until the daemon is ready, and returns its address for other nodes if `is_remote`.
fn addresses(child: &mut Child, is_remote: bool) -> std::io::Result<Option<String>> {
    let ended = || std::io::Error::other("it ended immediately");
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(ended)?).lines();
    let mut next = |word: &str| {
        let line = lines.next().ok_or_else(ended)??;
        let rest = line.strip_prefix(word).map(str::to_owned);
        rest.ok_or_else(|| std::io::Error::other(format!("it has printed `{line}`")))
    };
    next("socket ")?;
    is_remote
        .then(|| next("tcp ").map(|address| format!("tcp:{address}")))
        .transpose()
}

/// Writes a new random token to a file that only this user can read.
fn write_token(path: &Path) -> std::io::Result<()> {
    let text = understudy_wire::auth::nonce()?
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}

/// Returns the source address of this host for packets to one of the given hosts.
///
/// The first host whose route begins at a specified address other than loopback decides.
fn own_address(hosts: &[String]) -> Option<IpAddr> {
    let mut addresses = hosts.iter().flat_map(|host| source_addresses(host));
    addresses.find(|address| !address.is_loopback() && !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_the_daemon_takes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        write_token(&path).expect("written");
        write_token(&path).expect("written again");
        let tokens = understudy_wire::auth::read_tokens(&path).expect("fit");
        assert_eq!((tokens.len(), tokens[0].len()), (1, 64));
    }

    #[test]
    fn a_loopback_address_is_not_used() {
        assert_eq!(
            own_address(&["localhost".into()]).filter(IpAddr::is_loopback),
            None
        );
    }
}
